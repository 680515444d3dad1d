"""The two steps of a round: solve for the graph, train the classifier on it."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.callbacks import Callback, told_of_stage
from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.history import History
from glnn.engine.metric import channel_weights
from glnn.engine.probe import probe_loss
from glnn.engine.problem import FitProblem
from glnn.engine.row_task import RowTask, fitted_to_width
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings, HeadSettings
from glnn.engine.state import FitState, Solution
from glnn.engine.structured import STRUCTURE, structure_of, with_columns
from glnn.engine.task import Task
from glnn.engine.task_gradient import task_factors
from glnn.engine.trained import Trained, predicted
from glnn.engine.trainer import Trainer
from glnn.graph.random_walk import RandomWalk, with_loops, without_loops
from glnn.graph.structure import Structure
from glnn.nn.features import Features
from glnn.solver import LearnedGraph, TaskTerm, learn_graph
from glnn.solver.inputs import GivenGraph

_INIT, _NOISE = 0, 1  # purposes of generators
_PROBLEM = ("weights", "n_neighbors", "reading", "prediction_weight", "prior")


class Steps:
    """The steps of one fit; what they change is the state that they return.

    Parameters
    ----------
    problem, settings, scaling
        What is fitted, and how.
    seed
        Of all random numbers.
    device
        Where the network is trained.
    callbacks
        Told of every stage and epoch.

    Attributes
    ----------
    history
        Every epoch so far, those of choices that were dropped included.
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
        self.structure: Structure | None = None
        signal: Any = None
        if settings.graph.signal == STRUCTURE:
            self.structure, signal = structure_of(problem, self.scaled, seed)
            self.scaled = with_columns(self.scaled, signal)
        self.features = Features.of(self.scaled, device=device)
        self.has_words = scaling.kind in ("rows", "none")
        if signal is None:
            signal = problem.features if self.has_words else self.scaled
        self.signal = signal
        self.given = self._prepared(problem.graph)
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

    def _prepared(self, graph: sp.csr_matrix | None) -> GivenGraph | None:
        """Return the given graph with its prior graph, which all rounds use."""
        if graph is None:
            return None
        kind: Any = self.settings.graph.prior  # which was checked
        peers = self.partition.peers
        return GivenGraph.checked(graph.astype(np.float64, copy=False), kind, peers)

    def graph_step(self, state: FitState, like: FitState | None = None) -> FitState:
        """Solve for the graph; after the first round with predictions and the task's gradient.

        With a given graph and more than one round, the first round may take the prior graph as it
        is: nothing is known yet that could correct it. ``like`` has learned from the same signals
        with other weights: its candidates are taken.
        """
        graph, given = state.graph, state.given
        takes_prior = graph.first_graph == "prior" and state.n_rounds > 1
        if given is not None and state.round == 1 and takes_prior:
            return state.changed(adjacency=given.prior)
        signals = self.task_signals(state)
        if like is not None and like.learned is not None:
            signals["candidates"] = like.learned.candidates
        learned = self.solve(state, support=graph.support, **signals)
        for callback in self.callbacks:
            callback.on_graph(state.round, learned)
        keeps = state.new_rows is not None and given is None
        new_rows = state.new_rows if keeps else learned.new_rows
        return state.changed(
            adjacency=learned.adjacency, learned=Solution.of(learned), new_rows=new_rows
        )

    def tell_of_round(self, state: FitState) -> None:
        """Tell the callbacks of the graph that a round ends with."""
        for callback in self.callbacks:
            callback.on_round_end(state.round, state.adjacency)

    def solve(self, state: FitState, **more: Any) -> LearnedGraph:
        """Learn the graph of a state's settings."""
        graph = state.graph
        kind: Any = "l2" if graph.signal == STRUCTURE else graph.signal  # which was checked
        with told_of_stage(self.callbacks, f"graph {state.round}"):
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
                left, right = task_factors(trained.task)
                signals["task"] = TaskTerm(graph.task_weight * left, right)
            if graph.metric == "learned":
                peers = self.partition.peers
                weights = channel_weights(self.signal, predictions, peers)
                return signals | {"column_weights": weights}
        if state.learned is not None:
            signals["candidates"] = state.learned.candidates
        return signals

    def probe(self, state: FitState) -> float:
        """Return how badly the graph of a state serves the labels."""
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

    def task_of(self, state: FitState) -> ClassifierTask | RowTask:
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
            init=generator_for(self.seed, state.round, _INIT),
            noise=generator_for(self.seed, state.round, _NOISE, rank, device=device),
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
            fitted_to_width(head, self.features.shape[1]),
            init=generator_for(self.seed, state.round, _INIT),
            noise=generator_for(self.seed, state.round, _NOISE, 0, device=device),
            partition=self.partition,
        )

    def _walk(self, graph: sp.csr_matrix, *, has_loops: bool) -> RandomWalk:
        """Return the random walk over a graph; heads that see the same one share it."""
        made = self._walks.get(has_loops)
        if made is None or made[0] is not graph:
            start, device = self.partition.start, self.features.device
            rows = with_loops(graph, start) if has_loops else without_loops(graph, start)
            made = (graph, RandomWalk.of(rows, self.partition, device=device))
            self._walks[has_loops] = made
        return made[1]

    def row_graph(self, state: FitState) -> sp.csr_matrix:
        """Return the rows of the graph that heads on rows see: the given one as it is."""
        graph = self.problem.graph
        return state.adjacency if graph is None else graph.astype(np.float64, copy=False)

    def classifier_step(
        self, state: FitState, stage: str = "classifier", rivals: Sequence[Callback] = ()
    ) -> FitState:
        """Train the network of a state's settings from scratch on its graph.

        ``rivals`` may end the training of one that stands no chance.
        """
        if state.head.is_on_rows and state.row_graph is None:
            state = state.changed(row_graph=self.row_graph(state))
        task = self.task_of(state)
        self.train(task, f"{stage} {state.round}", state.head, rivals)
        found = predicted(task)
        probabilities: np.ndarray = found.cpu().numpy()
        if self.validation is None:
            trained = Trained(task, probabilities, None, None, state.temperature)
        else:
            loss, accuracy = self.validation.measure(found.log())
            trained = Trained(task, probabilities, float(loss), float(accuracy), state.temperature)
        return state.changed(trained=trained)

    def train(
        self, task: Task, stage: str, head: HeadSettings, rivals: Sequence[Callback] = ()
    ) -> None:
        """Run the training loop and keep its history."""
        trainer = Trainer(
            n_epochs=head.n_epochs,
            learning_rate=head.learning_rate,
            patience=head.patience,
            grace=head.ramp_epochs,
            callbacks=[*self.callbacks, *rivals],
        )
        self.history.extend(trainer.fit(task, self.validation, stage=stage))
