"""The two steps of a round: solve for the graph, train the classifier on it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.callbacks import Callback
from glnn.engine.classifier import ClassifierTask
from glnn.engine.history import History
from glnn.engine.metric import channel_weights
from glnn.engine.problem import FitProblem
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings, HeadSettings
from glnn.engine.task import Task
from glnn.engine.task_gradient import task_factors
from glnn.engine.trained import Trained, predicted
from glnn.engine.trainer import Trainer
from glnn.nn.features import Features
from glnn.peers import ALONE, Peers
from glnn.solver import LearnedGraph, NewRowProblem, TaskTerm, learn_graph
from glnn.solver.inputs import GivenGraph


class Steps:
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
        self.rows: NewRowProblem | None = None
        self.adjacency = sp.csr_matrix((0, 0))
        self.trained: Trained | None = None

    def features_of(self, scaled: Any, device: str) -> Features:
        """Return the scaled features as the network takes them."""
        return Features.of(scaled, device=device)

    def graph_step(self, number: int) -> sp.csr_matrix:
        """Solve for the graph; after the first round with predictions and the task's gradient.

        With a given graph and more than one round, the first round may take the prior graph as it
        is: nothing is known yet that could correct it.
        """
        graph, given = self.graph, self.given
        takes_prior = graph.first_graph == "prior" and self.n_rounds > 1
        if given is not None and number == 1 and takes_prior:
            return self._prepared(given).prior
        self.learned = self.solve(number, support=graph.support, **self._task_signals())
        if self.rows is None or given is not None:
            self.rows = self.learned.new_rows
        return self.learned.adjacency

    def _prepared(self, given: sp.csr_matrix) -> GivenGraph:
        """Return the given graph with its prior graph, made once."""
        if self._given_graph is None:
            self._given_graph = GivenGraph.checked(
                given.astype(np.float64, copy=False),
                self.graph.prior,  # type: ignore[arg-type]
            )
        return self._given_graph

    def solve(self, number: int, **more: Any) -> LearnedGraph:
        """Learn the graph of this round's settings."""
        graph, given = self.graph, self.given
        with self._stage(f"graph {number}"):
            return learn_graph(
                self.signal,
                None if given is None else self._prepared(given),
                weights=graph.weights,
                n_neighbors=graph.n_neighbors,
                reading=graph.reading,  # type: ignore[arg-type]
                signal=graph.signal,  # type: ignore[arg-type]
                prediction_weight=graph.prediction_weight,
                prior=graph.prior,  # type: ignore[arg-type]
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
