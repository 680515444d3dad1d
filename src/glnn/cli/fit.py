"""``glnn fit``: learn a graph and a classifier, and leave a run folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from glnn.cli import options as given
from glnn.cli.progress import StageProgress
from glnn.exceptions import InputError

if TYPE_CHECKING:
    from glnn.report.results import FitResults

EXAMPLES = """[bold]Examples[/bold]

glnn fit digits --labels-per-class 5 --compare  [dim]# data that come with glnn[/dim]

glnn fit cora --preset paper  [dim]# a published set with its graph and split[/dim]

glnn fit people.csv --id name --label job  [dim]# your own table[/dim]

glnn fit people.csv --labels jobs.csv --graph friends.csv --on-unknown drop"""


@given.with_table_options
def fit(
    name: given.Name,
    columns: Any,
    labels: given.LabelFile = None,
    graph: given.GraphFile = None,
    labels_per_class: given.LabelsPerClass = None,
    no_graph: given.NoGraph = False,
    preset: given.Preset = "default",
    head: given.Head = None,
    n_neighbors: given.Neighbors = None,
    epochs: given.Epochs = None,
    seed: given.Seed = 0,
    device: given.Device = "cpu",
    threads: given.Threads = None,
    folds: given.Folds = None,
    no_estimate: given.NoEstimate = False,
    compare: given.Compare = False,
    out: given.Out = None,
    overwrite: given.Overwrite = False,
    checkpoint: given.Checkpoint = None,
    quiet: given.Quiet = False,
) -> None:
    """Learn a graph and a classifier; leave accuracies, graph, predictions, picture and report."""
    from glnn.peers.group import is_started_by_torchrun
    from glnn.report.fit_run import FitOptions
    from glnn.report.sources import Reading, Source

    options = FitOptions(preset, head, seed, n_neighbors, epochs, device, threads)
    source = Source(name, labels, graph, columns.changed(drop_constant=True, needs_label=True))
    reading = Reading(source, no_graph, labels_per_class, seed)
    shown = {"compare": compare, "quiet": quiet}
    if no_estimate and folds is not None:
        raise InputError("--folds and --no-estimate must not come together. Leave one of them out.")
    if checkpoint is not None or is_started_by_torchrun():
        _fit_over(reading, options, out, overwrite, checkpoint, **shown)
        return
    options.check()
    opened, split = reading.open()
    folder = out or _default_folder(opened.data.name, options)
    _fit_into(folder, opened, split, options, overwrite, 0 if no_estimate else folds, **shown)


def _default_folder(name: str, options: Any) -> Path:
    return Path("runs") / f"{name}-{options.preset}-{options.seed}"


def _fit_into(
    folder: Path,
    opened: Any,
    split: Any,
    options: Any,
    overwrite: bool,
    folds: int | None,
    **shown: bool,
) -> None:
    """Fit with a bar, write the folder, judge, write it again, and say what came out.

    So an estimate that is interrupted loses only itself.
    """
    from glnn.report.estimate_run import folds_wanted, with_estimate
    from glnn.report.fit_run import COMPARED, run_fit
    from glnn.report.run_folder import prepare_folder, remove_if_empty, write_run

    console = Console(quiet=shown["quiet"])
    prepare_folder(folder, overwrite=overwrite)
    try:
        for note in opened.notes:
            console.print(note, markup=False, highlight=False, soft_wrap=True)
        n_epochs = options.expected_epochs(has_graph=opened.data.graph is not None)
        with StageProgress(console, n_epochs, quiet=shown["quiet"]) as watch:
            compared = COMPARED if shown["compare"] and split.test.size else ()
            results, model = run_fit(opened, split, options, compared=compared, watch=watch)
        left_out = write_run(folder, opened, results, model)
        n_folds = folds_wanted(results, folds)
        if n_folds:
            with StageProgress(console, n_folds * n_epochs, quiet=shown["quiet"]) as watch:
                results = with_estimate(results, model, options, n_folds, watch)
            left_out = write_run(folder, opened, results, model)
    finally:
        remove_if_empty(folder)
    _conclude(console, folder, results, left_out)


def _fit_over(
    reading: Any,
    options: Any,
    out: Path | None,
    overwrite: bool,
    checkpoint: Path | None,
    **shown: bool,
) -> None:
    """Fit with the other processes; process 0 alone shows and writes anything."""
    from glnn.peers.group import joined_peers
    from glnn.report.fit_run import COMPARED
    from glnn.report.parallel_run import fit_together, prepared, reported
    from glnn.report.run_folder import write_run

    with joined_peers(options.device) as peers:
        quiet = shown["quiet"] or peers.rank > 0
        console, options = Console(quiet=quiet), options.on_own_device()
        start = prepared(peers, reading, options, out, overwrite)
        try:
            for note in start.notes:
                console.print(note, markup=False, highlight=False, soft_wrap=True)
            with StageProgress(console, start.n_epochs, quiet=quiet) as watch:
                fitted = fit_together(peers, reading, options, start.n_nodes, checkpoint, watch)
        except BaseException:
            start.withdraw(peers)
            raise
    if peers.rank:
        return
    try:
        run = reported(reading, options, fitted, COMPARED if shown["compare"] else ())
        left_out = write_run(start.folder, run.opened, run.results, run.model)
    finally:
        start.withdraw(peers)
    _conclude(console, start.folder, run.results, left_out)


def _conclude(
    console: Console, folder: Path, results: "FitResults", left_out: tuple[str, ...]
) -> None:
    """Say how good the answer is before anything else, then what was found and where it lies."""
    from glnn.report.estimate_run import closing_lines
    from glnn.report.tables import estimate_table, fact_table, score_table
    from glnn.report.words import label_sentence, verdict_line

    plain: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
    console.print()
    console.print(verdict_line(results), style="bold", **plain)
    console.print(label_sentence(results), **plain)
    if results.split.test.size:
        console.print(score_table(results))
    if results.estimate is not None:
        console.print(estimate_table(results.estimate))
    console.print(fact_table(results))
    for line in (*closing_lines(results), *left_out):
        console.print(line, **plain)
    for name, what in (("graph.png", "picture"), ("report.html", "report"), ("", "run folder")):
        if (folder / name).exists():
            console.print(f"{what + ':':<12}{folder / name}", markup=False, soft_wrap=True)
