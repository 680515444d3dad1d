"""Run one fit: check options and data, fit, run the rivals, and collect the results.

Also the estimate by cross-validation, and the callback that records the graph of each round.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn._utils import check_integer, limit_threads
from glnn.data import NodeData, Split
from glnn.data.files import WriterLock, safe_file_name
from glnn.distributed import SINGLE_PROCESS, Peers, run_everywhere
from glnn.engine.callbacks import Callback, CallbackState, Progress, ProgressLog
from glnn.engine.folds import N_FOLDS
from glnn.engine.settings import FitSettings, resolve_settings
from glnn.estimator import GLNNClassifier, nest_settings
from glnn.evaluation import evaluate, evaluate_fit
from glnn.exceptions import InputError
from glnn.graph.pairs import SparseAdjacency
from glnn.quality.labelling import suspect_labels
from glnn.quality.rivals import (
    NodeProblem,
    Rival,
    RivalChoice,
    choose_rivals,
    comparable_features,
)
from glnn.report.explained import link_terms, metric_columns
from glnn.report.page.page_data import Round, Search
from glnn.report.results import FitResults, GraphFacts, Score, accuracy, describe_settings
from glnn.report.run_folder import prepare_folder
from glnn.report.sources import DataSpec, LocalRows, OpenedSource
from glnn.report.text import has_single_labels
from glnn.solver import LearnedGraph

# Labels


def mask_test_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return the labels of training and validation nodes; all other nodes are unlabelled.

    Labels are integers if all class names are integers (unlabelled: ``None``), otherwise names
    (unlabelled: an empty text).
    """
    seen = np.concatenate([split.train, split.val])
    if all(name == str(_parse_integer(name)) for name in data.class_names):
        y = np.full(data.n_nodes, None, dtype=object)
        y[seen] = np.array([int(name) for name in data.class_names])[data.labels[seen]]
        return y
    named = np.full(data.n_nodes, "", dtype=object)
    named[seen] = np.array(data.class_names, dtype=object)[data.labels[seen]]
    return named.astype(np.str_)


def select_test_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return the class numbers of the test nodes, and -1 for all other nodes."""
    hidden = np.full(data.n_nodes, -1, dtype=np.int64)
    hidden[split.test] = data.labels[split.test]
    return hidden


def index_classes(data: NodeData, classes: np.ndarray) -> np.ndarray:
    """Return the class number in ``data`` of each of the estimator's classes."""
    place = {name: number for number, name in enumerate(data.class_names)}
    return np.array([place[str(name)] for name in classes], dtype=np.int64)


def _parse_integer(name: str) -> int | None:
    return int(name) if name.isascii() and name.removeprefix("-").isdigit() else None


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
        self._rounds: dict[str, dict[str, Round]] = {}  # by track and name

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
            found = Round(f"round {number}", adjacency, evaluate_terms(own[-1]) if own else {})
            self._rounds.setdefault(self._track, {})[found.name] = found

    def rounds_to(self, graph: sp.csr_matrix) -> tuple[Round, ...]:
        """Return the rounds of the track that ended with a graph; those of an only track anyway."""
        tracks = [tuple(rounds.values()) for rounds in self._rounds.values()]
        if len(tracks) == 1:
            return tracks[0]
        return next((rounds for rounds in tracks if _is_same(rounds[-1].graph, graph)), ())

    def state_dict(self) -> CallbackState:
        """Return the recorded rounds, to be saved in a checkpoint."""
        return {
            f"{track}, {name}": (one.graph, one.terms)
            for track, rounds in self._rounds.items()
            for name, one in rounds.items()
        }

    def load_state_dict(self, state: CallbackState) -> None:
        """Restore the rounds from a checkpoint."""
        self._rounds = {}
        for whole, kept in state.items():
            track, _, name = whole.rpartition(", ")
            self._rounds.setdefault(track, {})[name] = Round(name, *kept)


def _is_same(graph: sp.csr_matrix | None, other: sp.csr_matrix) -> bool:
    return graph is not None and graph.shape == other.shape and (graph != other).nnz == 0


