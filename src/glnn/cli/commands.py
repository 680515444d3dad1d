"""The commands doctor, report, export, compare, explain, suggest, predict and tune."""

import csv
import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table
from rich.text import Text

from glnn.cli import options as opt


def doctor() -> None:
    """Check this installation: versions, optional packages, devices and data folders."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for is_ok, subject, words in health_rows():
        table.add_row(Text("ok", "green") if is_ok else Text("--", "yellow"), subject, words)
    opt.make_console().print(table)


def health_rows() -> Iterator[tuple[bool, str, str]]:
    """Yield for each check whether all is there, the subject, and a text."""
    import torch

    from glnn._utils import EXTRAS, install_hint
    from glnn.data.datasets import BUILT_IN, DATASETS, data_folders
    from glnn.report.text import find_version, package_versions

    yield True, "platform", platform.platform()
    for package, found in package_versions().items():
        yield True, package, found
    for package in EXTRAS:
        installed = find_version(package)
        missing = f"not installed; install it with: {install_hint(package)}"
        yield installed is not None, package, installed or missing
    yield True, "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    yield bool(gpus), "cuda", ", ".join(gpus) or "none; everything runs on the CPU"
    yield True, "built-in data", ", ".join(BUILT_IN)
    for folder in data_folders():
        here = [name for name in DATASETS if (folder / f"{name}.npz").is_file()]
        listed = ", ".join(here) or "nothing; glnn data fetch NAME"
        yield bool(here), "data folder", f"{folder}: {listed}"


@opt.with_options
def report(run: Path, out: Path | None = None) -> None:
    """Write the HTML report of a run again; it opens in any browser, without a network."""
    from glnn.data.files import write_file
    from glnn.report.page.document import render
    from glnn.report.results import read_results

    html = render(read_results(run))
    path = run / "report.html" if out is None else out
    write_file(path, html)
    typer.echo(str(path))


@opt.with_options
def export(run: Path, to: str, out: Path | None = None, overwrite: bool = False) -> None:
    """Export the learned graph: nodes with class and probability, edges with their weight."""
    from glnn.report.export import export_graph
    from glnn.report.results import read_results

    folder = run / "export" if out is None else out
    for path in export_graph(read_results(run), folder, to, overwrite=overwrite):
        typer.echo(str(path))


@opt.with_options
def compare(runs: list[Path], as_json: bool = False) -> None:
    """Compare runs: verdicts, paired differences in accuracy, shared links."""
    from glnn.report.compare import compare_runs, pair_table, run_table

    found, pairs = compare_runs(runs)
    if as_json:
        page = {"runs": [*map(asdict, found)], "pairs": [*map(asdict, pairs)]}
        typer.echo(json.dumps(page, indent=2))
        return
    console = opt.make_console()
    console.print(run_table(found))
    console.print(pair_table(pairs))


@opt.with_options
def explain(
    run: Path,
    node: str,
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
    console = opt.make_console()
    console.print(heading(found))
    if not found.is_calibrated:
        console.print(f"{UNCALIBRATED[:1].upper()}{UNCALIBRATED[1:]}.")
    console.print(link_table(found))
    columns = ", ".join(found.explanation.columns)
    if columns:
        console.print(f"Columns that count most for its links: {columns}.")
    console.print(
        "In Python, clf.explain(..., refits=1) also measures the effect of single labels."
    )


@opt.with_options
def suggest(
    run: Path,
    k: Annotated[int, typer.Option("-k", min=1, help="Rows to suggest.")] = 20,
    as_json: bool = False,
) -> None:
    """Suggest which rows to label next, the most useful first."""
    from glnn.report.results import read_results
    from glnn.report.text import suggestion_table, suggestions

    results = read_results(run)
    found = suggestions(results, run, k)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif found:
        opt.make_console().print(suggestion_table(found, results.id_name))
    else:
        typer.echo("Every row has a label.")


PREDICT_EXAMPLES = """[bold]Examples[/bold]

glnn predict runs/people-default-0 new.csv  [dim]# ids, labels and probabilities as CSV[/dim]

glnn predict runs/people-default-0 new.csv --links friends_of_new.csv --out jobs_of_new.csv"""


@opt.with_options
def predict(
    run: Path,
    new: Path,
    links: Path | None = None,
    out: Path | None = None,
    spreadsheet_safe: Annotated[
        bool, typer.Option(help="Escape text in FILE that a spreadsheet would run as a formula.")
    ] = True,
) -> None:
    """Classify new rows with the model of a run, through their links to similar rows."""
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
        write_predictions(
            out,
            found.ids,
            found.labels,
            found.probabilities,
            found.classes,
            id_name=found.id_name,
            spreadsheet_safe=spreadsheet_safe,
        )
        typer.echo(f"{format_count(len(found.ids), 'row')} in {out}")
    for line in found.accuracy:
        typer.echo(f"glnn: note: {line}", err=True)


TUNE_EXAMPLES = """[bold]Examples[/bold]

glnn tune people.csv --label job --trials 30 --out runs/tuned

glnn fit people.csv --label job --preset runs/tuned/tuning.json  [dim]# use it[/dim]

The same command again resumes the search; several at once, with one --out, share the work."""


@opt.with_options
def tune(
    source: Any,
    labels_per_class: int | None = None,
    preset: Annotated[str, typer.Option(help="default or paper.")] = "default",
    epochs: int | None = None,
    trials: int = 20,
    folds: Annotated[int, typer.Option(min=2, help="Folds of each trial.")] = 3,
    nested: int = 3,
    goal: str = "accuracy",
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    out: Path | None = None,
    quiet: bool = False,
) -> None:
    """Search for parameters by cross-validation, and evaluate the search by nested folds."""
    from glnn.estimator import GLNNClassifier
    from glnn.exceptions import InputError
    from glnn.report.tune_run import SETTINGS, run_tuning
    from glnn.tuning import TunedClassifier

    if nested == 1:
        raise InputError("--nested must be 0 or at least 2, got 1.")
    reading = source.options.replace(drop_constant=True, needs_label=True)
    source = replace(source, options=reading, labels_per_class=labels_per_class, seed=seed)
    model = GLNNClassifier(
        cast(Any, preset), n_epochs=epochs, device=device, calibrate=None, random_state=seed
    )
    search = TunedClassifier(
        model, n_trials=trials, goal=cast(Any, goal), folds=folds, random_state=seed
    )
    folder = out or Path("runs") / f"{Path(source.name).stem}-tuning-{seed}"
    console = opt.make_console(quiet=quiet)

    def print_line(line: str) -> None:
        console.print(line, soft_wrap=True)

    found, estimate = run_tuning(source, search, folder, print_line, nested=nested, threads=threads)
    print_line(f"best: {goal} {found.value:.4f} with {found.params or 'the preset as it is'}")
    if estimate is not None:
        print_line(f"nested estimate of the tuned fit: {estimate.verdict.sentence}")
    print_line(f"settings: {folder / SETTINGS}")
