"""The two steps of a round: solve for the graph, train the classifier on it."""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.distributed import Partition
from glnn.engine.callbacks import Callback, History, StopIf, notify_stage
from glnn.engine.fit_problem import Attribution, FitProblem
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.row_task import RowTask, limit_hops
from glnn.engine.settings import FitSettings, HeadSettings, Track
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
from glnn.graph.prior import PriorGraph, prior_graph
from glnn.graph.rows import to_dense_array
from glnn.nn.features import Features
from glnn.solver import Certificate, LearnedGraph, NewRowProblem
from glnn.solver.learn import GraphRequest, solve_graph
from glnn.solver.signals import append_columns


def predict_probabilities(task: TrainingTask) -> np.ndarray:
    """Return the class probabilities of every node in double precision."""
    with torch.no_grad():
        probabilities: np.ndarray = task.scores().double().softmax(1).cpu().numpy()
    return probabilities


# State of a fit


@dataclass(frozen=True, eq=False)
class FitState:
    """Where a track stands, in this process's rows. A step takes one and returns the next."""

    track: Track
    given: PriorGraph | None  # the given graph with its prior graph, if the track sees it
    round: int = 0  # the round under way, or the last one taken
    adjacency: sp.csr_matrix | None = None  # the graph that the classifier sees
    certificate: Certificate | None = None  # of the last solution of the graph problem
    candidates: tuple[np.ndarray, ...] = ()  # pairs of the feature search, for later rounds
    # the solved problem, or from a checkpoint its link shares; ``None`` over several processes
    attribution: Attribution = None
    new_rows: NewRowProblem | None = None  # the one-row problem of new nodes
    task: ClassifierTask | RowTask | None = None  # with the last trained network
    predictions: np.ndarray | None = None  # class probabilities by this network

    def replace(self, **changes: Any) -> "FitState":
        """Return the state with some of its parts replaced."""
        return dataclasses.replace(self, **changes)

    def with_graph(self, learned: LearnedGraph) -> "FitState":
        """Return the state with a solved graph."""
        # Predictions of new nodes are not known yet, so without a given graph their one-row
        # problem is that of the first round, whose signals are features alone.
        keeps = self.new_rows is not None and self.given is None
        return self.replace(
            adjacency=learned.adjacency,
            certificate=learned.certificate,
            candidates=learned.candidates,
            attribution=learned if learned.adjacency.shape[0] == learned.n_nodes else None,
            new_rows=self.new_rows if keeps else learned.new_rows,
        )

    @property
    def n_rounds(self) -> int:
        """How many rounds the track takes; a head on rows never sees a second graph."""
        return self.track.graph.n_rounds if self.track.learns else 1

    @property
    def is_done(self) -> bool:
        """Whether all rounds were taken."""
        return self.round == self.n_rounds

    @property
    def probabilities(self) -> np.ndarray:
        """The class probabilities of the last classifier."""
        assert self.predictions is not None  # there was a classifier step
        return self.predictions


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
    if settings.seeks_structure and is_uninformative(problem.features, problem.partition):
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


# Column weights


def channel_weights(features: Any, probabilities: np.ndarray, partition: Partition) -> np.ndarray:
    r"""Return how much each column says about the classes: :math:`w_f \ge 0`, mean one.

    Non-negative sparse columns (words): :math:`w_f = KL(p(c \mid f) \,\|\, p(c))`, smoothed by one
    count. Others: the correlation ratio :math:`\eta^2`, the share of the column's variance that
    lies between the classes. Both under the soft class probabilities.
    """
    is_sparse = sp.issparse(features)
    stored = features.data if is_sparse else features
    lowest = -partition.max(-float(stored.min(initial=0.0)))
    size = partition.sum(probabilities.sum(0))
    if lowest >= 0 and is_sparse:
        prior = size / partition.n_nodes
        mass = partition.sum(np.asarray(features.T @ probabilities))  # word x class
        given = (mass + prior) / (mass.sum(1, keepdims=True) + 1.0)
        weights = np.asarray((given * np.log(given / prior)).sum(1))
    else:
        x = np.asarray(to_dense_array(features), dtype=np.float64)
        means = partition.sum(probabilities.T @ x) / np.maximum(size, 1e-12)[:, None]
        centre = partition.sum(x.sum(0)) / partition.n_nodes
        between = (size[:, None] * (means - centre) ** 2).sum(0)
        total = partition.sum(((x - centre) ** 2).sum(0))
        weights = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    mean = weights.mean()
    return weights / mean if mean > 0 else np.ones_like(weights)


# Steps

IsHopeless = Callable[[np.ndarray], bool]  # takes class probabilities
_INIT, _NOISE = 0, 1  # purposes of generators
_PROBLEM = ("weights", "n_neighbors", "reading", "prediction_weight", "prior")