def evaluate_terms(learned: LearnedGraph) -> dict[str, float]:
    """Return the weighted value of each term of the objective."""
    problem = learned.problem
    graph = SparseAdjacency.from_scipy(learned.adjacency)
    return {term.name: float(term.weight * term.value(graph)) for term in problem.terms}


def collect_rounds(callbacks: Iterable[Callback] | None, graph: sp.csr_matrix) -> tuple[Round, ...]:
    """Return the rounds that led to a graph, from the :class:`GraphLog` among the callbacks."""
    logs = [callback for callback in callbacks or () if isinstance(callback, GraphLog)]
    return logs[0].rounds_to(graph) if logs else ()


# The run

ProgressFunction = Callable[[Progress], None]


@dataclass(frozen=True)
class FitOptions:
    """How to fit; ``None`` leaves a setting to the preset."""

    preset: str = "default"
    head: str | None = None
    seed: int = 0
    n_neighbors: int | None = None
    n_epochs: int | None = None
    device: str = "cpu"
    threads: int | None = None  # at most so many; None: as many as PyTorch chooses
    class_weight: str | None = None
    rivals: RivalChoice = None  # methods to compare with, as in glnn.evaluate
    command: str = ""  # the command line, for the report
    extra_params: Mapping[str, Any] = field(default_factory=dict)  # overridden by the options
    search: Search | None = None  # the search that found extra_params

    def check(self) -> None:
        """Raise InputError for a wrong option."""
        self.settings()
        check_integer("--seed", self.seed, low=0)
        if self.class_weight not in (None, "balanced"):
            raise InputError(
                f"--class-weight must be balanced, got {self.class_weight!r}. Leave it out "
                "to weight all labels equally."
            )
        if self.threads is not None:
            check_integer("--threads", self.threads, low=1)
        choose_rivals(self.rivals, has_graph=True)
        require_device(self.device)

    def with_local_device(self) -> "FitOptions":
        """Return the options with the GPU of this process, if several processes share a machine."""
        if self.device != "cuda" or "LOCAL_RANK" not in os.environ:
            return self
        return dataclasses.replace(self, device=f"cuda:{os.environ['LOCAL_RANK']}")

    def settings(self) -> FitSettings:
        """Return the settings of the fit."""
        return resolve_settings(self.preset, self._changes())

    def count_epochs(self, *, has_graph: bool, n_folds: int) -> int:
        """Return the most epochs that a fit can take, those on folds of the labels included."""
        settings = self.settings()
        n_epochs = 0
        for track in settings.tracks_for(has_graph):
            has_rounds = track.learns and not settings.is_literal
            n_epochs += track.head.n_epochs * (track.graph.n_rounds if has_rounds else 1)
        return (1 + n_folds) * n_epochs

    def make_estimator(
        self, on_progress: ProgressFunction | None = None, calibrate: str | None = None
    ) -> GLNNClassifier:
        """Return the unfitted estimator."""
        callbacks = [GraphLog(), *([] if on_progress is None else [ProgressLog(on_progress)])]
        model = GLNNClassifier(random_state=self.seed, device=self.device, callbacks=callbacks)
        model.set_params(preset=self.preset, calibrate=calibrate, class_weight=self.class_weight)
        return model.set_params(**nest_settings(self._changes()))

    def _changes(self) -> dict[str, Any]:
        wanted = {"head": self.head, "n_neighbors": self.n_neighbors, "n_epochs": self.n_epochs}
        return {**self.extra_params, **{name: v for name, v in wanted.items() if v is not None}}


def require_device(device: str) -> None:
    """Raise InputError for a device that PyTorch cannot use on this machine."""
    try:
        torch.empty(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError):
        n_cuda = torch.cuda.device_count()
        here = ["cpu", *(f"cuda:{k}" for k in range(n_cuda))]
        raise InputError(
            f"device must be one of this machine ({', '.join(here)}), got {device!r}."
        ) from None


