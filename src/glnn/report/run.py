"""One run from data to results: fit, compare on the same labels, count."""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn._utils import check_integer
from glnn.data import NodeData, Split
from glnn.data.files import WriterLock, plain_name
from glnn.distributed import ALONE, Peers, agreed
from glnn.engine.callbacks import Callback, Memory, Progress, ProgressLog
from glnn.engine.settings import FitSettings, resolve_settings
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.exceptions import InputError
from glnn.graph.adjacency import SparseAdjacency
from glnn.quality.folds import most_folds
from glnn.quality.labelling import suspect_labels
from glnn.quality.rivals import PLAIN_METHODS, NodeProblem, comparable_features, get_plain
from glnn.report.explained import link_terms, metric_columns
from glnn.report.page.page_data import Round, Search
from glnn.report.results import FitResults, GraphFacts, Score, accuracy
from glnn.report.run_folder import prepare_folder
from glnn.report.sources import OpenedSource, Reading, TakenRows
from glnn.report.text import has_single_labels
from glnn.solver import LearnedGraph

# --- run_labels: Which labels the fit of a run may see, and which class is which


def visible_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return what the estimator may see: classes of training and validation nodes.

    Classes are whole numbers where all names are, otherwise names.
    """
    seen = np.concatenate([split.train, split.val])
    if all(name == str(_whole(name)) for name in data.class_names):
        y = np.full(data.n_nodes, -1, dtype=np.int64)
        y[seen] = np.array([int(name) for name in data.class_names])[data.labels[seen]]
        return y
    named = np.full(data.n_nodes, "", dtype=object)
    named[seen] = np.array(data.class_names, dtype=object)[data.labels[seen]]
    return named.astype(np.str_)


def hidden_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return the classes of the test nodes, which no fit sees; -1 elsewhere."""
    hidden = np.full(data.n_nodes, -1, dtype=np.int64)
    hidden[split.test] = data.labels[split.test]
    return hidden


def class_numbers(data: NodeData, classes: np.ndarray) -> np.ndarray:
    """Return the class number in ``data`` of each of the estimator's classes."""
    place = {name: number for number, name in enumerate(data.class_names)}
    return np.array([place[str(name)] for name in classes], dtype=np.int64)


def _whole(name: str) -> int | None:
    return int(name) if name.isascii() and name.removeprefix("-").isdigit() else None


# --- threads: How many processor threads a run computes with

SMALL = 10_000
"""Below this many nodes, threads wait for each other longer than they work."""


@contextmanager
def threads_for(n_nodes: int, threads: int | None) -> Iterator[None]:
    """Compute with this many threads inside the block; by default one where the graph is small."""
    before = torch.get_num_threads()
    wanted = threads if threads is not None else 1 if n_nodes < SMALL else before
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- graph_log: What the graph step found in each round, kept while a fit runs


class GraphLog(Callback):
    """Keep the graph that every round ends with, and its objective term by term.

    Over several processes no one has the whole graph, and nothing is kept.
    """

    may_lag = True

    def __init__(self) -> None:
        self._solved: list[LearnedGraph] = []
        self.rounds: list[Round] = []

    def on_graph(self, number: int, learned: LearnedGraph) -> None:
        """Remember the answer until the round ends."""
        self._solved.append(learned)

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Keep the graph; without terms where it is the prior graph, which nothing has solved."""
        own = [learned for learned in self._solved if learned.adjacency is adjacency]
        self._solved = []
        if adjacency.shape[0] == adjacency.shape[1]:
            terms = objective_terms(own[-1]) if own else {}
            self.rounds.append(Round(f"round {number}", adjacency, terms))

    def memory(self) -> Memory:
        """Return the rounds, so that a fit that goes on from a checkpoint has them all."""
        return {one.name: (one.graph, one.terms) for one in self.rounds}

    def recall(self, memory: Memory) -> None:
        """Take back the rounds before an interruption."""
        self.rounds = [Round(name, *kept) for name, kept in memory.items()]


def objective_terms(learned: LearnedGraph) -> dict[str, float]:
    """Return the weighted value of each term that counts."""
    problem = learned.problem
    graph = SparseAdjacency.from_scipy(learned.adjacency)
    return {term.name: float(term.weight * term.value(graph)) for term in problem.terms}


def logged_rounds(callbacks: Iterable[Callback] | None) -> tuple[Round, ...]:
    """Return what the log among the callbacks of a fit has kept."""
    logs = [callback for callback in callbacks or () if isinstance(callback, GraphLog)]
    return tuple(logs[0].rounds) if logs else ()


# --- fit_run: One run from data to results: fit, compare on the same labels, count

COMPARED = tuple(PLAIN_METHODS)

Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class FitOptions:
    """How to fit; ``None`` leaves a setting to the preset.

    ``threads`` of ``None`` means one thread below 10,000 nodes, where more of them wait for each
    other longer than they work, and PyTorch's own choice above. ``command`` is what was typed, for
    the report; ``more`` are further parameters of the estimator, which give way to the options, and
    ``search`` how they were found.
    """

    preset: str = "default"
    head: str | None = None
    seed: int = 0
    n_neighbors: int | None = None
    n_epochs: int | None = None
    device: str = "cpu"
    threads: int | None = None
    class_weight: str | None = None
    command: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    search: Search | None = None

    def check(self) -> None:
        """Refuse a wrong option before any work is done."""
        self.settings()
        check_integer("--seed", self.seed, low=0)
        if self.class_weight not in (None, "balanced"):
            raise InputError(
                f"--class-weight must be balanced, got {self.class_weight!r}. Leave it out, and "
                "every label counts the same."
            )
        if self.threads is not None:
            check_integer("--threads", self.threads, low=1)
        check_device(self.device)

    def on_own_device(self) -> "FitOptions":
        """Return the options with this process's GPU, where several share one machine."""
        if self.device != "cuda" or "LOCAL_RANK" not in os.environ:
            return self
        return dataclasses.replace(self, device=f"cuda:{os.environ['LOCAL_RANK']}")

    def settings(self) -> FitSettings:
        """Return all settings of the fit."""
        return resolve_settings(self.preset, self.head, self._changes())

    def expected_epochs(self, *, has_graph: bool) -> int:
        """Return the epochs of all rounds; choices made on validation nodes come on top."""
        settings = self.settings()
        n_rounds = settings.graph_settings(has_graph).n_rounds
        return settings.head.n_epochs * (1 if settings.is_literal else n_rounds)

    def estimator(self, watch: Watch | None = None, calibrate: str | None = None) -> GLNNClassifier:
        """Return the unfitted estimator; the estimate's folds calibrate it later."""
        callbacks = [GraphLog(), *([] if watch is None else [ProgressLog(watch)])]
        model = GLNNClassifier(random_state=self.seed, device=self.device, callbacks=callbacks)
        changes = self._changes() | {"calibrate": calibrate, "class_weight": self.class_weight}
        return model.set_params(preset=self.preset, head=self.head, **changes)

    def _changes(self) -> dict[str, Any]:
        wanted = {"n_neighbors": self.n_neighbors, "n_epochs": self.n_epochs}
        return {**self.more, **{name: v for name, v in wanted.items() if v is not None}}


