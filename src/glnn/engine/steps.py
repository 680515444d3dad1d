"""The two steps of a round: solve for the graph, train the classifier on it."""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float64
from torch import Tensor

from glnn._utils import map_row_blocks
from glnn.engine.callbacks import Callback, History, notify_stage
from glnn.engine.fit_problem import FitProblem
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.probe import channel_weights, probe_loss
from glnn.engine.row_task import RowTask, limit_hops
from glnn.engine.settings import FitSettings, GraphSettings, HeadSettings
from glnn.engine.tasks import ClassifierTask, Labels, TrainingTask, factor_task_gradient
from glnn.engine.trainer import Trainer
from glnn.exceptions import InputError
from glnn.graph.operators import (
    RandomWalk,
    SpectralFeatures,
    add_loops,
    drop_loops,
    is_uninformative,
)
from glnn.nn.features import Features
from glnn.solver import Certificate, LearnedGraph, NewRowProblem, TaskTerm, learn_graph
from glnn.solver.attribution import LinkShares, link_shares
from glnn.solver.learn import GivenGraph
from glnn.solver.signals import append_columns

# Trained classifiers

_CLEARLY_BETTER = 0.98  # largest ratio of validation losses of another choice and the current one
_COLLAPSE = 0.05  # loss of validation accuracy from which a round counts as failed


@dataclass(frozen=True)
class TrainedClassifier:
    """The result of a classifier step: network, predictions, validation loss and accuracy.

    ``temperature`` is applied to the predictions where several classifiers are averaged.
    """

    task: ClassifierTask | RowTask
    probabilities: np.ndarray
    validation_loss: float | None
    validation_accuracy: float | None
    temperature: float = 1.0


def mean_answer(members: Sequence[TrainedClassifier]) -> np.ndarray:
    """Return the probabilities of a classifier, or the mean of several at their temperatures."""
    if len(members) == 1:
        return members[0].probabilities

    def mean(*answers: np.ndarray) -> np.ndarray:
        evened = [temper(answer, member.temperature) for answer, member in zip(answers, members)]
        return np.asarray(np.mean(evened, axis=0))

    return map_row_blocks(mean, *(member.probabilities for member in members))


