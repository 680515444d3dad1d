"""Nodes to classify and the labels that a method may see, checked once for all methods."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from glnn._validation import check_features, check_indices, check_integer
from glnn.engine.trainer import Validation
from glnn.exceptions import InputError
from glnn.graph.convert import as_adjacency


@dataclass(frozen=True, eq=False)
class NodeProblem:
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
    >>> problem = NodeProblem(np.eye(3), None, np.array([0, 1, 1]), np.array([0, 1]))
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