@dataclass(frozen=True, eq=False)
class RunInputs:
    """The input of a fit in this process, and the run folder."""

    folder: Path  # where the run will be written
    opened: OpenedSource  # the data; without feature values if there are several processes
    split: Split
    rows: LocalRows  # features and graph of this process
    lock: WriterLock | None = None  # lock of the folder, held by process 0

    @classmethod
    def of(cls, folder: Path, opened: OpenedSource, split: Split) -> "RunInputs":
        """Return the input of a fit in a single process."""
        return cls(folder, opened, split, LocalRows(opened.data.features, opened.data.graph))

    def release(self) -> None:
        """Release the lock of the run folder."""
        if self.lock is not None:
            self.lock.release()


def prepare_run(
    spec: DataSpec,
    options: FitOptions,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    peers: Peers = SINGLE_PROCESS,
) -> RunInputs:
    """Check the options, read the data of this process, and lock the run folder in process 0."""
    prepared: list[RunInputs] = []

    def check() -> None:
        options.check()
        opened, split, rows = spec.open(peers)
        name = f"{safe_file_name(opened.data.name)}-{options.preset}-{options.seed}"
        folder, lock = out or Path("runs") / name, None
        if peers.rank == 0:
            lock = prepare_folder(folder, overwrite=overwrite, resume=resume)
        prepared.append(RunInputs(folder, opened, split, rows, lock))

    run_everywhere(peers, check)
    return prepared[0]


def run_fit(
    inputs: RunInputs,
    options: FitOptions,
    *,
    on_progress: ProgressFunction | None = None,
    peers: Peers = SINGLE_PROCESS,
    checkpoint: Path | None = None,
    calibrate: bool = False,
    n_folds: int = N_FOLDS,
) -> tuple[FitResults | None, GLNNClassifier]:
    """Fit on the labels of the split, run the rivals on test labels, and collect the results.

    Results are ``None`` in all processes but process 0, which reads all the data for the rivals of
    the options. Each of several processes uses one thread unless the options set another number.
    With ``calibrate`` labels are hidden to calibrate probabilities, if there are no validation
    labels; a fit of several tracks hides them anyway. ``on_progress`` is called at each epoch and
    at the start of each stage; ``checkpoint`` is the folder for the state after each round.
    """
    opened, split, rows = inputs.opened, inputs.split, inputs.rows
    may_hide_labels = calibrate and peers.size == 1
    hides = not split.val.size and not options.settings().is_literal
    y, n_nodes = mask_test_labels(opened.data, split), opened.data.n_nodes
    model = options.make_estimator(
        on_progress, "auto" if split.val.size or may_hide_labels else None
    )
    with limit_threads(n_nodes if peers.size == 1 else 0, options.threads):
        started = time.perf_counter()
        model.fit(
            rows.features,
            y,
            rows.graph,
            split.val if split.val.size else None,
            folds=n_folds,
            groups=opened.groups if hides else None,
            times=opened.times if hides else None,
            peers=peers,
            checkpoint=checkpoint,
        )
        seconds = time.perf_counter() - started
        if peers.rank:
            return None, model
        others = []
        if split.test.size and options.rivals:
            whole = opened.data
            if peers.size > 1:
                whole = whole.replace(features=opened.source.open().data.features)
            others = score_on_test(whole, split, options, on_progress)
    return collect_results(opened, split, options, model, seconds, others), model


def collect_results(
    opened: OpenedSource,
    split: Split,
    options: FitOptions,
    model: GLNNClassifier,
    fit_seconds: float,
    others: Sequence[Score] = (),
) -> FitResults:
    """Return the results of a fitted model; ``others`` are the scores of the rivals."""
    data, seconds = opened.data, {"fit": fit_seconds}
    classes = index_classes(data, model.classes_)
    predictions = classes[model.label_distributions_.argmax(1)]
    nodes = model.fitted_nodes(data.column_names)
    own = Score("GLNN", accuracy(predictions, data.labels, split.test), fit_seconds)
    return FitResults(
        data=data,
        split=split,
        classes=classes,
        probabilities=model.label_distributions_,
        adjacency=model.graph_,
        certificate=model.certificate_,
        facts=GraphFacts.of(model.graph_, select_test_labels(data, split), data.graph),
        scores=(own, *others),
        history=model.history_,
        settings=describe_settings(options.settings(), data) | {"chosen": model.choices_},
        seed=options.seed,
        device=options.device,
        seconds=seconds | {score.method: score.seconds for score in others},
        notes=opened.notes,
        command=options.command,
        rounds=collect_rounds(model.callbacks, model.graph_),
        terms=link_terms(nodes),
        metric=metric_columns(nodes),
        digest=opened.digest,
        trust=model.edge_trust_,
        search=options.search,
        calibration=model.calibration_,
        groups=opened.groups,
        times=opened.times,
    )