def temper(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    r"""Return :math:`p^{1/T} / \sum_c p_c^{1/T}`.

    Examples
    --------
    >>> temper(np.array([[0.8, 0.2]]), 0.5).round(4)
    array([[0.9412, 0.0588]])
    """
    return temper_logs(log_probabilities(probabilities), temperature)


def temper_logs(logs: np.ndarray, temperature: float) -> np.ndarray:
    """Return :func:`temper` of log probabilities."""
    logits = logs / temperature
    powers = np.exp(logits - logits.max(1, keepdims=True))
    evened: np.ndarray = powers / powers.sum(1, keepdims=True)
    return evened


def log_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Return finite logarithms of probabilities."""
    logs: np.ndarray = np.log(np.maximum(probabilities, 1e-300))
    return logs


def predict_on_device(task: TrainingTask) -> Float64[Tensor, "n c"]:
    """Return the class probabilities of every node in double precision, where the task is."""
    with torch.no_grad():
        return task.scores().double().softmax(1)


def predict_probabilities(task: TrainingTask) -> np.ndarray:
    """Return the class probabilities of every node as an array."""
    probabilities: np.ndarray = predict_on_device(task).cpu().numpy()
    return probabilities


def is_better(tried: TrainedClassifier, kept: TrainedClassifier | None) -> bool:
    """Whether the validation loss of another choice is clearly lower."""
    assert tried.validation_loss is not None
    if kept is None or kept.validation_loss is None:
        return True
    return tried.validation_loss < _CLEARLY_BETTER * kept.validation_loss


def is_worse(trained: TrainedClassifier | None, before: TrainedClassifier | None) -> bool:
    """Whether validation loss and accuracy are both worse than in the round before."""
    if trained is None or before is None:
        return False
    if before.validation_loss is None or trained.validation_loss is None:
        return False
    assert trained.validation_accuracy is not None and before.validation_accuracy is not None
    has_higher_loss = trained.validation_loss > before.validation_loss
    return has_higher_loss and trained.validation_accuracy < before.validation_accuracy


def has_collapsed(trained: TrainedClassifier | None, before: TrainedClassifier | None) -> bool:
    """Whether a round has lost so much validation accuracy that it must have gone wrong."""
    now, then = (t.validation_accuracy if t is not None else None for t in (trained, before))
    return now is not None and then is not None and now < then - _COLLAPSE


# State of a fit


@dataclass(frozen=True, eq=False)
class Solution:
    """The parts of a solved graph problem that later steps need, beside the graph."""

    certificate: Certificate
    candidates: tuple[np.ndarray, np.ndarray]  # pairs of the feature search, for later rounds
    learned: LearnedGraph | None = None  # ``None`` after a checkpoint, and over several processes
    saved_shares: LinkShares | None = None  # link shares from a checkpoint

    def shares(self) -> LinkShares | None:
        """Return the share of each term in each link; ``None`` over several processes."""
        return self.saved_shares if self.learned is None else link_shares(self.learned)

    @classmethod
    def of(cls, learned: LearnedGraph) -> "Solution":
        """Build it from a solved problem."""
        is_whole = learned.adjacency.shape[0] == learned.n_nodes
        return cls(learned.certificate, learned.candidates, learned if is_whole else None)


@dataclass(frozen=True, eq=False)
class FitState:
    """The state of a fit. A step returns a new state; to undo a step is to keep the old one.

    Graphs, signals and predictions hold the rows of this process.
    """

    graph: GraphSettings  # of the next graph step
    head: HeadSettings  # of the next classifier step
    given: GivenGraph | None  # ``None`` without a given graph, or if it is not used
    n_rounds: int
    round: int = 0  # current or last round; 0 before the first
    adjacency: sp.csr_matrix | None = None  # the graph of the classifier
    learned: Solution | None = None  # last solution of the graph problem
    # graph problem of new rows; without a given graph that of the first round, which uses
    # features only
    new_rows: NewRowProblem | None = None
    trained: TrainedClassifier | None = None  # the last classifier
    # row heads of the first round, averaged with ``trained``
    partners: tuple[TrainedClassifier, ...] = ()
    # the graph of row heads: the given one, or that of the first round
    row_graph: sp.csr_matrix | None = None
    # probe error of the given graph divided by that of the features; 0 without probes
    doubt: float = 0.0
    temperature: float = 1.0  # of the next classifier in the average, if known before training

    def replace(self, **changes: Any) -> "FitState":
        """Return the state with some of its parts replaced."""
        return dataclasses.replace(self, **changes)

    @property
    def answer(self) -> np.ndarray:
        """The class probabilities of this process's rows: the mean over all classifiers."""
        assert self.trained is not None  # there was a classifier step
        return mean_answer((self.trained, *self.partners))

    def next_round(self) -> "FitState":
        """Return the state at the beginning of the next round."""
        return self.replace(round=self.round + 1)

    def restart(self, graph: GraphSettings, given: GivenGraph | None) -> "FitState":
        """Return the state with another graph problem, nothing of which is solved yet."""
        return self.replace(
            graph=graph, given=given, adjacency=None, learned=None, new_rows=None, trained=None
        )


# The signal ``structure``

STRUCTURE = "structure"


def with_structure(settings: FitSettings, problem: FitProblem) -> FitSettings:
    """Return the settings with the signal ``structure`` where a fit must choose it by itself."""
    if problem.graph is None:
        if settings.graph.signal == STRUCTURE:
            raise InputError(
                "signal='structure' must come with a graph, got none. Give graph=, or take another."
            )
        return settings
    if settings.seeks_structure and is_uninformative(problem.features, problem.peers):
        return settings.replace_setting("signal", STRUCTURE)
    return settings


def compute_structure(
    problem: FitProblem, scaled: Any, seed: int
) -> tuple[SpectralFeatures, np.ndarray]:
    """Return the structure of the given graph, and its features as long as the scaled ones are."""
    assert problem.graph is not None  # the settings were checked
    squares = scaled.multiply(scaled) if sp.issparse(scaled) else np.square(scaled)
    lengths = np.sqrt(np.asarray(squares.sum(1), dtype=np.float64))
    size = problem.peers.all_reduce(float(lengths.sum())) / problem.labels.n_nodes
    graph = problem.graph.astype(np.float64, copy=False)
    return SpectralFeatures.of(graph, problem.partition, size=size or 1.0, seed=seed)


def with_columns(scaled: Any, more: np.ndarray) -> Any:
    """Return scaled features with further columns, sparse if they are."""
    return append_columns(scaled, more).astype(np.float32)


# Steps

_INIT, _NOISE = 0, 1  # purposes of generators
_PROBLEM = ("weights", "n_neighbors", "reading", "prediction_weight", "prior")


class Steps:
    """The steps of one fit; each takes a state and returns the next one.

    ``history`` holds every epoch so far, also those of choices that were dropped.
    """

    def __init__(
        self,
        problem: FitProblem,
        settings: FitSettings,
        scaling: Scaling,
        *,
        seed: int,
        device: str,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.problem, self.settings, self.scaling = problem, settings, scaling
        self.seed, self.callbacks, self.history = seed, callbacks, History()
        self._walks: dict[bool, tuple[sp.csr_matrix, RandomWalk]] = {}  # with loops or without
        self.partition = problem.partition
        self.scaled = scaling.apply(problem.features)
        self.structure: SpectralFeatures | None = None
        signal: Any = None
        if settings.graph.signal == STRUCTURE:
            self.structure, signal = compute_structure(problem, self.scaled, seed)
            self.scaled = with_columns(self.scaled, signal)
        self.features = Features.of(self.scaled, device=device)
        self.has_words = scaling.kind in ("rows", "none")
        if signal is None:
            signal = problem.features if self.has_words else self.scaled
        self.signal = signal
        self.given = self._prepare_given(problem.graph)
        self.validation = None
        if problem.validation is not None:
            local = problem.validation.local(self.partition)
            self.validation = local.to(self.features.device)

    def start(self) -> FitState:
        """Return the state before the first round."""
        graph = self.settings.graph_settings(self.problem.graph is not None)
        head = self.settings.heads(self.validation is not None)[0]
        n_rounds = 1 if head.is_on_rows else graph.n_rounds  # it never sees a second graph
        return FitState(graph, head, self.given, n_rounds)

    def with_labels(self, labels: Labels) -> "Steps":
        """Return the steps of the same fit with other labels, and with a history of their own."""
        other = copy.copy(self)
        other.problem, other.history = dataclasses.replace(self.problem, labels=labels), History()
        return other

    def _prepare_given(self, graph: sp.csr_matrix | None) -> GivenGraph | None:
        """Return the given graph with its prior graph, which all rounds use."""
        if graph is None:
            return None
        kind: Any = self.settings.graph.prior  # which was checked
        peers = self.partition.peers
        return GivenGraph.from_adjacency(graph.astype(np.float64, copy=False), kind, peers)

    def graph_step(self, state: FitState, like: FitState | None = None) -> FitState:
        """Solve for the graph; after the first round with predictions and the task's gradient.

        With a given graph and more than one round, the first round may take the prior graph as it
        is: nothing is known yet that could correct it. ``like`` has learned from the same signals
        with other weights: its candidates are taken.
        """
        graph, given = state.graph, state.given
        takes_prior = graph.first_graph == "prior" and state.n_rounds > 1
        if given is not None and state.round == 1 and takes_prior:
            return state.replace(adjacency=given.prior)
        signals = self.task_signals(state)
        if like is not None and like.learned is not None:
            signals["candidates"] = like.learned.candidates
        learned = self.solve(state, support=graph.support, **signals)
        for callback in self.callbacks:
            callback.on_graph(state.round, learned)
        keeps = state.new_rows is not None and given is None
        new_rows = state.new_rows if keeps else learned.new_rows
        return state.replace(
            adjacency=learned.adjacency, learned=Solution.of(learned), new_rows=new_rows
        )

    def notify_round_end(self, state: FitState) -> None:
        """Call the callbacks with the graph at the end of a round."""
        for callback in self.callbacks:
            callback.on_round_end(state.round, state.adjacency)

    def solve(self, state: FitState, **more: Any) -> LearnedGraph:
        """Learn the graph of a state's settings."""
        graph = state.graph
        kind: Any = "l2" if graph.signal == STRUCTURE else graph.signal  # which was checked
        with notify_stage(self.callbacks, f"graph {state.round}"):
            return learn_graph(
                self.signal,
                state.given,
                **{name: getattr(graph, name) for name in _PROBLEM},
                signal=kind,
                n_candidates=min(graph.n_candidates, self.partition.n_nodes - 1),
                device=str(self.features.device),
                peers=self.partition.peers,
                **more,
            )

    def task_signals(self, state: FitState) -> dict[str, Any]:
        """Return what the last classifier adds to the graph problem."""
        signals: dict[str, Any] = {}
        graph, trained = state.graph, state.trained
        if trained is not None:
            signals["predictions"] = predictions = state.answer
            if graph.task_weight and isinstance(trained.task, ClassifierTask):
                left, right = factor_task_gradient(trained.task)
                signals["task"] = TaskTerm(graph.task_weight * left, right)
            if graph.metric == "learned":
                peers = self.partition.peers
                weights = channel_weights(self.signal, predictions, peers)
                return signals | {"column_weights": weights}
        if state.learned is not None:
            signals["candidates"] = state.learned.candidates
        return signals

    def probe(self, state: FitState) -> float:
        """Return the probe loss of the graph of a state."""
        assert state.adjacency is not None  # there was a graph step
        return probe_loss(
            state.adjacency,
            self.scaled,
            self.problem.labels,
            self.problem.validation,
            self.seed,
            partition=self.partition,
            device=self.features.device,
        )

    def build_task(self, state: FitState) -> ClassifierTask | RowTask:
        """Return a fresh network on the graph of a state."""
        assert state.adjacency is not None  # there was a graph step
        if state.head.is_on_rows:
            return self._row_task(state)
        device, rank = self.features.device, self.partition.peers.rank
        return ClassifierTask(
            state.adjacency,
            self.features,
            self.problem.labels,
            state.head,
            init=make_generator(self.seed, state.round, _INIT),
            noise=make_generator(self.seed, state.round, _NOISE, rank, device=device),
            partition=self.partition,
        )

    def _row_task(self, state: FitState) -> RowTask:
        """Return a fresh head on rows; every process has the same noise."""
        head, graph, device = state.head, state.row_graph, self.features.device
        assert graph is not None  # the caller has named it
        return RowTask(
            self._walk(graph, has_loops=head.head == "linear"),
            self.features,
            self.problem.labels,
            self.problem.validation,
            limit_hops(head, self.features.shape[1]),
            init=make_generator(self.seed, state.round, _INIT),
            noise=make_generator(self.seed, state.round, _NOISE, 0, device=device),
            partition=self.partition,
        )

    def _walk(self, graph: sp.csr_matrix, *, has_loops: bool) -> RandomWalk:
        """Return the random walk over a graph; heads that see the same one share it."""
        made = self._walks.get(has_loops)
        if made is None or made[0] is not graph:
            start, device = self.partition.start, self.features.device
            rows = add_loops(graph, start) if has_loops else drop_loops(graph, start)
            made = (graph, RandomWalk.of(rows, self.partition, device=device))
            self._walks[has_loops] = made
        return made[1]

    def row_graph(self, state: FitState) -> sp.csr_matrix:
        """Return the rows of the graph that heads on rows see: the given one as it is."""
        graph = self.problem.graph
        return state.adjacency if graph is None else graph.astype(np.float64, copy=False)

    def classifier_step(
        self, state: FitState, stage: str = "classifier", extra_callbacks: Sequence[Callback] = ()
    ) -> FitState:
        """Train the network of a state's settings from scratch on its graph.

        ``extra_callbacks`` apply to this training only.
        """
        if state.head.is_on_rows and state.row_graph is None:
            state = state.replace(row_graph=self.row_graph(state))
        task = self.build_task(state)
        self.train(task, f"{stage} {state.round}", state.head, extra_callbacks)
        found = predict_on_device(task)
        probabilities: np.ndarray = found.cpu().numpy()
        if self.validation is None:
            trained = TrainedClassifier(task, probabilities, None, None, state.temperature)
        else:
            loss, accuracy = self.validation.measure(found.log())
            trained = TrainedClassifier(
                task, probabilities, float(loss), float(accuracy), state.temperature
            )
        return state.replace(trained=trained)

    def train(
        self,
        task: TrainingTask,
        stage: str,
        head: HeadSettings,
        extra_callbacks: Sequence[Callback] = (),
    ) -> None:
        """Run the training loop and keep its history."""
        trainer = Trainer(
            n_epochs=head.n_epochs,
            learning_rate=head.learning_rate,
            patience=head.patience,
            grace=head.ramp_epochs,
            callbacks=[*self.callbacks, *extra_callbacks],
        )
        self.history.extend(trainer.fit(task, self.validation, stage=stage))
