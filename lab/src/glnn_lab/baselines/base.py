"""What every baseline shares: its interface, its settings and the training loop."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from glnn._utils import check_integer, check_number
from glnn.engine.tasks import Labels, TrainingTask
from glnn.engine.trainer import Trainer
from glnn.exceptions import InputError
from glnn.quality.rivals import NodeProblem

INIT, NOISE, SAMPLES = 0, 1, 2  # numbered streams of one seed


@dataclass(frozen=True, eq=False)
class Prediction:
    """Class probabilities of every node, N x C, and what they cost."""

    probabilities: np.ndarray
    n_epochs: int = 0
    seconds: float = 0.0

    @property
    def classes(self) -> np.ndarray:
        """The most probable class of every node."""
        return np.asarray(self.probabilities.argmax(1))


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of the training loop; the defaults of each method are the published ones.

    ``patience`` epochs without a lower validation loss end the training; ``None`` never does.
    """

    n_epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    patience: int | None = None

    def __post_init__(self) -> None:
        check_integer("n_epochs", self.n_epochs, low=1)
        check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        check_number("weight_decay", self.weight_decay, low=0)
        if self.patience is not None:
            check_integer("patience", self.patience, low=1)


class Baseline(ABC):
    """A method to compare with: it differs from the others by its model and objective only.

    A subclass is a frozen dataclass with one field, ``settings``. The epoch with the lowest
    validation loss within ``settings.n_epochs`` counts; without validation nodes, or where
    ``chooses_epoch`` is false, the last.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    needs_graph: ClassVar[bool] = True
    is_trained: ClassVar[bool] = True
    chooses_epoch: ClassVar[bool] = True
    settings: Any

    def build(self, problem: NodeProblem, seed: int) -> TrainingTask:
        """Return the untrained model with its objective, all randomness drawn from ``seed``."""
        self.check(problem)
        return self.task(problem, check_integer("seed", seed, low=0))

    @abstractmethod
    def task(self, problem: NodeProblem, seed: int) -> TrainingTask:
        """Make the task of a problem that passed :meth:`check`."""

    def check(self, problem: NodeProblem) -> None:
        """Refuse a problem that the method cannot take."""
        if self.needs_graph and problem.graph is None:
            raise InputError(
                f"{self.name} needs a graph, and none is given. Give one, or leave this method out."
            )

    def fit_predict(self, problem: NodeProblem, seed: int) -> Prediction:
        """Train on the visible labels and return the class probabilities of every node."""
        started = time.perf_counter()
        task = self.build(problem, seed)
        n_epochs = self.train(task, problem)
        with torch.no_grad():
            probabilities = task.scores().double().softmax(1).numpy()
        return Prediction(probabilities, n_epochs, time.perf_counter() - started)

    def train(self, task: TrainingTask, problem: NodeProblem) -> int:
        """Run the one training loop on a task; return how many epochs it took."""
        validation, nodes = None, problem.validation
        if self.chooses_epoch and nodes.size:
            validation = Labels(nodes, problem.labels[nodes], problem.n_nodes, problem.n_classes)
        trainer = Trainer(
            n_epochs=self.settings.n_epochs,
            learning_rate=self.settings.learning_rate,
            patience=self.settings.patience,
        )
        return len(trainer.fit(task, validation, stage=self.name))


class ClosedForm(Baseline):
    """A control without a network: it overrides :meth:`predict` and is not trained in epochs."""

    is_trained = False

    def task(self, problem: NodeProblem, seed: int) -> TrainingTask:
        """Refuse: there is nothing for the training loop to do."""
        raise InputError(f"{self.name} has no network to train; call fit_predict.")

    @abstractmethod
    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Return the class probabilities of every node."""

    def fit_predict(self, problem: NodeProblem, seed: int) -> Prediction:
        """Return the class probabilities of every node."""
        self.check(problem)
        started = time.perf_counter()
        probabilities = self.predict(problem, check_integer("seed", seed, low=0))
        return Prediction(probabilities, 0, time.perf_counter() - started)