def score_on_test(
    data: NodeData, split: Split, options: FitOptions, on_progress: ProgressFunction | None
) -> list[Score]:
    """Fit the rivals on the same labels, and score them on the test nodes."""
    features = comparable_features(data.features)
    problem = NodeProblem(features, data.graph, data.labels, split.train, split.val, data.n_classes)
    scores = []
    for rival in choose_rivals(options.rivals, has_graph=data.graph is not None):
        if on_progress is not None:
            on_progress(Progress(rival.title, 0, 0))
        scores.append(_score_rival(rival, problem, data.labels, split.test, options.seed))
    return scores


def _score_rival(
    rival: Rival, problem: NodeProblem, labels: np.ndarray, test: np.ndarray, seed: int
) -> Score:
    """Fit a rival and score it on the test nodes; without a number if it fails."""
    started = time.perf_counter()
    try:
        found = rival.fit_predict(problem, seed)
    except Exception as error:
        note = f"{rival.title} failed: {str(error).strip().splitlines()[0]}"
        return Score(rival.title, None, 0.0, note, name=rival.name)
    seconds, right = time.perf_counter() - started, accuracy(found.argmax(1), labels, test)
    note = rival.describe_limits(problem)
    return Score(rival.title, right, seconds, note, found[test], rival.name)


# Estimate by cross-validation


class _EpochLog(ProgressLog):
    """Report epochs only; the folds of an estimate are its stages."""

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Do nothing."""


def wants_estimate(results: FitResults, folds: int | None) -> bool:
    """Return whether accuracy is estimated by folds; by default only without test labels."""
    is_asked = folds is not None or not results.split.test.size
    return is_asked and not has_single_labels(results)


def add_estimate(
    results: FitResults,
    model: GLNNClassifier,
    options: FitOptions,
    n_folds: int = N_FOLDS,
    on_progress: ProgressFunction | None = None,
    checkpoint: Path | None = None,
) -> FitResults:
    """Judge the fit by hidden labels, beside plain methods, and calibrate it by the same labels.

    A fit without validation nodes has hidden labels in folds already. Otherwise each fold is
    fitted with the same options; ``checkpoint`` is the folder for the results of these.
    """
    data, split = results.data, results.split

    def report_stage(stage: str) -> None:
        if on_progress is not None:
            n_epochs = options.count_epochs(has_graph=data.graph is not None, n_folds=0)
            on_progress(Progress(stage, 0, n_epochs if stage.startswith("fold") else 0))

    started = time.perf_counter()
    more: Any = {"rivals": options.rivals, "random_state": options.seed, "watch": report_stage}
    with limit_threads(data.n_nodes, options.threads):
        if model.folds_ is not None:
            estimate = evaluate_fit(model, seconds=results.seconds["fit"], **more)
        else:
            refitted = options.make_estimator()
            if on_progress is not None:
                refitted.set_params(callbacks=[_EpochLog(on_progress)])
            estimate = evaluate(
                data.features,
                mask_test_labels(data, split),
                data.graph,
                refitted,
                n_folds,
                validation=split.val if split.val.size else None,
                groups=results.groups,
                times=results.times,
                checkpoint=checkpoint,
                **more,
            )
            model.set_calibration(estimate.held_out)
    found = suspect_labels(estimate.held_out, estimate.probabilities)
    return dataclasses.replace(
        results,
        probabilities=model.label_distributions_,
        estimate=estimate,
        suspects=tuple(found.nodes.tolist()),
        calibration=model.calibration_,
        seconds={**results.seconds, "estimate": time.perf_counter() - started},
    )
