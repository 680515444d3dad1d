"""What every method to compare with must offer: settings, a task for the one loop, a prediction."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from glnn._validation import check_features, check_indices, check_integer, check_number
from glnn.engine.callbacks import Callback, EarlyStopping
from glnn.engine.task import Task
from glnn.engine.trainer import Trainer, Validation
from glnn.exceptions import InputError
from glnn.graph.convert import as_adjacency


@dataclass(frozen=True, eq=False)
class Problem:
    """Nodes to classify, with the labels a method may see; checked once, then frozen.

    Parameters
    ----------
    features
        Nodes x features, a dense array or CSR, as published: each method scales them itself.
    graph
        Symmetric CSR without loops, or ``None``.
    labels
        Class of each node, int64. Labels outside ``train`` and ``validation`` are replaced by
        -1 here, so that no method can see them.
    train, validation
        Node numbers; ``validation`` may be empty.
    n_classes
        How many classes there are.

    Examples
    --------
    >>> problem = Problem(np.eye(3), None, np.array([0, 1, 1]), np.array([0, 1]))
    >>> problem.labels.tolist(), problem.n_classes
    ([0, 1, -1], 2)
    """

    features: Any
    graph: Any
    labels: np.ndarray
    train: np.ndarray
    validation: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_classes: int = 0

    def __post_init__(self) -> None:
        features = check_features("features", self.features)
        n_nodes = features.shape[0]
        train = check_indices("train", self.train, n_nodes)
        validation = check_indices("validation", self.validation, n_nodes)
        if train.size == 0:
            raise InputError("train must name at least one labelled node, got none.")
        if np.intersect1d(train, validation).size:
            raise InputError("train and validation must not share nodes.")
        labels = self._visible(n_nodes, np.concatenate([train, validation]))
        n_classes = self.n_classes or int(labels.max()) + 1
        check_integer("n_classes", n_classes, low=int(labels.max()) + 1)
        values = {"features": features, "labels": labels, "train": train, "n_classes": n_classes}
        values["validation"] = validation
        values["graph"] = None if self.graph is None else as_adjacency(self.graph, n_nodes)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _visible(self, n_nodes: int, seen: np.ndarray) -> np.ndarray:
        labels = np.asarray(self.labels)
        if labels.shape != (n_nodes,) or labels.dtype.kind not in "iu":
            raise InputError(
                f"labels must be whole numbers, one for each of the {n_nodes} nodes, "
                f"got dtype {labels.dtype} and shape {labels.shape}."
            )
        visible = np.full(n_nodes, -1, dtype=np.int64)
        visible[seen] = labels[seen]
        if visible[seen].min() < 0:
            raise InputError("labels of train and validation nodes must be 0 or more, got -1.")
        return visible

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return int(self.features.shape[0])

    def validation_set(self) -> Validation | None:
        """Return the nodes that choose the epoch, or ``None`` if there are none."""
        if self.validation.size == 0:
            return None
        classes = torch.from_numpy(self.labels[self.validation])
        return Validation(torch.from_numpy(self.validation), classes)


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
    """What the training loop is told; each method's defaults are the published ones.

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

    def build(self, problem: Problem, seed: int) -> Task:
        """Return the untrained model with its objective, all randomness drawn from ``seed``."""
        self.check(problem)
        return self.task(problem, check_integer("seed", seed, low=0))

    @abstractmethod
    def task(self, problem: Problem, seed: int) -> Task:
        """Make the task of a problem that passed :meth:`check`."""

    def check(self, problem: Problem) -> None:
        """Refuse a problem that the method cannot take."""
        if self.needs_graph and problem.graph is None:
            raise InputError(
                f"{self.name} needs a graph, and none is given. "
                "Give one, or use knn_gcn, which links each node to its nearest neighbours."
            )

    def fit_predict(self, problem: Problem, seed: int) -> Prediction:
        """Train on the visible labels and return the class probabilities of every node."""
        started = time.perf_counter()
        task = self.build(problem, seed)
        n_epochs = self.train(task, problem)
        with torch.no_grad():
            probabilities = task.scores().double().softmax(1).numpy()
        return Prediction(probabilities, n_epochs, time.perf_counter() - started)

    def train(self, task: Task, problem: Problem) -> int:
        """Run the one training loop on a task; return how many epochs it took."""
        validation = problem.validation_set() if self.chooses_epoch else None
        stop: list[Callback] = []
        if validation is not None and self.settings.patience is not None:
            stop = [EarlyStopping(self.settings.patience)]
        trainer = Trainer(
            n_epochs=self.settings.n_epochs,
            learning_rate=self.settings.learning_rate,
            callbacks=stop,
        )
        return len(trainer.fit(task, validation, stage=self.name))


class ClosedForm(Baseline):
    """A control without a network: it overrides :meth:`predict` and is not trained in epochs."""

    is_trained = False

    def task(self, problem: Problem, seed: int) -> Task:
        """Refuse: there is nothing for the training loop to do."""
        raise InputError(f"{self.name} has no network to train; call fit_predict.")

    @abstractmethod
    def predict(self, problem: Problem, seed: int) -> np.ndarray:
        """Return the class probabilities of every node."""

    def fit_predict(self, problem: Problem, seed: int) -> Prediction:
        """Return the class probabilities of every node."""
        self.check(problem)
        started = time.perf_counter()
        probabilities = self.predict(problem, check_integer("seed", seed, low=0))
        return Prediction(probabilities, 0, time.perf_counter() - started)


def in_columns(probabilities: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Spread the columns of the classes that were seen over all ``n_classes``; the rest are 0.

    Examples
    --------
    >>> in_columns(np.array([[0.25, 0.75]]), np.array([0, 2]), 3)
    array([[0.25, 0.  , 0.75]])
    """
    spread = np.zeros((len(probabilities), n_classes))
    spread[:, classes.astype(np.int64)] = probabilities
    return spread
