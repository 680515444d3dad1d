"""``glnn fit``: learn a graph and a classifier, and write a run folder."""

import contextlib
import dataclasses
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from glnn.cli import options as opt

if TYPE_CHECKING:
    from glnn.engine.callbacks import Progress as Event
    from glnn.report.run import Run


# Interruption

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stop_on_signal(advice: str, *, single_process: bool = True) -> Iterator[Any]:
    """Handle Ctrl-C and SIGTERM inside the block: stop at the next resumable point.

    Yields a decorator for the function that shows progress: after a signal its next call raises
    StoppedError. A second signal stops at once. ``advice`` tells how to resume. With several
    processes signals are left to ``torchrun``, which stops them together.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        what = "glnn: stopping after this step; press Ctrl-C again to stop at once"
        print(what, file=sys.stderr, flush=True)

    def wrap(on_progress: Callable[[Any], None]) -> Callable[[Any], None]:
        from glnn.exceptions import StoppedError

        def check_and_forward(event: Any) -> None:
            if received:
                stopped = StoppedError(f"interrupted. {advice}")
                stopped.code = 128 + received[0]
                raise stopped
            on_progress(event)

        return check_and_forward

    is_main = threading.current_thread() is threading.main_thread()  # others get no signals
    numbers = _SIGNALS if single_process and is_main else ()
    old_handlers = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield wrap
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


# Progress


class StageProgress:
    """Show the progress of a fit: a bar on a terminal, and a line for each fold.

    Use it as a context, and call it with each event. ``n_epochs`` is the most epochs that all
    stages can take. A stage that ends early counts as whole, and at the end the bar is full. With
    ``verbose`` there is also a line for each track and rival.
    """

    def __init__(self, console: Console, n_epochs: int, *, verbose: bool = False) -> None:
        self._console, self._verbose = console, verbose
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<22}"),
            *Progress.get_default_columns()[1:],  # bar, share, time left
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("reading", total=n_epochs)
        self._stage_end, self._total = 0, n_epochs  # numbers of epochs
        self._group, self._began = "", 0.0

    def __enter__(self) -> "StageProgress":
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._bar.update(self._task, completed=self._total)
            self._end_group()
        self._bar.stop()

    def __call__(self, event: "Event") -> None:
        """Show an event."""
        if event.epoch:
            self._bar.advance(self._task)
            return
        group = event.stage.split(",")[0]  # a fold or a track
        if event.note:
            self._end_group(f"  {event.note}")
        elif group != self._group:
            self._end_group()
            self._group, self._began = group, time.perf_counter()
        what = event.stage if self._verbose else group
        self._bar.update(self._task, completed=self._stage_end, description=what)
        self._stage_end += event.n_epochs

    def _end_group(self, note: str = "") -> None:
        if self._group and (self._verbose or self._group.startswith("fold ")):
            seconds = time.perf_counter() - self._began
            width = 22 if self._verbose else 12
            self._console.print(f"  {self._group:<{width}} {seconds:6.1f} s{note}")
        self._group = ""


# The command

EXAMPLES = """[bold]Examples[/bold]

glnn fit digits --labels-per-class 5  [dim]# data that come with glnn[/dim]

glnn fit cora --preset paper  [dim]# a published set with its graph and split[/dim]

glnn fit people.csv --label job  [dim]# your own table[/dim]