class Steps:
    """The steps of one fit; each takes a state and returns the next one."""

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
        self.n_labels = len(problem.labels)  # those that are hidden in a fold included
        self._fold = ""  # name of the fold, before the names of its stages
        self._walks: dict[bool, tuple[sp.csr_matrix, RandomWalk]] = {}  # with loops or without
        self._first: dict[str, LearnedGraph] = {}  # graphs of first rounds, which need no label
        self.partition = problem.partition
        self.scaled = scaling.apply(problem.features)
        self.structure: SpectralFeatures | None = None
        # words keep their counts
        self.signal = problem.features if scaling.kind in ("rows", "none") else self.scaled
        if settings.graph.signal == STRUCTURE:
            self.structure, columns = compute_structure(problem, self.scaled, seed)
            self.signal, _ = self.structure.split(columns)
            self.scaled = append_columns(self.scaled, columns).astype(np.float32)
        seen = self.scaled if self.structure is None else self.structure.split(self.scaled)[0]
        self.features = Features.of(seen, device=device)
        self.given: PriorGraph | None = None  # with its prior graph, which all rounds use
        if problem.graph is not None:
            kind: Any = settings.graph.prior  # which was checked
            graph = problem.graph.astype(np.float64, copy=False)
            degrees = self.partition.row_sums(graph)
            prior = prior_graph(graph, kind, degrees, self.partition.start)
            self.given = PriorGraph(kind, degrees, prior)
        self.validation = None
        if problem.validation is not None:
            local = problem.validation.local(self.partition)
            self.validation = local.to(self.features.device)

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The tracks of this fit."""
        return self.settings.tracks_for(self.problem.graph is not None)

    def start(self, track: Track) -> FitState:
        """Return the state of a track before its first round."""
        return FitState(track, self.given if track.sees_graph else None)

    def rows_of(self, probabilities: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return the predictions of some nodes in every process, given those of its rows."""
        return self.partition.rows_of(probabilities, nodes)

    def with_labels(self, labels: Labels, name: str = "") -> "Steps":
        """Return the steps of a fold with its labels, and with a history of their own."""
        other = copy.copy(self)
        other._fold = name
        other.problem, other.history = dataclasses.replace(self.problem, labels=labels), History()
        return other

    def for_fit(
        self, problem: FitProblem, settings: FitSettings, callbacks: Sequence[Callback]
    ) -> "Steps":
        """Return the steps of another fit to the same features and graph, without validation nodes.

        All that needs no label is shared: scaled features, prior graph, graphs of first rounds.
        The settings must have the same scaling, signal and prior.
        """
        features, graph = self.problem.features, self.problem.graph
        other = self.with_labels(problem.labels)
        other.problem = dataclasses.replace(problem, features=features, graph=graph)
        other.settings, other.callbacks = settings, callbacks
        other.n_labels = len(problem.labels)
        return other

    def graph_step(self, state: FitState) -> FitState:
        """Solve for the graph; after the first round with predictions and the task's gradient.

        With a given graph and more than one round, the first round takes the prior graph as it
        is: nothing is known yet that could correct it. Heads on rows see the given graph, or else
        the one that features alone make.
        """
        track, given = state.track, state.given
        if given is not None and not track.learns:
            graph: Any = self.problem.graph
            return state.replace(adjacency=graph.astype(np.float64, copy=False))
        if given is not None and state.round == 1 and state.n_rounds > 1:
            return state.replace(adjacency=given.prior)
        learned = self._solve_first(state) if state.task is None else self._solve(state)
        return state.with_graph(learned)

    def _solve_first(self, state: FitState) -> LearnedGraph:
        """Return the graph of features alone, which all tracks with these settings share."""
        graph = dataclasses.replace(state.track.graph, n_rounds=1)
        key = repr((graph, state.given is None))
        if key not in self._first:
            self._first[key] = self._solve(state)
        return self._first[key]

    def _solve(self, state: FitState, predictions: np.ndarray | None = None) -> LearnedGraph:
        """Learn the graph of a track, by its own predictions unless others are given."""
        graph = state.track.graph
        kind: Any = "l2" if graph.signal == STRUCTURE else graph.signal  # which was checked
        with notify_stage(self.callbacks, self._stage("graph", state)):
            request = GraphRequest(
                self.signal,
                state.given,
                **{name: getattr(graph, name) for name in _PROBLEM},
                signal=kind,
                support=graph.support,
                n_candidates=min(graph.n_candidates, self.partition.n_nodes - 1),
                device=str(self.features.device),
                layout=self.partition,
                **self.task_signals(state, predictions),
            )
            learned = solve_graph(request)
        for callback in self.callbacks:
            callback.on_graph(state.round, learned)
        return learned

    def learn_graph_from(self, track: Track, probabilities: np.ndarray) -> FitState:
        """Return a track with the graph that these predictions give it, and no classifier."""
        state = self.start(track).replace(round=1, candidates=self._similar_rows(track))
        return state.with_graph(self._solve(state, probabilities))

    def _similar_rows(self, track: Track) -> tuple[np.ndarray, ...]:
        """Return the rows most similar to each one that a track without the graph has found."""
        others = [other for other in self.tracks if other.learns and not other.sees_graph]
        if not others or self.partition.is_split:
            return ()
        i, j = self._solve_first(self.start(others[0]).replace(round=1)).candidates
        starts = np.searchsorted(i, np.arange(self.partition.n_nodes))
        is_near = np.arange(len(i)) - starts[i] < track.graph.n_candidates
        return i[is_near], j[is_near]  # they are sorted by row, the most similar first

    def _stage(self, what: str, state: FitState) -> str:
        track = "" if len(self.tracks) == 1 else state.track.name  # a single one needs no name
        return ", ".join(filter(None, (self._fold, track, f"{what} {state.round}")))

    def task_signals(self, state: FitState, predictions: Any = None) -> dict[str, Any]:
        """Return what the last classifier, or other predictions, add to the graph problem."""
        signals: dict[str, Any] = {}
        graph, task = state.track.graph, state.task
        predictions = state.predictions if predictions is None else predictions
        if predictions is not None:
            signals["predictions"] = predictions
            if graph.task_weight and isinstance(task, ClassifierTask):
                left, right = factor_task_gradient(task)
                signals["task"] = (graph.task_weight * left, right)
            if graph.metric == "learned":
                weights = channel_weights(self.signal, predictions, self.partition)
                signals["column_weights"] = weights
                if state.given is None:  # without links, the new metric finds new candidates
                    return signals
        if state.candidates:
            signals["candidates"] = state.candidates
        return signals

    def build_task(self, state: FitState) -> ClassifierTask | RowTask:
        """Return a fresh network on the graph of a state."""
        assert state.adjacency is not None  # there was a graph step
        head, features, labels = state.track.head, self.features, self.problem.labels
        if state.track.is_spectral:
            assert self.structure is not None  # or the track would not take part
            _, leading = self.structure.split(self.scaled)
            features = Features.of(leading[:, : labels.n_classes], device=features.device)
        rank = 0 if head.is_on_rows else self.partition.peers.rank  # on rows all have one noise
        more: Any = {
            "init": make_generator(self.seed, state.round, _INIT),
            "noise": make_generator(self.seed, state.round, _NOISE, rank, device=features.device),
            "partition": self.partition,
            "validation": self.problem.validation,
            "n_labels": self.n_labels,
        }
        if head.is_on_rows:
            walk = self._walk(state.adjacency, has_loops=head.head == "linear")
            head = limit_hops(head, features.shape[1])
            return RowTask(walk, features, labels, head, **more)
        return ClassifierTask(state.adjacency, features, labels, head, **more)

    def _walk(self, graph: sp.csr_matrix, *, has_loops: bool) -> RandomWalk:
        """Return the random walk over a graph; heads that see the same one share it."""
        made = self._walks.get(has_loops)
        if made is None or made[0] is not graph:
            start, device = self.partition.start, self.features.device
            rows = add_loops(graph, start) if has_loops else drop_loops(graph, start)
            made = (graph, RandomWalk(rows, self.partition, device=device))
            self._walks[has_loops] = made
        return made[1]

    def classifier_step(self, state: FitState, is_hopeless: IsHopeless | None = None) -> FitState:
        """Train the network of a track from scratch on its graph.

        ``is_hopeless`` says of the predictions half way whether training ends there.
        """
        task, head, stops = self.build_task(state), state.track.head, []
        if is_hopeless is not None:
            stops = [StopIf(head.n_epochs // 2, lambda: is_hopeless(predict_probabilities(task)))]
        self.train(task, self._stage("classifier", state), head, stops)
        return state.replace(task=task, predictions=predict_probabilities(task))

    def next_round(self, state: FitState, is_hopeless: IsHopeless | None = None) -> FitState:
        """Take the next round of a track: the graph step, then the classifier step."""
        state = self.graph_step(state.replace(round=state.round + 1))
        state = self.classifier_step(state, is_hopeless)
        for callback in self.callbacks:
            callback.on_round_end(state.round, state.adjacency)
        return state

    def train(
        self, task: TrainingTask, stage: str, head: HeadSettings, more: Sequence[Callback] = ()
    ) -> None:
        """Run the training loop and keep its history."""
        trainer = Trainer(
            n_epochs=head.n_epochs,
            learning_rate=head.learning_rate,
            patience=head.patience,
            grace=head.ramp_epochs,
            averaged_share=head.averaged_share,
            callbacks=[*self.callbacks, *more],
        )
        self.history.extend(trainer.fit(task, self.validation, stage=stage))
