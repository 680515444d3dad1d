"""The commands doctor, report, export, compare, explain, suggest, predict and tune."""

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glnn.cli import options as opt

_MARKS = {"ok": ("ok", "green"), "note": ("--", "yellow"), "bad": ("!!", "red")}


@opt.with_options
def doctor(as_json: bool = False) -> None:
    """Check this installation: versions, devices, data folders, and a short fit."""
    from glnn.report.health import health_rows

    rows = list(health_rows())
    if as_json:
        typer.echo(json.dumps([dict(zip(("state", "subject", "words"), row)) for row in rows]))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        for state, subject, words in rows:
            table.add_row(Text(*_MARKS[state]), Text(subject), Text(words))
        Console().print(table)
    if any(state == "bad" for state, _, _ in rows):
        raise typer.Exit(1)


@opt.with_options
def report(
    run: Path,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; by default report.html in the run folder.")
    ] = None,
) -> None:
    """Write the HTML report of a run again; it opens in any browser, without a network."""
    from glnn.data.files import atomic_write
    from glnn.report.page.document import render
    from glnn.report.results import read_results

    html = render(read_results(run))
    path = run / "report.html" if out is None else out
    with atomic_write(path) as file:
        file.write(html)
    typer.echo(str(path))


@opt.with_options
def export(
    run: Path,
    to: Annotated[
        str, typer.Option(help="graphml, gexf, csv, npz or parquet.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the files; by default export in the run folder.")
    ] = None,
    overwrite: bool = False,
) -> None:
    """Export the learned graph: nodes with class and probability, edges with their weight."""
    from glnn.report.export import export_graph
    from glnn.report.results import read_results

    folder = run / "export" if out is None else out
    for path in export_graph(read_results(run), folder, to, overwrite=overwrite):
        typer.echo(str(path))


@opt.with_options
def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders of glnn fit.")
    ],
    as_json: bool = False,
) -> None:
    """Compare runs: verdicts, paired differences in accuracy, shared links."""
    from glnn.report.compare import compare_runs
    from glnn.report.terminal import pair_table, run_table

    comparison = compare_runs(runs)
    if as_json:
        typer.echo(json.dumps(comparison.to_dict(), indent=2))
        return
    console = Console()
    console.print(run_table(comparison))
    console.print(pair_table(comparison))


@opt.with_options
def explain(
    run: Path,
    node: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a node of the run.", show_default=False)
    ],
    links: Annotated[int, typer.Option(min=0, help="Links to show.")] = 10,
    as_json: bool = False,
) -> None:
    """Explain why a node got its class: its links, and the columns behind them."""
    from glnn.report.explained import explain_node, heading, link_table
    from glnn.report.text import UNCALIBRATED

    found = explain_node(run, node, n_links=links)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    console = Console()
    plain: Any = {"markup": False, "highlight": False}
    console.print(heading(found), **plain)
    if not found.is_calibrated:
        console.print(f"{UNCALIBRATED[:1].upper()}{UNCALIBRATED[1:]}.", **plain)
    console.print(link_table(found))
    columns = ", ".join(found.explanation.columns)
    if columns:
        console.print(f"Columns that count most for its links: {columns}.", **plain)
    console.print(
        "In Python, clf.explain(..., refits=1) also measures the effect of single labels.", **plain
    )


@opt.with_options
def suggest(
    run: Path,
    k: Annotated[int, typer.Option("-k", min=1, help="Rows to suggest.")] = 20,
    as_json: bool = False,
) -> None:
    """Suggest which rows to label next, the most useful first."""
    from glnn.report.results import read_results
    from glnn.report.terminal import suggestion_table, suggestions

    found = suggestions(read_results(run), run, k)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif found:
        Console().print(suggestion_table(found))
    else:
        typer.echo("Every row has a label.")


PREDICT_EXAMPLES = """[bold]Examples[/bold]

glnn predict runs/people-default-0 new.csv  [dim]# ids, labels and probabilities as CSV[/dim]

glnn predict runs/people-default-0 new.csv --links friends_of_new.csv --out jobs_of_new.csv"""


@opt.with_options
def predict(
    run: Path,
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW.csv",
            help="Table with the columns of the training data, found by name.",
            show_default=False,
        ),
    ],
    links: Annotated[
        Path | None, typer.Option(help="Edge list between new ids and training ids.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for ids, labels and all probabilities; by default they are printed."
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(help="Escape text in FILE that a spreadsheet would run as a formula."),
    ] = True,
) -> None:
    """Classify new rows with the model of a run, by their links to its most similar rows."""
    from glnn.data import write_predictions
    from glnn.report.predict import predict_rows
    from glnn.report.text import format_count

    found = predict_rows(run, new, links)
    for note in found.notes:
        typer.echo(f"glnn: note: {note}", err=True)
    if out is None:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([found.id_name, "predicted", "probability"])
        chances = (f"{chance:.6g}" for chance in found.probabilities.max(1))
        writer.writerows(zip(found.ids.tolist(), found.labels.tolist(), chances))
    else:
        answers = (found.ids, found.labels, found.probabilities, found.classes)
        how: Any = {"id_name": found.id_name, "spreadsheet_safe": spreadsheet_safe}
        write_predictions(out, *answers, **how)
        typer.echo(f"{format_count(len(found.ids), 'row')} in {out}")
    for line in found.accuracy:
        typer.echo(f"glnn: note: {line}", err=True)


TUNE_EXAMPLES = """[bold]Examples[/bold]

glnn tune people.csv --label job --trials 30 --out runs/tuned

glnn fit people.csv --label job --preset runs/tuned/tuning.json  [dim]# use it[/dim]

The same command again resumes the search; several at once, with one --out, share the work."""


@opt.with_options
def tune(
    name: str,
    columns: Any,
    labels: Path | None = None,
    graph: Path | None = None,
    labels_per_class: int | None = None,
    no_graph: bool = False,
    preset: Annotated[str, typer.Option(help="default or paper.")] = "default",
    epochs: int | None = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of settings to try; the first is the preset.")
    ] = 20,
    folds: Annotated[int, typer.Option(min=2, help="Folds of each trial.")] = 3,
    nested: Annotated[
        int, typer.Option(min=0, help="Outer folds, each with its own search; 0: no estimate.")
    ] = 3,
    goal: Annotated[
        str, typer.Option(help="accuracy, balanced_accuracy, macro_f1 or log_loss.")
    ] = "accuracy",
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; by default runs/NAME-tuning-SEED.")
    ] = None,
    quiet: bool = False,
) -> None:
    """Search for parameters by cross-validation, and evaluate the search by nested folds."""
    from glnn.exceptions import InputError
    from glnn.report.sources import Source
    from glnn.report.tune_run import SETTINGS, TuneOptions, run_tuning

    if nested == 1:
        raise InputError("--nested must be 0 or at least 2, got 1.")
    how = columns.replace(drop_constant=True, needs_label=True)
    split: Any = {"no_graph": no_graph, "labels_per_class": labels_per_class, "seed": seed}
    source = Source(name, labels, graph, how, **split)
    options = TuneOptions(preset, trials, folds, nested, goal, seed, epochs, device, threads)
    folder = out or Path("runs") / f"{Path(name).stem}-tuning-{seed}"
    console = Console(quiet=quiet)

    def print_line(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    found, estimate = run_tuning(source, options, folder, print_line)
    print_line(f"best: {goal} {found.value:.4f} with {found.params or 'the preset as it is'}")
    if estimate is not None:
        print_line(f"nested estimate of the tuned fit: {estimate.verdict.sentence}")
    print_line(f"settings: {folder / SETTINGS}")