def check_device(device: str) -> None:
    """Refuse a device that PyTorch cannot compute on here."""
    try:
        torch.empty(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError):
        n_cuda = torch.cuda.device_count()
        here = ["cpu", *(f"cuda:{k}" for k in range(n_cuda))]
        raise InputError(
            f"device must be one that works here ({', '.join(here)}), got {device!r}."
        ) from None


@dataclass(frozen=True, eq=False)
class Start:
    """What is known before a fit: the data of this process, and where its run will lie.

    With several processes ``opened`` has no feature values; ``rows`` has those of this process.
    The first of them holds the ``lock`` of the folder.
    """

    folder: Path
    opened: OpenedSource
    split: Split
    rows: TakenRows
    lock: WriterLock | None = None

    @classmethod
    def of(cls, folder: Path, opened: OpenedSource, split: Split) -> "Start":
        """Take all rows: there is no other process."""
        return cls(folder, opened, split, TakenRows(opened.data.features, opened.data.graph))

    def release(self) -> None:
        """Let others write to the run folder."""
        if self.lock is not None:
            self.lock.release()


def prepared(
    reading: Reading,
    options: FitOptions,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    peers: Peers = ALONE,
) -> Start:
    """Check options and data in every process, the run folder in process 0."""
    starts: list[Start] = []

    def check() -> None:
        options.check()
        opened, split, rows = reading.open(peers)
        name = f"{plain_name(opened.data.name)}-{options.preset}-{options.seed}"
        folder, lock = out or Path("runs") / name, None
        if peers.rank == 0:
            lock = prepare_folder(folder, overwrite=overwrite, resume=resume)
        starts.append(Start(folder, opened, split, rows, lock))

    agreed(peers, check)
    return starts[0]


def run_fit(
    start: Start,
    options: FitOptions,
    *,
    compared: tuple[str, ...] = (),
    watch: Watch | None = None,
    peers: Peers = ALONE,
    checkpoint: Path | None = None,
    calibrates: bool = False,
) -> tuple[FitResults | None, GLNNClassifier]:
    """Fit on the labels of a split, run the methods to compare, and count in process 0.

    Parameters
    ----------
    start
        The data, and which labels train, choose the epoch and test.
    options
        How to fit. Unless it says otherwise, each of several processes has one thread: they
        share the processors.
    compared
        Names of plain methods that get the same labels; process 0 reads all the data for them.
    watch
        Told how far the work is; a plain method is a stage of no epochs.
    peers
        The processes of the fit.
    checkpoint
        Folder of the state after each round, or ``None``.
    calibrates
        Whether some labels may be hidden in a second fit to calibrate probabilities, where no
        validation nodes do it and no estimate will: there are labels left to test.
    """
    opened, split, rows = start.opened, start.split, start.rows
    hides_labels = calibrates and split.test.size > 0 and peers.size == 1
    y, n_nodes = visible_labels(opened.data, split), opened.data.n_nodes
    model = options.estimator(watch, "auto" if split.val.size or hides_labels else None)
    with threads_for(n_nodes if peers.size == 1 else 0, options.threads):
        started = time.perf_counter()
        model.fit(rows.features, y, rows.graph, split.val, peers=peers, checkpoint=checkpoint)
        seconds = time.perf_counter() - started
        if peers.rank:
            return None, model
        whole = opened.data
        if compared and peers.size > 1:
            whole = whole.replace(features=opened.source.open().data.features)
        others = [compared_score(name, whole, split, options.seed, watch) for name in compared]
    return results_of(opened, split, options, model, seconds, others), model


