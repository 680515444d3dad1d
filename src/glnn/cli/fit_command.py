"""``glnn fit``: learn a graph and a classifier, and leave a run folder."""

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

from glnn.cli import options as given

if TYPE_CHECKING:
    from glnn.engine.callbacks import Progress as Event
    from glnn.report.results import FitResults


# --- interruption: Ctrl-C and SIGTERM: the first ends the work after its step, the second at once

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Take note of a request to end inside the block, and end where the work can be gone on with.

    Parameters
    ----------
    advice
        How to go on, for the line that is said at the end.
    alone
        Whether this process works alone; several end together, as ``torchrun`` tells them.
    """

    def __init__(self, advice: str, *, alone: bool = True) -> None:
        self._advice, self._number, self._alone = advice, 0, alone
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        is_main = threading.current_thread() is threading.main_thread()
        if self._alone and is_main:  # other threads get no signals
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """End the work if that was asked for."""
        if not self._number:
            return
        from glnn.exceptions import StoppedError

        stopped = StoppedError(f"interrupted. {self._advice}")
        stopped.code = 128 + self._number
        raise stopped

    def watching(self, watch: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a function for events of the work, each of which is a place to end."""

        def told(event: Any) -> None:
            self.check()
            watch(event)

        return told

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._number:
            raise KeyboardInterrupt
        self._number = number
        print("glnn: ending after this step; once more ends at once", file=sys.stderr, flush=True)


# --- progress: A bar on a terminal, a line a stage elsewhere; both driven by the same events


