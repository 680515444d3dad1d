"""Run one fit: check options and data, fit, evaluate, and write the run folder.

Also the callback that records the graph of each round.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_device, check_integer, limit_threads
from glnn.data.files import WriterLock, safe_file_name
from glnn.data.labels import N_FOLDS, Folds
from glnn.distributed import SINGLE_PROCESS, run_everywhere
from glnn.engine.callbacks import Callback, CallbackState, Progress, ProgressLog
from glnn.engine.settings import FitSettings
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate, evaluate_fit
from glnn.quality import Evaluation, HeldOut
from glnn.quality.estimate import estimate
from glnn.quality.rivals import NodeProblem, RivalChoice, choose_rivals, expand_classes
from glnn.report.results import Results, Round, Search, collect_results
from glnn.report.run_folder import (
    is_finished,
    prepare_folder,
    remove_state,
    state_folder,
    write_run,
)
from glnn.report.sources import Source
from glnn.report.text import format_count, package_versions
from glnn.solver import LearnedGraph

ProgressFunction = Callable[[Progress], None]

# Measured with the default on one core, in the mean over tracks: of an epoch, and more a node.
_EPOCH_SECONDS, _NODE_SECONDS = 8e-4, 8e-7


@dataclass(frozen=True)
class FitOptions:
    """How to fit and evaluate."""

    preset: str = "default"
    params: Mapping[str, Any] = field(default_factory=dict)  # of the classifier and its settings
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None  # at most so many; None: as many as PyTorch chooses
    folds: int | None = None  # None: five if there are no test labels; 0: no estimate
    rivals: RivalChoice = None  # methods to compare with, as in glnn.evaluate
    command: str = ""  # the command line, for the report
    search: Search | None = None  # the search that found the parameters

    def check(self) -> None:
        """Raise InputError for a wrong option."""
        self.settings()
        if self.threads is not None:
            check_integer("--threads", self.threads, low=1)
        choose_rivals(self.rivals, has_graph=True)
        check_device(self.device)

    def settings(self) -> FitSettings:
        """Return the settings of the fit."""
        return self.make_estimator()._resolve_settings()

    def make_estimator(self, **params: Any) -> GLNNClassifier:
        """Return the unfitted classifier, with further parameters."""
        preset: Any = self.preset
        model = GLNNClassifier(preset, random_state=self.seed, device=self.device)
        return model.set_params(**self.params, **params)

    def count_epochs(self, *, has_graph: bool, n_folds: int) -> int:
        """Return the most epochs that a fit can take, those on folds of the labels included."""
        return (1 + n_folds) * self.settings().count_epochs(has_graph)


class Run:
    """A fit in progress: its data, its options, its folder, and what came out so far.

    The state after each round is kept in ``checkpoint``, by default a folder next to the run
    folder until the run is written; a run that was killed is resumed from there. The preset
    ``literal`` has no rounds and starts anew.
    """

    def __init__(
        self,
        source: Source,
        options: FitOptions,
        out: Path | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        peers = source.peers or SINGLE_PROCESS
        if options.device == "cuda" and "LOCAL_RANK" in os.environ:  # a GPU for each process
            options = dataclasses.replace(options, device=f"cuda:{os.environ['LOCAL_RANK']}")
        self.source, self.options, self.peers, self.out = source, options, peers, out
        self._has_own_state = checkpoint is None and peers.size == 1
        self._state = checkpoint
        self._n_folds = options.folds or N_FOLDS
        self._lock: WriterLock | None = None
        self.results: Results | None = None  # in process 0, after the fit
        self.left_out: tuple[str, ...] = ()  # files that could not be written, and why

    def prepare(self, *, overwrite: bool = False, resume: bool = False) -> None:
        """Check the options, read the data, and lock the run folder in process 0."""

        def read() -> None:
            self.options.check()
            name = f"{safe_file_name(self.source.data.name)}-{self.options.preset}"
            self.folder = self.out or Path("runs") / f"{name}-{self.options.seed}"
            if self._has_own_state:
                self._state = state_folder(self.folder)
            _ = self.source.split, self.source.local_rows
            if self.peers.rank == 0:
                self._lock = prepare_folder(self.folder, overwrite=overwrite, resume=resume)

        run_everywhere(self.peers, read)

    @property
    def is_finished(self) -> bool:
        """Whether the folder has a finished run, so that there is nothing to resume."""
        return self._has_own_state and is_finished(self.folder)

    @property
    def n_hidden_folds(self) -> int:
        """In how many folds the fit hides labels."""
        is_single = self.options.settings().is_literal or self.source.split.val.size > 0
        return 0 if is_single else self._n_folds

    @property
    def n_epochs(self) -> int:
        """The most epochs that the fit can take."""
        has_graph = self.source.data.graph is not None
        n_folds = self.n_hidden_folds or (self._n_folds if self.has_estimate else 0)
        return self.options.count_epochs(has_graph=has_graph, n_folds=n_folds)

    @property
    def has_estimate(self) -> bool:
        """Whether accuracy is estimated by folds; by default only without test labels."""
        split, labels = self.source.split, self.source.data.labels
        if self.options.folds == 0 or self.peers.size > 1:
            return False
        can_hide = np.bincount(labels[split.train], minlength=1).max() >= 2
        return bool(can_hide and (self.options.folds is not None or not split.test.size))

    def describe_plan(self) -> str:
        """Return what will be done, and without a GPU about how long the fit takes."""
        data = self.source.data
        is_scored = self.has_estimate or self.source.split.test.size > 0
        rivals = choose_rivals(self.options.rivals, has_graph=data.graph is not None)
        n_rivals = len(rivals) if is_scored else 0
        counted = ((self.n_hidden_folds, "fold"), (n_rivals, "rival"))
        plan = ", ".join(["one fit", *(format_count(n, what) for n, what in counted if n)])
        seconds = self.n_epochs * (_EPOCH_SECONDS + _NODE_SECONDS * data.n_nodes)
        if seconds < 1 or self.options.device != "cpu":
            return plan
        return f"about {float(f'{seconds:.1g}'):.0f} s on an idle machine: {plan}"

    def fit(self, on_progress: ProgressFunction = lambda event: None) -> None:
        """Fit to the labels of the split, evaluate the fit, and collect the results.

        Each of several processes uses one thread unless the options set another number.
        """
        source, options, split = self.source, self.options, self.source.split
        if self._state is not None and self._has_own_state:
            self._state.mkdir(parents=True, exist_ok=True)  # marks the run as unfinished
        calibrates = split.val.size or (options.folds != 0 and self.peers.size == 1)
        callbacks = [GraphLog(), ProgressLog(on_progress)]
        self.model = options.make_estimator(
            callbacks=callbacks, calibrate="auto" if calibrates else None
        )
        is_kept = not (self._has_own_state and options.settings().is_literal)
        features, graph = source.local_rows
        seconds = {}
        with self._limit_threads():
            started = time.perf_counter()
            self.model.fit(
                features,
                source.visible_labels,
                graph,
                split.val if split.val.size else None,
                folds=self._n_folds,
                peers=self.peers,
                checkpoint=self._state if is_kept else None,
                **(source.fold_columns if self.n_hidden_folds else {}),
            )
            seconds["fit"] = time.perf_counter() - started
            self.model.row_names_ = source.data.ids
            if self.peers.rank:
                return
            evaluation = self._evaluate(seconds["fit"], on_progress)
            seconds["evaluation"] = time.perf_counter() - started - seconds["fit"]
            self.results = self.collect(evaluation, seconds)

    def _limit_threads(self) -> AbstractContextManager[None]:
        n_nodes = self.source.data.n_nodes if self.peers.size == 1 else 0
        return limit_threads(n_nodes, self.options.threads)

    def _evaluate(self, seconds: float, on_progress: ProgressFunction) -> Evaluation | None:
        """Evaluate the fit by folds or on the test labels; ``None`` if nothing is to be judged.

        A fit without validation nodes has hidden labels in folds already. Otherwise each fold is
        fitted with the same options.
        """
        data, split, options = self.source.data, self.source.split, self.options

        def report(stage: str) -> None:
            n_epochs = options.count_epochs(has_graph=data.graph is not None, n_folds=0)
            on_progress(Progress(stage, 0, n_epochs if stage.startswith("fold") else 0))

        def report_epoch(event: Progress) -> None:  # the folds are the only stages
            if event.epoch:
                on_progress(event)

        more: Any = {"rivals": options.rivals, "random_state": options.seed, "watch": report}
        if not self.has_estimate:
            return self._evaluate_test(seconds, report) if split.test.size else None
        if self.model.folds_ is not None:
            return evaluate_fit(self.model, seconds=seconds, **more)
        evaluation = evaluate(
            data.features,
            self.source.visible_labels,
            data.graph,
            options.make_estimator(callbacks=[ProgressLog(report_epoch)]),
            self._n_folds,
            validation=split.val if split.val.size else None,
            checkpoint=None if self._state is None else self._state / "folds",
            **self.source.fold_columns,
            **more,
        )
        self.model.set_calibration(evaluation.held_out)
        return evaluation

    def _evaluate_test(self, seconds: float, report: Callable[[str], None]) -> Evaluation:
        """Score the fit and its rivals on the test labels.

        Nodes of a class without a training label count as mistakes. With several processes
        process 0 reads all the data for the rivals.
        """
        data, split = self.source.data, self.source.split
        if self.peers.size > 1 and self.options.rivals:
            alone = dataclasses.replace(self.source, peers=SINGLE_PROCESS)
            data = data.replace(features=alone.data.features)
        test, seen = split.test, np.concatenate([split.train, split.val])
        classes = np.array([data.class_names.index(str(label)) for label in self.model.classes_])
        found = expand_classes(self.model.label_distributions_, classes, data.n_classes)
        parts = data.features, data.graph, data.labels, split.train, split.val, data.n_classes
        return estimate(
            NodeProblem(*parts),
            HeldOut.of(found, test, data.labels[test]),
            Folds((test,), (seen,), np.empty(0, np.int64)),
            np.array(data.class_names),
            seconds=seconds,
            calibration=self.model.calibration_,
            rivals=choose_rivals(self.options.rivals, has_graph=data.graph is not None),
            seed=self.options.seed,
            progress=report,
        )

    def collect(self, evaluation: Evaluation | None, seconds: dict[str, float]) -> Results:
        """Return the results of ``model``, which was fitted."""
        source, options, model = self.source, self.options, self.model
        data = source.data
        facts = {
            "date": f"{date.today()}",
            "seed": str(options.seed),
            "device": options.device,
            "data digest": f"SHA-256 {source.digest}",
            "features": f"{data.n_features:,}",
            **data.provenance,
            **package_versions(),
        }
        return collect_results(
            model,
            name=data.name,
            class_names=data.class_names,
            labels=data.labels,
            ids=data.ids,
            split=source.split,
            given=data.graph,
            evaluation=evaluation,
            column_names=data.column_names,
            table=source.table,
            encoder=None if source.report is None else source.report.encoder,
            id_name=source.id_name,
            rounds=collect_rounds(model.callbacks, model.graph_),
            search=options.search,
            facts=facts,
            seconds=seconds,
            command=options.command,
            notes=source.notes,
            readings=source.columns,
        )

    def write(self) -> None:
        """Write the run folder; all processes must call it."""
        with self._limit_threads():
            self.left_out = write_run(self.folder, self.source, self.results, self.model)
        if self._has_own_state:
            remove_state(self.folder)

    def close(self) -> None:
        """Release the lock of the run folder; a state without a finished round is removed."""
        if self._has_own_state:
            remove_state(self.folder, only_empty=True)
        if self._lock is not None:
            self._lock.release()


# Graph of each round


class GraphLog(Callback):
    """Record the graph at the end of each round and the value of each term of its objective.

    Rounds of folds are left out. With several processes nothing is recorded, as no process has the
    whole graph.
    """

    may_lag = True

    def __init__(self) -> None:
        self._learned: list[tuple[int, LearnedGraph]] = []  # round and graph
        self._track = ""  # the track under way; without a name if it is the only one
        self._rounds: dict[str, Round] = {}  # by the names of track and round

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Note fold and track, whose names precede that of the stage."""
        self._track = stage.rpartition(", ")[0]

    def on_graph(self, number: int, learned: LearnedGraph) -> None:
        """Keep the learned graph until the round ends."""
        self._learned.append((number, learned))

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Record the graph; without terms if it is the prior graph, which was not solved for."""
        own = [learned for _, learned in self._learned if learned.adjacency is adjacency]
        self._learned = [kept for kept in self._learned if kept[0] == 1]  # folds share the first
        if adjacency.shape[0] == adjacency.shape[1] and not self._track.startswith("fold "):
            terms = own[-1].problem.evaluate_terms(adjacency) if own else {}
            found = Round(f"round {number}", adjacency, terms)
            self._rounds[f"{self._track}, {found.name}"] = found

    def rounds_to(self, graph: sp.csr_matrix) -> tuple[Round, ...]:
        """Return the rounds of the track that ended with a graph; those of an only track anyway."""
        names = [name.rpartition(", ")[0] for name in self._rounds]
        for track in dict.fromkeys(names):
            own = [one for one, name in zip(self._rounds.values(), names) if name == track]
            last = own[-1].graph
            is_last = last.shape == graph.shape and (last != graph).nnz == 0
            if is_last or len(set(names)) == 1:
                return tuple(own)
        return ()

    def state_dict(self) -> CallbackState:
        """Return the recorded rounds, to be saved in a checkpoint."""
        return {name: (one.graph, one.terms) for name, one in self._rounds.items()}

    def load_state_dict(self, state: CallbackState) -> None:
        """Restore the rounds from a checkpoint."""
        self._rounds = {n: Round(n.rpartition(", ")[2], *kept) for n, kept in state.items()}


def collect_rounds(callbacks: Iterable[Callback] | None, graph: sp.csr_matrix) -> tuple[Round, ...]:
    """Return the rounds that led to a graph, from the :class:`GraphLog` among the callbacks."""
    logs = [callback for callback in callbacks or () if isinstance(callback, GraphLog)]
    return logs[0].rounds_to(graph) if logs else ()
