"""``glnn fit``: learn a graph and a classifier, and leave a run folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from glnn.cli import options as given
from glnn.cli.progress import StageProgress

if TYPE_CHECKING:
    from glnn.report.results import FitResults

EXAMPLES = """[bold]Examples[/bold]

glnn fit digits --labels-per-class 5 --compare  [dim]# data that come with glnn[/dim]

glnn fit cora --preset paper  [dim]# a published set with its graph and split[/dim]

glnn fit people.csv --id name --label job  [dim]# your own table[/dim]

glnn fit people.csv --labels jobs.csv --graph friends.csv --on-unknown drop"""


def fit(
    name: given.Name,
    labels: given.LabelFile = None,
    graph: given.GraphFile = None,
    id_column: given.IdColumn = None,
    label_column: given.LabelColumn = None,
    on_unknown: given.OnUnknown = "error",
    encode: given.Encode = "error",
    labels_per_class: given.LabelsPerClass = None,
    no_graph: given.NoGraph = False,
    preset: given.Preset = "default",
    head: given.Head = None,
    n_neighbors: given.Neighbors = None,
    epochs: given.Epochs = None,
    seed: given.Seed = 0,
    device: given.Device = "cpu",
    threads: given.Threads = None,
    compare: given.Compare = False,
    out: given.Out = None,
    overwrite: given.Overwrite = False,
    quiet: given.Quiet = False,
) -> None:
    """Learn a graph and a classifier; leave accuracies, graph, predictions, picture and report."""
    from glnn.report.fit_run import FitOptions
    from glnn.report.sources import Source, choose_split

    options = FitOptions(preset, head, seed, n_neighbors, epochs, device, threads)
    options.check()
    source = Source(name, labels, graph, id_column, label_column, on_unknown, encode)
    opened = source.open()
    opened = opened.without_graph() if no_graph else opened
    split = choose_split(opened.data, labels_per_class, seed)
    folder = out or Path("runs") / f"{opened.data.name}-{preset}-{seed}"
    _fit_into(folder, opened, split, options, overwrite, compare=compare, quiet=quiet)


def _fit_into(
    folder: Path, opened: Any, split: Any, options: Any, overwrite: bool, **shown: bool
) -> None:
    """Fit with a bar, write the folder, and say what came out."""
    from glnn.report.fit_run import COMPARED, run_fit
    from glnn.report.run_folder import prepare_folder, remove_if_empty, write_run

    console = Console(quiet=shown["quiet"])
    prepare_folder(folder, overwrite=overwrite)
    try:
        for note in opened.notes:
            console.print(note, markup=False, highlight=False, soft_wrap=True)
        n_epochs = options.expected_epochs(has_graph=opened.data.graph is not None)
        with StageProgress(console, n_epochs, quiet=shown["quiet"]) as watch:
            compared = COMPARED if shown["compare"] else ()
            results, model = run_fit(opened, split, options, compared=compared, watch=watch)
        left_out = write_run(folder, opened, results, model)
    finally:
        remove_if_empty(folder)
    _conclude(console, folder, results, left_out)


def _conclude(
    console: Console, folder: Path, results: "FitResults", left_out: tuple[str, ...]
) -> None:
    from glnn.report.tables import fact_table, score_table
    from glnn.report.words import label_sentence

    console.print()
    console.print(label_sentence(results), markup=False, highlight=False, soft_wrap=True)
    if results.split.test.size:
        console.print(score_table(results))
    console.print(fact_table(results))
    for line in left_out:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for name, what in (("graph.png", "picture"), ("report.html", "report"), ("", "run folder")):
        if (folder / name).exists():
            console.print(f"{what + ':':<12}{folder / name}", markup=False, soft_wrap=True)
