"""``glnn fit``: learn a graph and a classifier, and write a run folder."""

import dataclasses
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from glnn.cli import options as opt

if TYPE_CHECKING:
    from glnn.engine.callbacks import Progress as Event
    from glnn.report.results import FitResults


# Interruption

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Handle Ctrl-C and SIGTERM inside the block: stop at the next resumable point.

    A second signal stops at once. ``advice`` tells how to resume. With several processes signals
    are left to ``torchrun``, which stops them together.
    """

    def __init__(self, advice: str, *, single_process: bool = True) -> None:
        self._advice, self._number, self._single_process = advice, 0, single_process
        self._old_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        is_main = threading.current_thread() is threading.main_thread()
        if self._single_process and is_main:  # other threads get no signals
            self._old_handlers = {
                number: signal.signal(number, self._handle_signal) for number in _SIGNALS
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise StoppedError if a signal has arrived."""
        if not self._number:
            return
        from glnn.exceptions import StoppedError

        stopped = StoppedError(f"interrupted. {self._advice}")
        stopped.code = 128 + self._number
        raise stopped

    def wrap(self, on_progress: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a function that checks for a signal and then calls ``on_progress``."""

        def check_and_forward(event: Any) -> None:
            self.check()
            on_progress(event)

        return check_and_forward

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self._number:
            raise KeyboardInterrupt
        self._number = number
        print(
            "glnn: stopping after this step; press again to stop at once",
            file=sys.stderr,
            flush=True,
        )


# Progress

# Measured with the default on one core, in the mean over tracks: of an epoch, and more a node.
_EPOCH_SECONDS, _NODE_SECONDS = 8e-4, 8e-7


class StageProgress:
    """Show the progress of a fit: a bar on a terminal, and a line for each fold and track.

    Use it as a context, and call it with each event. ``n_epochs`` is the expected number of epochs
    of all stages, for the time left; it may grow.
    """

    def __init__(self, console: Console, n_epochs: int, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("reading", total=n_epochs)
        self._n_done, self._total = 0, n_epochs
        self._group, self._began, self._started = "", 0.0, time.perf_counter()

    def __enter__(self) -> "StageProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if error is None:
            self._end_group()

    def __call__(self, event: "Event") -> None:
        """Show an event."""
        if event.epoch:
            self._n_done += 1
            self._bar.advance(self._task)
            return
        group = event.stage.partition(",")[0]  # a fold or a track
        if event.note:
            self._end_group(f"  {event.note}{self._time_left(event.stage)}")
        elif group != self._group:
            self._end_group()
            self._group, self._began = group, time.perf_counter()
        self._total = max(self._total, self._n_done + event.n_epochs)
        self._bar.update(self._task, description=event.stage, total=self._total)

    def _end_group(self, note: str = "") -> None:
        if self._group and not self._quiet:
            seconds = time.perf_counter() - self._began
            self._console.print(f"  {self._group:<22} {seconds:6.1f} s{note}", highlight=False)
        self._group = ""

    def _time_left(self, fold: str) -> str:
        """Return how long the other folds and the last training will take, after the first fold."""
        words = fold.split()  # fold 1 of 5
        if words[1] != "1":
            return ""
        seconds = (time.perf_counter() - self._started) * int(words[-1])
        return f"; about {seconds:.0f} s to go"


# The command

EXAMPLES = """[bold]Examples[/bold]

glnn fit digits --labels-per-class 5  [dim]# data that come with glnn[/dim]

glnn fit cora --preset paper  [dim]# a published set with its graph and split[/dim]

glnn fit people.csv --id name --label job  [dim]# your own table[/dim]

glnn fit people.csv --labels jobs.csv --graph friends.csv --on-unknown drop"""


@opt.with_table_options
def fit(
    name: opt.Name,
    columns: Any,
    labels: opt.LabelFile = None,
    graph: opt.GraphFile = None,
    labels_per_class: opt.LabelsPerClass = None,
    no_graph: opt.NoGraph = False,
    preset: opt.Preset = "default",
    head: opt.Head = None,
    n_neighbors: opt.Neighbors = None,
    epochs: opt.Epochs = None,
    seed: opt.Seed = 0,
    device: opt.Device = "cpu",
    threads: opt.Threads = None,
    class_weight: opt.ClassWeight = None,
    settings: opt.Settings = None,
    folds: opt.Folds = None,
    no_estimate: opt.NoEstimate = False,
    rivals: opt.Rivals = "auto",
    group: opt.Group = None,
    time_column: opt.Time = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    resume: opt.Resume = False,
    checkpoint: opt.Checkpoint = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Learn a graph and a classifier; write metrics, graph, predictions, picture and report."""
    from glnn.distributed import join_processes
    from glnn.exceptions import InputError
    from glnn.report.run import FitOptions, prepare_run
    from glnn.report.sources import DataSpec, Source
    from glnn.report.tune_run import read_settings

    found = None if settings is None else read_settings(settings)
    options = FitOptions(
        preset if found is None else found.preset,
        head,
        seed,
        n_neighbors,
        epochs,
        device,
        threads,
        class_weight,
        rivals=opt.parse_rivals(rivals),
        command=format_command(sys.argv),
        extra_params={} if found is None else found.params,
        search=None if found is None else found.search,
    )
    columns = columns.replace(drop_constant=True, needs_label=True)
    columns = columns.replace(group_column=group, time_column=time_column)
    source = Source(name, labels, graph, columns)
    spec = DataSpec(source, no_graph, labels_per_class, seed)
    if no_estimate and folds is not None:
        raise InputError("--folds and --no-estimate exclude each other. Leave one of them out.")
    with join_processes(device) as peers:
        if folds is not None and peers.size > 1:
            raise InputError("--folds needs a single process, got several. Leave it out.")
        if resume and checkpoint is None and peers.size > 1:
            raise InputError("--resume needs --checkpoint if there are several processes.")
        if rivals == "auto" and peers.size > 1:  # process 0 would have to read all the data
            options = dataclasses.replace(options, rivals=None)
        options = options.with_local_device()
        place: Any = {"overwrite": overwrite, "resume": resume, "peers": peers}
        inputs = prepare_run(spec, options, out, **place)
        is_quiet = quiet or as_json or peers.rank > 0
        run = _Run(inputs, options, peers, checkpoint, folds, quiet=is_quiet)
        try:
            if resume and not overwrite and run.is_finished():
                return run.print_results(as_json=as_json)
            advice = _resume_advice(options.command, checkpoint)
            with Interruption(advice, single_process=peers.size == 1) as stop:
                run.fit(stop, calibrates=not no_estimate)
                if peers.size == 1 and not no_estimate:
                    run.estimate(stop)
            run.remove_state()
        finally:
            run.remove_state(only_empty=True)
            inputs.release()
    return run.print_results(as_json=as_json and peers.rank == 0)


def _resume_advice(command: str, checkpoint: Path | None) -> str:
    """Return how to resume a run that was interrupted."""
    return f"Resume it with: {command or 'glnn fit'}{'' if checkpoint is not None else ' --resume'}"


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


class _Run:
    """A fit with its progress bar, run folder and results; only process 0 prints."""

    def __init__(
        self,
        inputs: Any,
        options: Any,
        peers: Any,
        checkpoint: Path | None,
        folds: int | None,
        *,
        quiet: bool,
    ) -> None:
        from glnn.engine.folds import N_FOLDS
        from glnn.report.run_folder import state_folder

        self._folds, self._n_folds = folds, folds or N_FOLDS
        self._inputs, self._options, self._quiet = inputs, options, quiet
        self._n_processes = peers.size
        self._peers, self._is_own_state = peers, checkpoint is None and peers.size == 1
        self._state: Any = state_folder(inputs.folder) if self._is_own_state else checkpoint
        self._console = Console(quiet=quiet)
        self._results: FitResults | None = None
        self._n_epochs: int = options.count_epochs(
            has_graph=inputs.opened.data.graph is not None,
            n_folds=self._count_folds(),
        )

    def is_finished(self) -> bool:
        """Return whether the run was finished before, and print that it was."""
        from glnn.report.run_folder import is_finished

        found = self._is_own_state and is_finished(self._inputs.folder)
        if found:
            line = f"already finished, nothing to resume: {self._inputs.folder}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        return found

    def remove_state(self, *, only_empty: bool = False) -> None:
        """Remove the saved state of the run."""
        from glnn.report.run_folder import remove_state

        if self._is_own_state:
            remove_state(self._inputs.folder, only_empty=only_empty)

    def fit(self, stop: Interruption, *, calibrates: bool) -> None:
        """Fit, and write the run folder."""
        from glnn.report.run import run_fit

        if self._is_own_state:
            self._state.mkdir(parents=True, exist_ok=True)  # marks the run as unfinished

        for note in self._inputs.opened.notes:
            self._console.print(note, markup=False, highlight=False, soft_wrap=True)
        self._console.print(self._describe_plan(), highlight=False)
        with StageProgress(self._console, self._n_epochs, quiet=self._quiet) as on_progress:
            more: Any = {"on_progress": stop.wrap(on_progress)}
            more |= {"peers": self._peers, "calibrate": calibrates, "n_folds": self._n_folds}
            is_kept = not (self._is_own_state and self._options.settings().is_literal)
            state = self._state if is_kept else None  # the literal preset has no rounds
            self._results, self._model = run_fit(
                self._inputs, self._options, checkpoint=state, **more
            )
        self._write()

    def _describe_plan(self) -> str:
        """Return what will be done, and without a GPU about how long the fit takes."""
        from glnn.quality.rivals import choose_rivals

        data = self._inputs.opened.data
        n_rivals = len(choose_rivals(self._options.rivals, has_graph=data.graph is not None))
        counted = ((self._count_folds(), "fold"), (n_rivals, "rival"))
        parts = [f"{n} {what}{'s' * (n > 1)}" for n, what in counted if n]
        seconds = self._n_epochs * (_EPOCH_SECONDS + _NODE_SECONDS * data.n_nodes)
        about = (
            f"about {float(f'{seconds:.1g}'):.0f} s on an idle machine: " if seconds >= 1 else ""
        )
        return f"{about if self._options.device == 'cpu' else ''}{', '.join(['one fit', *parts])}"

    def _count_folds(self) -> int:
        """Return in how many folds the fit hides labels."""
        is_single = self._options.settings().is_literal or self._inputs.split.val.size > 0
        return 0 if is_single else self._n_folds

    def estimate(self, stop: Interruption) -> None:
        """Estimate the accuracy, and write the run folder again.

        The fit is on disk already, so that an interruption loses only the estimate.
        """
        from glnn.report.run import add_estimate, wants_estimate

        assert self._results is not None  # there is no other process
        if not wants_estimate(self._results, self._folds):
            return
        n_epochs = 0 if self._model.folds_ is not None else self._n_folds * self._n_epochs
        with StageProgress(self._console, n_epochs, quiet=self._quiet) as on_progress:
            state = None if self._state is None else self._state / "folds"
            run = (self._results, self._model, self._options, self._n_folds)
            self._results = add_estimate(*run, stop.wrap(on_progress), state)
        self._write()

    def _write(self) -> None:
        from glnn.report.run_folder import write_run

        inputs = self._inputs
        self._left_out = write_run(inputs.folder, inputs.opened, self._results, self._model)

    def print_results(self, *, as_json: bool) -> None:
        """Print the results, or the content of ``metrics.json``."""
        from glnn.report.text import final_notes, missing_evaluation_lines

        found = self._results
        if found is not None:
            lines = (
                *missing_evaluation_lines(found, n_processes=self._n_processes),
                *final_notes(found),
                *self._left_out,
            )
            _print_results(self._console, self._inputs.folder, found, lines)
        if as_json:
            text = (self._inputs.folder / "metrics.json").read_text(encoding="utf-8")
            typer.echo(text, nl=False)


def _print_results(
    console: Console, folder: Path, results: "FitResults", lines: tuple[str, ...]
) -> None:
    """Print the verdict, then the tables, the notes and the paths of the files."""
    from glnn.report.terminal import estimate_table, fact_table, score_table
    from glnn.report.text import label_sentence, verdict_line

    is_file = not console.is_terminal  # lines in a file are not wrapped
    plain: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": is_file}
    console.print()
    console.print(verdict_line(results), style="bold", **plain)
    console.print(label_sentence(results), **plain)
    if results.holdout is not None:
        console.print(score_table(results.holdout))
    if results.estimate is not None:
        console.print(estimate_table(results.estimate))
    console.print(fact_table(results))
    for line in lines:
        console.print(line, **plain)
    for name, what in (("graph.png", "picture"), ("report.html", "report"), ("", "run folder")):
        if (folder / name).exists():
            console.print(f"{what + ':':<12}{folder / name}", markup=False, soft_wrap=True)
