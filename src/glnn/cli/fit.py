"""``glnn fit``: learn a graph and a classifier, and leave a run folder."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from glnn.cli import options as given
from glnn.cli.interruption import Interruption
from glnn.cli.progress import StageProgress

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
    from glnn.engine.memory import capped_memory, parse_bytes
    from glnn.exceptions import InputError
    from glnn.peers.group import joined_peers
    from glnn.report.fit_run import FitOptions, prepared
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
        from glnn.report.fit_run import COMPARED, run_fit

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
        from glnn.report.estimate_run import folds_wanted, with_estimate

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
        from glnn.report.remarks import closing_lines, unjudged_lines

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
    from glnn.report.tables import estimate_table, fact_table, score_table
    from glnn.report.words import label_sentence, verdict_line

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
