"""Graph step and classifier step in turn: predictions join the signals from the second round."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.engine.callbacks import Callback
from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.history import History
from glnn.engine.literal import LiteralTask
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings
from glnn.engine.task_gradient import task_factors
from glnn.engine.trainer import Trainer, Validation
from glnn.graph.prior import prior_graph
from glnn.nn.features import Features
from glnn.objective import Objective, Weights
from glnn.solver import LearnedGraph, TaskTerm, learn_graph
from glnn.solver.new_nodes import RowProblem


@dataclass(frozen=True)
class FitProblem:
    """What a fit is given: features of all nodes, a few labels, perhaps a graph.

    Parameters
    ----------
    features
        Dense array or CSR matrix, one row a node.
    labels
        Class numbers of the training nodes.
    graph
        Checked symmetric adjacency matrix, or ``None``.
    validation
        Labelled nodes that choose the epoch, or ``None``.
    """

    features: Any
    labels: Labels
    graph: sp.csr_matrix | None = None
    validation: Validation | None = None


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves: the graph with its proof, the network, and how it came about.

    ``rows`` is the one-row problem of new nodes. Their predictions are not known yet, so without
    a given graph it is that of the first round, whose signals are features alone.
    """

    settings: FitSettings
    scaling: Scaling
    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    learned: LearnedGraph | None
    rows: RowProblem | None
    task: ClassifierTask | LiteralTask
    probabilities: np.ndarray
    history: History


def fit_rounds(
    problem: FitProblem,
    settings: FitSettings,
    *,
    seed: int,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
) -> FitResult:
    """Run the rounds of a preset (or the literal method) on one problem."""
    scaling = Scaling.fit(problem.features, settings.scaling)
    scaled = scaling.apply(problem.features)
    signal = problem.features if scaling.kind in ("rows", "none") else scaled
    run = _Run(problem, settings, Features.of(scaled, device=device), signal, seed, callbacks)
    if settings.is_literal:
        return run.literal(scaling)
    for number in range(1, settings.n_rounds + 1):
        adjacency = run.graph_step(number)
        run.classifier_step(number, adjacency)
    assert run.learned is not None and run.task is not None
    return FitResult(
        settings,
        scaling,
        run.learned.adjacency,
        run.learned.prior,
        run.learned,
        run.rows,
        run.task,
        run.probabilities,
        run.history,
    )


class _Run:
    """The state of one fit between its steps."""

    def __init__(
        self,
        problem: FitProblem,
        settings: FitSettings,
        features: Features,
        signal: Any,
        seed: int,
        callbacks: Sequence[Callback],
    ) -> None:
        self.problem, self.settings, self.seed = problem, settings, seed
        self.features, self.signal, self.callbacks = features, signal, callbacks
        self.history = History()
        self.learned: LearnedGraph | None = None
        self.rows: RowProblem | None = None
        self.task: ClassifierTask | None = None
        self.probabilities = np.empty((0, 0))

    def graph_step(self, number: int) -> sp.csr_matrix:
        """Solve for the graph; after the first round with predictions and the task's gradient.

        With a given graph and more than one round, the first round may take the prior graph as it
        is: nothing is known yet that could correct it.
        """
        stage, more = f"graph {number}", self.settings.n_rounds > 1
        if self.settings.first_graph == "prior" and number == 1 and more:
            if self.problem.graph is not None:
                return prior_graph(self.problem.graph, self.settings.graph.prior)
        for callback in self.callbacks:
            callback.on_stage_begin(stage, 0)
        graph = self.settings.graph
        signals: dict[str, Any] = {}
        if self.learned is not None:
            signals["candidates"] = self.learned.candidates
        if self.task is not None:
            signals["predictions"] = self.probabilities
            if graph.task_weight:
                left, right = task_factors(self.task)
                signals["task"] = TaskTerm(graph.task_weight * left, right)
        self.learned = learn_graph(
            self.signal,
            self.problem.graph,
            weights=self._weights(),
            n_neighbors=self._n_neighbors(),
            reading=graph.reading,
            signal=graph.signal,
            prediction_weight=graph.prediction_weight,
            prior=graph.prior,
            support=graph.support,
            n_candidates=min(graph.n_candidates, self.features.shape[0] - 1),
            **signals,
        )
        if self.rows is None or self.problem.graph is not None:
            self.rows = self.learned.rows
        for callback in self.callbacks:
            callback.on_stage_end(stage)
        return self.learned.adjacency

    def _weights(self) -> Weights:
        weights = self.settings.graph.weights
        if self.problem.graph is None and weights.closeness > 0:
            return Weights.without_prior()
        return weights

    def _n_neighbors(self) -> int | None:
        if self.problem.graph is None and self.settings.graph.n_neighbors is None:
            return min(10, self.features.shape[0] - 1)
        return self.settings.graph.n_neighbors

    def classifier_step(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Train the network from scratch on the graph of this round."""
        device = self.features.device
        self.task = ClassifierTask(
            adjacency,
            self.features,
            self.problem.labels,
            self.settings.head,
            init=generator_for(self.seed, number, 0),
            noise=generator_for(self.seed, number, 1, device=device),
        )
        self._train(self.task, f"classifier {number}")

    def _train(self, task: ClassifierTask | LiteralTask, stage: str) -> None:
        head = self.settings.head
        trainer = Trainer(
            n_epochs=head.n_epochs, learning_rate=head.learning_rate, callbacks=self.callbacks
        )
        validation = self.problem.validation
        if validation is not None:
            device = self.features.device
            moved = (validation.nodes.to(device), validation.labels.to(device))
            validation = Validation(*moved)
        self.history.extend(trainer.fit(task, validation, stage=stage))
        with torch.no_grad():
            self.probabilities = task.scores().double().softmax(1).cpu().numpy()

    def literal(self, scaling: Scaling) -> FitResult:
        """Train graph and network together, as the paper prints it."""
        settings, graph = self.settings, self.problem.graph
        prior = None if graph is None else prior_graph(graph, settings.graph.prior)
        signal = self.signal.toarray() if sp.issparse(self.signal) else self.signal
        task = LiteralTask(
            torch.from_numpy(np.asarray(signal, dtype=np.float32)).to(self.features.device),
            prior,
            self.features,
            self.problem.labels,
            settings.head,
            Objective(settings.graph.weights, settings.graph.reading),
            init=generator_for(self.seed, 1, 0),
            noise=generator_for(self.seed, 1, 1, device=self.features.device),
        )
        self._train(task, "literal")
        with torch.no_grad():
            dense = task.adjacency().to_dense().clamp_min(0).double().cpu().numpy()
        adjacency = sp.csr_matrix(np.maximum(dense, dense.T))
        return FitResult(
            settings, scaling, adjacency, prior, None, None, task, self.probabilities, self.history
        )