def results_of(
    opened: OpenedSource,
    split: Split,
    options: FitOptions,
    model: GLNNClassifier,
    fit_seconds: float,
    others: Sequence[Score] = (),
) -> FitResults:
    """Count what a fitted model found; ``others`` are scores to show beside it."""
    data, seconds = opened.data, {"fit": fit_seconds}
    classes = class_numbers(data, model.classes_)
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
        facts=GraphFacts.of(model.graph_, hidden_labels(data, split), data.graph),
        scores=(own, *others),
        history=model.history_,
        settings=used_settings(options.settings(), data.graph is not None, model.choices_),
        seed=options.seed,
        device=options.device,
        seconds=seconds | {score.method: score.seconds for score in others},
        notes=opened.notes,
        command=options.command,
        rounds=logged_rounds(model.callbacks),
        terms=link_terms(nodes),
        metric=metric_columns(nodes),
        digest=opened.digest,
        trust=model.edge_trust_,
        search=options.search,
        calibration=model.calibration_,
    )


def used_settings(
    settings: FitSettings, has_graph: bool, choices: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that were in force, as plain values, and what the fit chose itself."""
    page = dataclasses.asdict(settings)
    page["graph"] = dataclasses.asdict(settings.graph_settings(has_graph))
    del page["no_graph"]
    return {**page, "chosen": dict(choices)}


def compared_score(
    name: str, data: NodeData, split: Split, seed: int, watch: Watch | None
) -> Score:
    """Run one plain method on the same labels."""
    method = get_plain(name)
    if watch is not None:
        watch(Progress(method.title, 0, 0))
    features = comparable_features(data.features)
    problem = NodeProblem(features, data.graph, data.labels, split.train, split.val, data.n_classes)
    predicted = method.fit_predict(problem, seed)
    right = accuracy(predicted.classes, data.labels, split.test)
    kept = predicted.probabilities[split.test]
    return Score(method.title, right, predicted.seconds, probabilities=kept, name=name)


# --- estimate_run: The estimate of a run: folds over its labels, its probabilities calibrated by t

FOLDS = 5


class _Epochs(ProgressLog):
    """Report epochs alone: the fold is the stage."""

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Keep silent."""


def folds_wanted(results: FitResults, folds: int | None) -> int:
    """Return how many folds to run: as many as asked for, else 5 where no label is left to test.

    None where every class has a single label, as none of them can be hidden; no more than labels
    are good for.
    """
    if folds == 0 or has_single_labels(results):
        return 0
    wanted = folds or (0 if results.split.test.size else FOLDS)
    return min(wanted, most_folds(results.data.labels[results.split.train]))


def with_estimate(
    results: FitResults,
    model: GLNNClassifier,
    options: FitOptions,
    n_folds: int,
    watch: Watch | None = None,
    checkpoint: Path | None = None,
) -> FitResults:
    """Judge the fit on labels that it has not seen; calibrate results and model by them.

    Parameters
    ----------
    results, model
        The run, and the fitted model that calibrates its probabilities from now on.
    options
        How it was fitted: each fold is fitted the same way.
    n_folds
        Number of fits.
    watch
        Told how far the work is; each fold and each plain method is a stage.
    checkpoint
        Folder for what each fold has said, or ``None``.
    """
    data, split = results.data, results.split
    n_epochs = options.expected_epochs(has_graph=data.graph is not None)
    judged = options.estimator()
    if watch is not None:
        judged.set_params(callbacks=[_Epochs(watch)])

    def tell(stage: str) -> None:
        if watch is not None:
            watch(Progress(stage, 0, n_epochs if stage.startswith("fold") else 0))

    started = time.perf_counter()
    with threads_for(data.n_nodes, options.threads):
        estimate = evaluate(
            data.features,
            visible_labels(data, split),
            data.graph,
            judged,
            n_folds,
            validation=split.val if split.val.size else None,
            random_state=options.seed,
            watch=tell,
            checkpoint=checkpoint,
        )
    model.trust(estimate.held_out)
    found = suspect_labels(estimate.held_out, estimate.probabilities)
    return dataclasses.replace(
        results,
        probabilities=model.label_distributions_,
        estimate=estimate,
        suspects=tuple(found.nodes.tolist()),
        calibration=model.calibration_,
        seconds={**results.seconds, "estimate": time.perf_counter() - started},
    )
