"""The commands doctor, report, export, compare, explain, predict and tune."""

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


def doctor(as_json: opt.AsJson = False) -> None:
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


def report(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; by default report.html in the run folder.")
    ] = None,
) -> None:
    """Write the HTML report of a run again; it opens in any browser, without a network."""
    from glnn.data.files import atomic_write
    from glnn.report.page.document import render
    from glnn.report.page.page_data import read_page_data

    html = render(read_page_data(run / "page.npz"))
    path = run / "report.html" if out is None else out
    with atomic_write(path) as file:
        file.write(html)
    typer.echo(str(path))


EXPORT_EXAMPLES = """[bold]Examples[/bold]

glnn export runs/digits-default-0 --to gexf  [dim]# opens in Gephi[/dim]

glnn export runs/digits-default-0 --to csv --out tables"""


def export(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    to: Annotated[
        str, typer.Option(help="graphml, gexf, csv, npz or parquet.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the files; by default export in the run folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Export nodes with class, probability and given label, and edges with weight and origin."""
    from glnn.report.export import export_graph
    from glnn.report.page.page_data import read_page_data

    folder = run / "export" if out is None else out
    for path in export_graph(read_page_data(run / "page.npz"), folder, to, overwrite=overwrite):
        typer.echo(str(path))


COMPARE_EXAMPLES = """[bold]Examples[/bold]

glnn compare runs/digits-default-0 runs/digits-paper-0  [dim]# same labels, another preset[/dim]

glnn compare runs/* --json > comparison.json"""


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders of glnn fit.")
    ],
    as_json: opt.AsJson = False,
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


EXPLAIN_EXAMPLES = """[bold]Examples[/bold]

glnn explain runs/people-default-0 ann  [dim]# the links of ann, and why they exist[/dim]

glnn explain runs/people-default-0 ann --json > ann.json"""


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    node: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a node of the run.", show_default=False)
    ],
    links: Annotated[int, typer.Option(min=0, help="Links to show.")] = 10,
    as_json: opt.AsJson = False,
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
    columns = ", ".join(f"{name} {value:.4f}" for name, value in found.explanation.columns.items())
    if columns:
        console.print(f"Columns that contribute most to its links: {columns}.", **plain)
    console.print(
        "Effects of labels are not measured, as a saved run has no training data; in Python, "
        "explain measures them after fit.",
        **plain,
    )


PREDICT_EXAMPLES = """[bold]Examples[/bold]

glnn predict runs/people-default-0 new.csv  [dim]# ids, labels and probabilities as CSV[/dim]

glnn predict runs/people-default-0 new.csv --links friends_of_new.csv --out jobs_of_new.csv"""


def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
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
    """Classify new rows, which are linked to the most similar rows of the training data."""
    from glnn.data import write_predictions
    from glnn.report.predict import predict_rows
    from glnn.report.text import format_count

    found = predict_rows(run, new, links)
    for note in found.notes:
        typer.echo(f"glnn: note: {note}", err=True)
    if out is None:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["id", "label", "probability"])
        chances = (f"{chance:.6g}" for chance in found.confidence)
        writer.writerows(zip(found.ids.tolist(), found.labels.tolist(), chances))
    else:
        answers = (found.ids, found.labels, found.probabilities, found.classes)
        write_predictions(out, *answers, spreadsheet_safe=spreadsheet_safe)
        typer.echo(f"{format_count(len(found.ids), 'row')} in {out}")
    for line in found.row_accuracy.lines():
        typer.echo(f"glnn: note: {line}", err=True)


TUNE_EXAMPLES = """[bold]Examples[/bold]

glnn tune people.csv --label job --trials 30 --out runs/tuned

glnn fit people.csv --label job --settings runs/tuned/tuning.json  [dim]# use it[/dim]

The same command again resumes the search; several at once, with one --out, share the work."""


@opt.with_table_options
def tune(
    name: opt.Name,
    columns: Any,
    labels: opt.LabelFile = None,
    graph: opt.GraphFile = None,
    labels_per_class: opt.LabelsPerClass = None,
    no_graph: opt.NoGraph = False,
    preset: opt.Preset = "default",
    epochs: opt.Epochs = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of settings to try; the first is the preset.")
    ] = 20,
    folds: Annotated[int, typer.Option(min=2, help="Folds of each trial.")] = 3,
    nested: Annotated[
        int,
        typer.Option(
            min=0,
            help="Outer folds of the nested estimate, each with its own search; 0: no estimate.",
        ),
    ] = 3,
    goal: Annotated[
        str, typer.Option(help="accuracy, balanced_accuracy, macro_f1 or log_loss.")
    ] = "accuracy",
    seed: opt.Seed = 0,
    device: opt.Device = "cpu",
    threads: opt.Threads = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; by default runs/NAME-tuning-SEED.")
    ] = None,
    quiet: opt.Quiet = False,
) -> None:
    """Search for parameters by cross-validation, and evaluate the search by nested folds."""
    from glnn.exceptions import InputError
    from glnn.report.sources import DataSpec, Source
    from glnn.report.tune_run import SETTINGS, TuneOptions, run_tuning

    if nested == 1:
        raise InputError("--nested must be 0 or at least 2, got 1.")
    source = Source(name, labels, graph, columns.replace(drop_constant=True, needs_label=True))
    options = TuneOptions(preset, trials, folds, nested, goal, seed, epochs, device, threads)
    folder = out or Path("runs") / f"{Path(name).stem}-tuning-{seed}"
    console = Console(quiet=quiet)

    def print_line(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    found, estimate = run_tuning(
        DataSpec(source, no_graph, labels_per_class, seed), options, folder, print_line
    )
    print_line(f"best: {goal} {found.value:.4f} with {found.params or 'the preset as it is'}")
    if estimate is not None:
        print_line(f"nested estimate of the tuned fit: {estimate.verdict.sentence}")
    print_line(f"settings: {folder / SETTINGS}")
