"""Graph step and classifier step in turn: predictions join the signals from the second round."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.callbacks import Callback
from glnn.engine.classifier import ClassifierTask
from glnn.engine.history import History
from glnn.engine.metric import channel_weights
from glnn.engine.probe import probe_loss
from glnn.engine.problem import FitProblem
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings, GraphSettings, HeadSettings
from glnn.engine.task import Task
from glnn.engine.task_gradient import task_factors
from glnn.engine.trained import Trained, has_collapsed, is_better, is_worse, predicted
from glnn.engine.trainer import Trainer
from glnn.nn.features import Features
from glnn.objective import Weights
from glnn.peers import ALONE, Peers
from glnn.solver import LearnedGraph, TaskTerm, learn_graph
from glnn.solver.inputs import GivenGraph
from glnn.solver.new_nodes import RowProblem

FEW_LABELS = 15
"""Below so many labels a class, predictions are believed with caution."""

MANY_LABELS = 50
"""From so many labels a class on, a plain network may do better than losses on predictions."""

_CLEAR_PROBE = 0.95
"""One source serves clearly better than another if its probe has at most this share of its loss."""

_NO_PAIRS = (np.empty(0, np.int64), np.empty(0, np.int64))


class Rounds:
    """The state of one fit between its steps.

    ``rows`` is the one-row problem of new nodes. Their predictions are not known yet, so without
    a given graph it is that of the first round, whose signals are features alone.
    """

    peers: Peers = ALONE
    """Those with whom the rows are shared."""

    def __init__(
        self,
        problem: FitProblem,
        settings: FitSettings,
        scaling: Scaling,
        *,
        seed: int,
        device: str,
        callbacks: Sequence[Callback],
    ) -> None:
        scaled = scaling.apply(problem.features)
        self.problem, self.seed, self.callbacks = problem, seed, callbacks
        self.scaled = scaled
        self.features = self.features_of(scaled, device)
        self.has_words = scaling.kind in ("rows", "none")
        self.signal = problem.features if self.has_words else scaled
        self.given = problem.graph
        self._given_graph: GivenGraph | None = None
        self.graph = settings.graph_settings(problem.graph is not None)
        self.head, *self.cautious = settings.heads(problem.validation is not None)
        self.n_rounds = self.graph.n_rounds
        self.settings = settings
        self.history = History()
        self.learned: LearnedGraph | None = None
        self.rows: RowProblem | None = None
        self.adjacency = sp.csr_matrix((0, 0))
        self.trained: Trained | None = None

    def features_of(self, scaled: Any, device: str) -> Features:
        """Return the scaled features as the network takes them."""
        return Features.of(scaled, device=device)

    def run(self) -> None:
        """Take all rounds: choices are made in the first, a round that harms is the last."""
        self.first_round()
        for number in range(2, self.n_rounds + 1):
            if not self.later_round(number):
                self.n_rounds = number - 1
                break

    def first_round(self) -> None:
        """Choose source, signal and head while features and labels are all that is known."""
        validation = self.problem.validation
        if validation is None:
            self._follow_labels()
        self.adjacency = self.graph_step(1)
        if self.given is not None and self.settings.doubts_graph:
            self._doubt_graph()
        self.trained = self.classifier_step(1, self.head)
        if validation is None:
            return
        if self.has_words and self.given is None:
            for signal in self.graph.signals:
                if signal != self.settings.no_graph.signal:
                    self._try(dataclasses.replace(self.graph, signal=signal))
        self._try_heads()

    def _doubt_graph(self) -> None:
        """Let probes say how far to trust the given graph.

        Where features alone serve clearly better it is left, where it serves clearly better than
        they do the learned graph stays closer to it. Weights without a ridge have no answer
        without the graph, and few labels without validation nodes prove nothing: then there is
        nothing to doubt.
        """
        alone = self.settings.no_graph
        proven = self.problem.validation is not None or not self._has_few_labels()
        if alone.weights.ridge == 0 or not proven:
            return
        before, given = self._state(), self._probe()
        self._take(alone, None)
        features = self._probe()
        if features <= _CLEAR_PROBE * given:
            self.n_rounds = self.graph.n_rounds
            return
        self._restore(before)
        closeness = self.graph.trusted_closeness
        if closeness is not None and given <= _CLEAR_PROBE * features:
            weights = self.graph.weights.replace(closeness=closeness)
            self.graph = dataclasses.replace(self.graph, weights=weights)

    def _probe(self) -> float:
        problem = self.problem
        return probe_loss(
            self.adjacency,
            self.scaled,
            problem.labels,
            problem.validation,
            self.seed,
            device=self.features.device,
        )

    def later_round(self, number: int) -> bool:
        """Solve and train with what the round before has taught; tell whether it was kept.

        Losses on predictions can drive all nodes into few classes. Where validation nodes show
        such a collapse, the most cautious head is trained on the new graph instead. A round whose
        loss and accuracy on them are both worse than before is undone.
        """
        before, trained = self._state(), self.trained
        self.adjacency = self.graph_step(number)
        self.trained = self.classifier_step(number, self.head)
        if self.cautious and has_collapsed(self.trained, trained):
            self.head = self.cautious[-1]
            self.trained = self.classifier_step(number, self.head)
        if not is_worse(self.trained, trained):
            return True
        self._restore(before)
        if self.learned is None:
            self._learn_nothing(number)
        return False

    def _learn_nothing(self, number: int) -> None:
        """Take the prior graph for the learned one: the optimum where closeness alone counts."""
        self.graph = dataclasses.replace(
            self.graph, weights=Weights.closeness_alone(), n_neighbors=None, metric="fixed"
        )
        self.learned = self._solve(number, candidates=_NO_PAIRS, support="candidates")
        self.rows = self.learned.rows

    def _try(self, graph: GraphSettings) -> None:
        """Take the first round with other settings; go back unless it is clearly better."""
        before, kept = self._state(), self.trained
        self._take(graph, self.given)
        tried = self.classifier_step(1, self.head)
        if is_better(tried, kept):
            self.trained = tried
        else:
            self._restore(before)

    def _take(self, graph: GraphSettings, given: sp.csr_matrix | None) -> None:
        self.graph, self.given = graph, given
        self.learned = self.rows = self.trained = None
        self.adjacency = self.graph_step(1)

    def _state(self) -> dict[str, Any]:
        names = ("graph", "given", "learned", "rows", "adjacency", "trained", "head")
        return {name: getattr(self, name) for name in names}

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _has_few_labels(self) -> bool:
        return self._labels_per_class() < FEW_LABELS

    def _labels_per_class(self) -> float:
        labels = self.problem.labels
        return len(labels) / labels.n_classes

    def _follow_labels(self) -> None:
        """Without validation nodes the number of labels decides.

        With few, nothing tells whether predictions are right: the cautious head is taken, and
        where there is no given graph to hold them in place, they stay out of the graph problem.
        """
        if self.cautious and self._has_few_labels():
            self.head = self.cautious[-1]
            self.n_rounds = self.n_rounds if self.given is not None else 1

    def _try_heads(self) -> None:
        """Let validation nodes choose the head where labels are few, or where they are many."""
        heads = list(self.cautious) if self._has_few_labels() else []
        if self.settings.plain is not None and self._labels_per_class() >= MANY_LABELS:
            heads = [self.settings.plain]
        for head in heads:
            if head != self.head:
                tried = self.classifier_step(1, head)
                if is_better(tried, self.trained):
                    self.head, self.trained = head, tried

    def graph_step(self, number: int) -> sp.csr_matrix:
        """Solve for the graph; after the first round with predictions and the task's gradient.

        With a given graph and more than one round, the first round may take the prior graph as it
        is: nothing is known yet that could correct it.
        """
        graph, given = self.graph, self.given
        takes_prior = graph.first_graph == "prior" and self.n_rounds > 1
        if given is not None and number == 1 and takes_prior:
            return self._prepared(given).prior
        self.learned = self._solve(number, support=graph.support, **self._task_signals())
        if self.rows is None or given is not None:
            self.rows = self.learned.rows
        return self.learned.adjacency

    def _prepared(self, given: sp.csr_matrix) -> GivenGraph:
        """Return the given graph with its prior graph, made once."""
        if self._given_graph is None:
            self._given_graph = GivenGraph.checked(
                given.astype(np.float64, copy=False), self.graph.prior
            )
        return self._given_graph

    def _solve(self, number: int, **more: Any) -> LearnedGraph:
        graph, given = self.graph, self.given
        with self._stage(f"graph {number}"):
            return learn_graph(
                self.signal,
                None if given is None else self._prepared(given),
                weights=graph.weights,
                n_neighbors=graph.n_neighbors,
                reading=graph.reading,
                signal=graph.signal,
                prediction_weight=graph.prediction_weight,
                prior=graph.prior,
                n_candidates=min(graph.n_candidates, self.features.shape[0] - 1),
                device=str(self.features.device),
                **more,
            )

    def _task_signals(self) -> dict[str, Any]:
        """Return what the last classifier adds to the graph problem."""
        signals: dict[str, Any] = {}
        if self.trained is not None:
            signals["predictions"] = self.trained.probabilities
            if self.graph.task_weight:
                left, right = task_factors(self.trained.task)
                signals["task"] = TaskTerm(self.graph.task_weight * left, right)
            if self.graph.metric == "learned":
                weights = channel_weights(self.signal, self.trained.probabilities, self.peers)
                return signals | {"column_weights": weights}
        if self.learned is not None:
            signals["candidates"] = self.learned.candidates
        return signals

    def task_of(self, number: int, head: HeadSettings) -> ClassifierTask:
        """Return a fresh network on the graph of this round."""
        return ClassifierTask(
            self.adjacency,
            self.features,
            self.problem.labels,
            head,
            init=generator_for(self.seed, number, 0),
            noise=generator_for(self.seed, number, 1, device=self.features.device),
        )

    def classifier_step(self, number: int, head: HeadSettings) -> Trained:
        """Train the network from scratch on the graph of this round."""
        task = self.task_of(number, head)
        self.train(task, f"classifier {number}", head)
        found, validation = predicted(task), self.problem.validation
        probabilities: np.ndarray = found.cpu().numpy()
        if validation is None:
            return Trained(task, probabilities, None, None)
        numbers = validation.to(found.device).evaluate(found.log())
        return Trained(
            task,
            probabilities,
            float(numbers["validation_loss"]),
            float(numbers["validation_accuracy"]),
        )

    def train(self, task: Task, stage: str, head: HeadSettings) -> None:
        """Run the training loop and keep its history."""
        trainer = Trainer(
            n_epochs=head.n_epochs,
            learning_rate=head.learning_rate,
            patience=head.patience,
            grace=head.ramp_epochs,
            callbacks=self.callbacks,
        )
        validation = self.problem.validation
        if validation is not None:
            validation = validation.to(self.features.device)
        self.history.extend(trainer.fit(task, validation, stage=stage))

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        for callback in self.callbacks:
            callback.on_stage_begin(name, 0)
        yield
        for callback in self.callbacks:
            callback.on_stage_end(name)
