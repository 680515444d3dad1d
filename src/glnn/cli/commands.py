"""``glnn doctor``: what is installed, what can compute, where data lie."""

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glnn.cli import options as given

# --- doctor: ``glnn doctor``: what is installed, what can compute, where data lie

_MARKS = {"ok": ("ok", "green"), "note": ("--", "yellow"), "bad": ("!!", "red")}


def doctor(as_json: given.AsJson = False) -> None:
    """Check this installation: versions, devices, data folders, and a fit of two seconds."""
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


# --- report: ``glnn report``: make the page of a run again


def report(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; by default report.html in the run folder.")
    ] = None,
) -> None:
    """Make the page of a run again, to explore it in a browser; no network is needed."""
    from glnn.data.files import atomic_write
    from glnn.report.page.document import render
    from glnn.report.page.page_data import read_page

    html = render(read_page(run / "page.npz"))
    path = run / "report.html" if out is None else out
    with atomic_write(path) as file:
        file.write(html)
    typer.echo(str(path))


# --- export: ``glnn export``: the learned graph of a run for other programs

EXPORT_EXAMPLES = """[bold]Examples[/bold]

glnn export runs/digits-default-0 --to gexf  [dim]# opens in Gephi[/dim]

glnn export runs/digits-default-0 --to csv --out tables"""


def export(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    to: Annotated[
        str, typer.Option(help="graphml, gexf, csv, npz or parquet.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the files; else export in the run folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace old files.")] = False,
) -> None:
    """Write nodes with class, probability and given label, and edges with weight and origin."""
    from glnn.report.export import export_page
    from glnn.report.page.page_data import read_page

    folder = run / "export" if out is None else out
    for path in export_page(read_page(run / "page.npz"), folder, to, overwrite=overwrite):
        typer.echo(str(path))


# --- compare: ``glnn compare``: runs side by side

COMPARE_EXAMPLES = """[bold]Examples[/bold]

glnn compare runs/digits-default-0 runs/digits-paper-0  [dim]# same labels, other preset[/dim]

glnn compare runs/* --json > comparison.json"""


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders of glnn fit.")
    ],
    as_json: given.AsJson = False,
) -> None:
    """Put runs side by side: verdicts, paired differences, links they share."""
    from glnn.report.compare import compare_runs
    from glnn.report.terminal import pair_table, run_table

    comparison = compare_runs(runs)
    if as_json:
        typer.echo(json.dumps(comparison.to_dict(), indent=2))
        return
    console = Console()
    console.print(run_table(comparison))
    console.print(pair_table(comparison))


# --- explain: ``glnn explain``: why a node of a run got its class

EXPLAIN_EXAMPLES = """[bold]Examples[/bold]

glnn explain runs/people-default-0 ann  [dim]# her links, and what made them[/dim]

glnn explain runs/people-default-0 ann --json > ann.json"""


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    node: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a node of the run.", show_default=False)
    ],
    links: Annotated[int, typer.Option(min=0, help="Links to show.")] = 10,
    labels: Annotated[int, typer.Option(min=0, help="Labelled nodes to show.")] = 10,
    as_json: given.AsJson = False,
) -> None:
    """Say why a node got its class: its links and what made them, and the labels that speak."""
    from rich.console import Console

    from glnn.report.explained import explain_node, heading, link_table, voice_table
    from glnn.report.text import RAW

    found = explain_node(run, node, n_links=links, n_labels=labels)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    console = Console()
    plain: Any = {"markup": False, "highlight": False}
    console.print(heading(found), **plain)
    if not found.is_calibrated:
        console.print(f"{RAW[:1].upper()}{RAW[1:]}.", **plain)
    console.print(link_table(found))
    console.print(voice_table(found))
    columns = ", ".join(f"{name} {value:.4f}" for name, value in found.explanation.columns.items())
    if columns:
        console.print(f"Columns that made its links: {columns}.", **plain)


# --- predict: ``glnn predict``: classify new rows with the model of a run

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
        typer.Option(help="File for ids, labels and all probabilities; else they are printed."),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(help="Mark text in FILE that a spreadsheet would run as a formula."),
    ] = True,
) -> None:
    """Classify rows that were not there in training, by their best links to those that were."""
    from glnn.data import write_predictions
    from glnn.report.predict import predict_rows
    from glnn.report.text import count

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
        typer.echo(f"{count(len(found.ids), 'row')} in {out}")
    for line in found.judged.lines():
        typer.echo(f"glnn: note: {line}", err=True)


# --- tune: ``glnn tune``: choose parameters by folds over the labels

TUNE_EXAMPLES = """[bold]Examples[/bold]

glnn tune people.csv --label job --trials 30 --out runs/tuned

glnn fit people.csv --label job --settings runs/tuned/tuning.json  [dim]# use it[/dim]

The same command again goes on where it was; several at once, with one --out, share the work."""


@given.with_table_options
def tune(
    name: given.Name,
    columns: Any,
    labels: given.LabelFile = None,
    graph: given.GraphFile = None,
    labels_per_class: given.LabelsPerClass = None,
    no_graph: given.NoGraph = False,
    preset: given.Preset = "default",
    epochs: given.Epochs = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try; first the preset's.")] = 20,
    folds: Annotated[int, typer.Option(min=2, help="Fits of each trial.")] = 3,
    nested: Annotated[
        int,
        typer.Option(
            min=0,
            help="Folds of the nested estimate, each a search of its own without their labels; "
            "0 leaves it out.",
        ),
    ] = 3,
    goal: Annotated[
        str, typer.Option(help="accuracy, balanced_accuracy, macro_f1 or log_loss.")
    ] = "accuracy",
    seed: given.Seed = 0,
    device: given.Device = "cpu",
    threads: given.Threads = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; else runs/NAME-tuning-SEED.")
    ] = None,
    quiet: given.Quiet = False,
) -> None:
    """Choose parameters by the estimate on hidden labels, and judge the choice by a nested one."""
    from glnn.exceptions import InputError
    from glnn.report.sources import Reading, Source
    from glnn.report.tune_run import SETTINGS, TuneOptions, run_tuning

    if nested == 1:
        raise InputError("--nested must be 0 or at least 2, got 1.")
    source = Source(name, labels, graph, columns.changed(drop_constant=True, needs_label=True))
    options = TuneOptions(preset, trials, folds, nested, goal, seed, epochs, device, threads)
    folder = out or Path("runs") / f"{Path(name).stem}-tuning-{seed}"
    console = Console(quiet=quiet)

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    found, judged = run_tuning(
        Reading(source, no_graph, labels_per_class, seed), options, folder, say
    )
    say(f"best: {goal} {found.value:.4f} with {found.params or 'the preset as it is'}")
    if judged is not None:
        say(f"nested estimate of the tuned fit: {judged.verdict.sentence}")
    say(f"settings: {folder / SETTINGS}")
