"""``glnn tune``: choose parameters by folds over the labels."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from glnn.cli import options as given

EXAMPLES = """[bold]Examples[/bold]

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