glnn fit people.csv --labels jobs.csv --graph friends.csv --set on_unknown=drop"""


@opt.with_options
def fit(
    source: Any,
    settings: Any,
    labels_per_class: int | None = None,
    folds: int | None = None,
    rivals: str = "auto",
    group: str | None = None,
    time_column: str | None = None,
    preset: str = "default",
    epochs: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    checkpoint: Path | None = None,
    quiet: bool = False,
    verbose: bool = False,
    as_json: bool = False,
) -> None:
    """Predict a label for every row; write predictions, verdict, learned graph and report."""
    from glnn._utils import check_integer
    from glnn.exceptions import InputError

    check_integer("--seed", seed, low=0)
    if folds == 1:
        raise InputError("--folds must be 0 or at least 2, got 1.")
    reading = source.options.replace(
        drop_constant=True, needs_label=True, group_column=group, time_column=time_column
    )
    source = dataclasses.replace(
        source, options=reading, labels_per_class=labels_per_class, seed=seed
    )
    if "WORLD_SIZE" not in os.environ:  # several processes read only their rows
        _ = source.split  # its errors come before PyTorch is imported, which takes seconds
    from glnn.distributed import join_processes
    from glnn.report.run import FitOptions, Run
    from glnn.report.tune_run import TunedSettings, read_settings

    is_file = preset.endswith(".json")
    found = read_settings(Path(preset)) if is_file else TunedSettings(preset, {})
    params = {**found.params, **settings}
    if epochs is not None:
        params["n_epochs"] = epochs
    with join_processes(device) as peers:
        if folds and peers.size > 1:
            raise InputError("--folds needs a single process, got several. Leave it out.")
        if resume and checkpoint is None and peers.size > 1:
            raise InputError("--resume needs --checkpoint if there are several processes.")
        chosen: Any = rivals if rivals == "auto" else opt.split_patterns([rivals])
        if rivals == "none" or (rivals == "auto" and peers.size > 1):
            chosen = None  # several processes: process 0 would have to read all the data
        options = FitOptions(
            preset=found.preset,
            params=params,
            seed=seed,
            device=device,
            threads=threads,
            folds=folds,
            rivals=chosen,
            command=format_command(sys.argv),
            search=found.search,
        )
        run = Run(dataclasses.replace(source, peers=peers), options, out, checkpoint)
        run.prepare(overwrite=overwrite, resume=resume)
        console = opt.make_console(quiet=quiet or as_json or peers.rank > 0)
        try:
            if resume and not overwrite and run.is_finished:
                console.print(f"already finished, nothing to resume: {run.folder}", soft_wrap=True)
            else:
                _fit_and_write(run, console, checkpoint, verbose=verbose)
        finally:
            run.close()
    if run.results is not None:
        _print_results(console, run, verbose=verbose)
    if as_json and peers.rank == 0:
        typer.echo((run.folder / "metrics.json").read_text(encoding="utf-8"), nl=False)


def _fit_and_write(run: "Run", console: Console, checkpoint: Path | None, *, verbose: bool) -> None:
    if run.source.columns:
        from glnn.report.text import column_table

        console.print(column_table(run.source.columns))
    for note in run.source.notes:
        console.print(note, soft_wrap=True)
    console.print(run.describe_plan())
    command = run.options.command or "glnn fit"
    advice = f"Resume it with: {command}{'' if checkpoint is not None else ' --resume'}"
    with stop_on_signal(advice, single_process=run.peers.size == 1) as stoppable:
        with StageProgress(console, run.n_epochs, verbose=verbose) as on_progress:
            run.fit(stoppable(on_progress))
        run.write()


def format_command(typed: list[str]) -> str:
    """Return the command as it was typed, without ``--resume``; empty if glnn was not the program.

    Examples
    --------
    >>> format_command(["/usr/bin/glnn", "fit", "my data.csv"]), format_command(["pytest"])
    ("glnn fit 'my data.csv'", '')
    """
    is_own = bool(typed) and Path(typed[0]).name in ("glnn", "__main__.py")
    words = [word for word in typed[1:] if word != "--resume"]
    return shlex.join(["glnn", *words]) if is_own else ""


def _print_results(console: Console, run: "Run", *, verbose: bool) -> None:
    """Print the verdict, then the tables, the notes and the paths of the files."""
    from glnn.report.text import (
        describe_graph,
        evaluation_advice,
        final_notes,
        label_sentence,
        score_table,
        verdict_line,
    )

    results, folder = run.results, run.folder
    assert results is not None  # for mypy: the caller has checked
    is_file = not console.is_terminal  # lines in a file are not wrapped
    console.print()
    console.print(verdict_line(results), style="bold", soft_wrap=is_file)
    console.print(label_sentence(results), soft_wrap=is_file)
    if results.evaluation is not None:
        console.print(score_table(results.evaluation))
    console.print(describe_graph(results), soft_wrap=is_file)
    if results.evaluation is None and (run.peers.size > 1 or results.has_single_labels):
        console.print(evaluation_advice(results), soft_wrap=is_file)
    for line in (*final_notes(results, verbose=verbose), *run.left_out):
        console.print(line, soft_wrap=is_file)
    for name, what in (("graph.png", "picture"), ("report.html", "report"), ("", "run folder")):
        if (folder / name).exists():
            console.print(f"{what + ':':<12}{folder / name}", soft_wrap=True)
    if results.suggestions:
        console.print(f"to label:   glnn suggest {shlex.quote(str(folder))}", soft_wrap=is_file)