class StageProgress:
    """Show where a fit stands; use as a context, and call with each event.

    Parameters
    ----------
    console
        Where to show it.
    n_epochs
        Epochs of all stages together as far as known, for the time left; it may grow.
    quiet
        Show nothing.
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
        self._stage, self._began = "", 0.0

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
            self._end_stage()

    def __call__(self, event: "Event") -> None:
        """Take note of an event."""
        if event.epoch:
            self._n_done += 1
            self._bar.advance(self._task)
            return
        self._end_stage()
        self._stage, self._began = event.stage, time.perf_counter()
        self._total = max(self._total, self._n_done + event.n_epochs)
        self._bar.update(self._task, description=event.stage, total=self._total)

    def _end_stage(self) -> None:
        if self._stage and not self._quiet:
            seconds = time.perf_counter() - self._began
            self._console.print(f"  {self._stage:<22} {seconds:6.1f} s", highlight=False)
        self._stage = ""


# --- fit: ``glnn fit``: learn a graph and a classifier, and leave a run folder

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
    max_memory: given.MaxMemory = None,
    class_weight: given.ClassWeight = None,
    settings: given.Settings = None,
    folds: given.Folds = None,
    no_estimate: given.NoEstimate = False,
    compare: given.Compare = False,
    out: given.Out = None,
    overwrite: given.Overwrite = False,
    resume: given.Resume = False,
    checkpoint: given.Checkpoint = None,
    quiet: given.Quiet = False,
    as_json: given.AsJson = False,
) -> None:
    """Learn a graph and a classifier; leave accuracies, graph, predictions, picture and report."""
    from glnn.distributed import joined_peers
    from glnn.engine.fit import capped_memory, parse_bytes
    from glnn.exceptions import InputError
    from glnn.report.run import FitOptions, prepared
    from glnn.report.sources import Reading, Source
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
        command=command_line(sys.argv),
        more={} if found is None else found.params,
        search=None if found is None else found.search,
    )
    source = Source(name, labels, graph, columns.changed(drop_constant=True, needs_label=True))
    reading = Reading(source, no_graph, labels_per_class, seed)
    if no_estimate and folds is not None:
        raise InputError("--folds and --no-estimate must not come together. Leave one of them out.")
    limit = None if max_memory is None else parse_bytes(max_memory)
    with capped_memory(limit), joined_peers(device) as peers:
        if folds is not None and peers.size > 1:
            raise InputError("--folds must come with one process, got several. Leave it out.")
        if resume and checkpoint is None and peers.size > 1:
            raise InputError("--resume must come with --checkpoint over several processes.")
        options = options.on_own_device()
        place: Any = {"overwrite": overwrite, "resume": resume, "peers": peers}
        start = prepared(reading, options, out, **place)
        is_quiet = quiet or as_json or peers.rank > 0
        run = _Run(start, options, peers, checkpoint, compare=compare, quiet=is_quiet)
        try:
            if resume and not overwrite and run.is_finished():
                return run.conclude(as_json=as_json)
            advice = _advice(options.command, checkpoint)
            with Interruption(advice, alone=peers.size == 1) as stop:
                run.fit(stop, calibrates=folds is None and not no_estimate)
                if peers.size == 1:
                    run.judge(stop, 0 if no_estimate else folds)
            run.forget_state()
        finally:
            run.forget_state(only_empty=True)
            start.release()
    return run.conclude(as_json=as_json and peers.rank == 0)


def _advice(command: str, checkpoint: Path | None) -> str:
    """Return how to go on with a run that was interrupted."""
    return f"Go on with: {command or 'glnn fit'}{'' if checkpoint is not None else ' --resume'}"


def command_line(typed: list[str]) -> str:
    """Return the command as it was typed, nothing if another program called it.

    It is the one that starts anew: a run that goes on gives the same.

    Examples
    --------
    >>> command_line(["/usr/bin/glnn", "fit", "my data.csv"]), command_line(["pytest"])
    ("glnn fit 'my data.csv'", '')
    """
    is_own = bool(typed) and Path(typed[0]).name in ("glnn", "__main__.py")
    words = [word for word in typed[1:] if word != "--resume"]
    return shlex.join(["glnn", *words]) if is_own else ""


class _Run:
    """A fit with a bar, its run folder, and what came out; process 0 alone shows anything."""

    def __init__(
        self,
        start: Any,
        options: Any,
        peers: Any,
        checkpoint: Path | None,
        *,
        compare: bool,
        quiet: bool,
    ) -> None:
        from glnn.report.run_folder import state_folder

        self._start, self._options, self._quiet = start, options, quiet
        self._compare, self._n_processes = compare, peers.size
        self._peers, self._is_own_state = peers, checkpoint is None and peers.size == 1
        self._state: Any = state_folder(start.folder) if self._is_own_state else checkpoint
        self._console = Console(quiet=quiet)
        self._results: FitResults | None = None
        has_graph = start.opened.data.graph is not None
        self._n_epochs: int = options.expected_epochs(has_graph=has_graph)

    def is_finished(self) -> bool:
        """Say so if the run was done before."""
        from glnn.report.run_folder import is_finished

        found = self._is_own_state and is_finished(self._start.folder)
        if found:
            said = f"finished before, nothing to go on with: {self._start.folder}"
            self._console.print(said, markup=False, highlight=False, soft_wrap=True)
        return found

    def forget_state(self, *, only_empty: bool = False) -> None:
        """Remove what an interrupted run would have gone on from."""
        from glnn.report.run_folder import remove_state

        if self._is_own_state:
            remove_state(self._start.folder, only_empty=only_empty)

    def fit(self, stop: Interruption, *, calibrates: bool) -> None:
        """Fit, and write the folder."""
        from glnn.report.run import COMPARED, run_fit

        if self._is_own_state:
            self._state.mkdir(parents=True, exist_ok=True)  # the sign of an unfinished run

        for note in self._start.opened.notes:
            self._console.print(note, markup=False, highlight=False, soft_wrap=True)
        compared = COMPARED if self._compare and self._start.split.test.size else ()
        with StageProgress(self._console, self._n_epochs, quiet=self._quiet) as watch:
            more: Any = {"compared": compared, "watch": stop.watching(watch)}
            more |= {"peers": self._peers, "calibrates": calibrates}
            is_kept = not (self._is_own_state and self._options.settings().is_literal)
            state = self._state if is_kept else None  # the literal preset has no rounds
            self._results, self._model = run_fit(
                self._start, self._options, checkpoint=state, **more
            )
        self._write()

    def judge(self, stop: Interruption, folds: int | None) -> None:
        """Judge, and write the folder again: an estimate that is interrupted loses only itself."""
        from glnn.report.run import folds_wanted, with_estimate

        assert self._results is not None  # there is no other process
        n_folds = folds_wanted(self._results, folds)
        if not n_folds:
            return
        with StageProgress(self._console, n_folds * self._n_epochs, quiet=self._quiet) as watch:
            state = None if self._state is None else self._state / "folds"
            run = (self._results, self._model, self._options, n_folds)
            self._results = with_estimate(*run, stop.watching(watch), state)
        self._write()

    def _write(self) -> None:
        from glnn.report.run_folder import write_run

        start = self._start
        self._left_out = write_run(start.folder, start.opened, self._results, self._model)

    def conclude(self, *, as_json: bool) -> None:
        """Say what came out, or print the metrics of the folder for machines."""
        from glnn.report.text import closing_lines, unjudged_lines

        found = self._results
        if found is not None:
            asked = {"compare": self._compare, "n_processes": self._n_processes}
            lines = (*unjudged_lines(found, **asked), *closing_lines(found), *self._left_out)
            _conclude(self._console, self._start.folder, found, lines)
        if as_json:
            text = (self._start.folder / "metrics.json").read_text(encoding="utf-8")
            typer.echo(text, nl=False)


def _conclude(
    console: Console, folder: Path, results: "FitResults", lines: tuple[str, ...]
) -> None:
    """Say how good the answer is before anything else, then what was found and where it lies."""
    from glnn.report.terminal import estimate_table, fact_table, score_table
    from glnn.report.text import label_sentence, verdict_line

    is_file = not console.is_terminal  # whose lines are not broken
    plain: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": is_file}
    console.print()
    console.print(verdict_line(results), style="bold", **plain)
    console.print(label_sentence(results), **plain)
    if results.tested is not None:
        console.print(score_table(results.tested, results.scores))
    if results.estimate is not None:
        console.print(estimate_table(results.estimate))
    console.print(fact_table(results))
    for line in lines:
        console.print(line, **plain)
    for name, what in (("graph.png", "picture"), ("report.html", "report"), ("", "run folder")):
        if (folder / name).exists():
            console.print(f"{what + ':':<12}{folder / name}", markup=False, soft_wrap=True)
