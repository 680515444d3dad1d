"""The classifier step: a head on a fixed graph, trained on labels and on its own agreement."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.engine.settings import HeadSettings
from glnn.engine.task import HeadTask
from glnn.graph.graph_rows import normalized_rows
from glnn.nn.features import Features
from glnn.nn.gcn import GCN
from glnn.nn.hops import HopsNet
from glnn.nn.linear import LinearNet
from glnn.nn.losses import (
    consistency,
    cross_entropy,
    natural_gate,
    probabilities,
    smoothness_of_predictions,
)
from glnn.nn.propagation import PropagationNet
from glnn.peers import ALONE, Partition


class Labels:
    """The training labels: which nodes, which classes.

    Parameters
    ----------
    nodes, classes
        Numbers of the labelled nodes, and their class numbers.
    n_nodes, n_classes
        Number of all nodes, and of all classes.
    n_labels
        How many labels there are in all processes; ``None``: these.
    weights
        How much each label counts, of mean one over all processes; ``None``: all the same.
    class_weights
        How much an unlabelled node that is drawn to each class counts; ``None``: all the same.
    """

    def __init__(
        self,
        nodes: np.ndarray,
        classes: np.ndarray,
        n_nodes: int,
        n_classes: int,
        n_labels: int | None = None,
        weights: Float[Tensor, "l"] | None = None,
        class_weights: Float[Tensor, "c"] | None = None,
    ) -> None:
        self.nodes = torch.from_numpy(np.asarray(nodes, dtype=np.int64))
        self.classes = torch.from_numpy(np.asarray(classes, dtype=np.int64))
        self.n_nodes, self.n_classes = n_nodes, n_classes
        self._n_labels = len(self.nodes) if n_labels is None else n_labels
        self.weights, self.class_weights = weights, class_weights

    def weighted(self, weights: np.ndarray) -> "Labels":
        """Return the labels with weights, scaled to mean one; a class has the mean of its own."""
        each = torch.from_numpy(np.asarray(weights / weights.mean(), dtype=np.float32))
        total = torch.zeros(self.n_classes).index_add_(0, self.classes, each)
        by_class = total / torch.bincount(self.classes, minlength=self.n_classes).clamp_min(1)
        return Labels(
            self.nodes.numpy(),
            self.classes.numpy(),
            self.n_nodes,
            self.n_classes,
            self._n_labels,
            each,
            by_class,
        )

    def __len__(self) -> int:
        return self._n_labels

    @cached_property
    def one_hot(self) -> Float[Tensor, "n c"]:
        """The same as rows of one-hot, zero where there is no label."""
        rows = torch.zeros(self.n_nodes, self.n_classes, device=self.nodes.device)
        rows[self.nodes, self.classes] = 1.0
        return rows

    def picked(self, places: np.ndarray) -> "Labels":
        """Return some of the labels, by their places among them."""
        chosen = torch.from_numpy(places)
        nodes, classes = self.nodes[chosen].numpy(), self.classes[chosen].numpy()
        labels = Labels(nodes, classes, self.n_nodes, self.n_classes)
        if self.weights is None:
            return labels
        return labels.weighted(self.weights[chosen].numpy())

    def local(self, partition: Partition) -> "Labels":
        """Return the labels of this process's rows, numbered from the first of them."""
        nodes, classes = self.nodes.numpy(), self.classes.numpy()
        here = partition.has(nodes)
        own = nodes[here] - partition.start
        weights = None if self.weights is None else self.weights[torch.from_numpy(here)]
        return Labels(
            own,
            classes[here],
            partition.n_rows,
            self.n_classes,
            len(self),
            weights,
            self.class_weights,
        )

    def to(self, device: str | torch.device) -> "Labels":
        """Return the labels on another device."""
        other = object.__new__(Labels)
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("one_hot", None)
        other.nodes, other.classes = self.nodes.to(device), self.classes.to(device)
        if self.weights is not None:
            other.weights = self.weights.to(device)
        if self.class_weights is not None:
            other.class_weights = self.class_weights.to(device)
        return other


def build_head(
    settings: HeadSettings, n_features: int, n_classes: int, generator: torch.Generator
) -> GCN | PropagationNet | LinearNet | HopsNet:
    """Return the named network with fresh parameters."""
    common: dict[str, Any] = {"dropout": settings.dropout, "generator": generator}
    if settings.head == "linear":
        reach: dict[str, Any] = {"n_steps": settings.n_steps, "powers": settings.powers}
        return LinearNet(n_features, n_classes, **reach, **common)
    common["n_hidden"] = settings.n_hidden
    if settings.head == "gcn":
        return GCN(n_features, n_classes, **common)
    if settings.head == "hops":
        return HopsNet(n_features, n_classes, n_steps=settings.n_steps, **common)
    return PropagationNet(
        n_features,
        n_classes,
        drop_node=settings.drop_node,
        n_steps=settings.n_steps,
        teleport=settings.teleport,
        **common,
    )


class ClassifierTask(HeadTask):
    """Cross-entropy, agreement of views and GLR on the predictions, on one learned graph.

    Parameters
    ----------
    adjacency
        The graph, symmetric CSR; the network sees it as ``D^-1/2 A D^-1/2``.
    features, labels
        All nodes' features; the labelled nodes.
    settings
        The network and the weights of its losses.
    init, noise
        Generators of the first parameters and of all dropout.
    partition
        Over several processes: which rows are here. Graph and features are then those of these
        rows, labels are all of them, ``init`` is the same everywhere and ``noise`` is not. Each
        term is a mean over all nodes, to which each process adds its share.
    """

    def __init__(
        self,
        adjacency: sp.csr_matrix,
        features: Features,
        labels: Labels,
        settings: HeadSettings,
        *,
        init: torch.Generator,
        noise: torch.Generator,
        partition: Partition | None = None,
    ) -> None:
        device = features.device
        partition = partition or Partition(labels.n_nodes, ALONE)
        self.features, self.settings = features, settings
        self.labels, self._noise = labels.local(partition).to(device), noise
        self.n_nodes, self.peers = labels.n_nodes, partition.peers
        self.adjacency, self.adj_hat = normalized_rows(adjacency, partition, device=device)
        degree = self.adjacency.row_sums()
        self._inverse_degree = torch.where(degree > 0, 1 / degree.clamp_min(1e-12), 0.0)
        head = build_head(settings, features.shape[1], labels.n_classes, init)
        self.module: nn.Module = head.to(device)
        self.gate = natural_gate(labels.n_classes) if settings.gate is None else settings.gate

    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms; those on predictions are ramped up."""
        s = self.settings
        logits = self.module.views(self.adj_hat, self.features, s.n_views, self._noise)  # type: ignore[operator]
        labels, n_nodes = self.labels, self.n_nodes
        known = (labels.nodes, labels.classes, len(labels), labels.weights)
        terms = {"cross_entropy": cross_entropy(logits, *known)}
        if s.consistency_weight == 0 and s.smoothness_weight == 0:
            return terms
        views = probabilities(logits)
        if s.consistency_weight:
            agreement = consistency(
                views, s.consistency_temperature, self.gate, n_nodes, labels.class_weights
            )
            terms["consistency"] = s.consistency_weight * ramp * agreement
        if s.smoothness_weight:
            terms["smoothness"] = (
                s.smoothness_weight
                * ramp
                * smoothness_of_predictions(
                    self.adjacency,
                    self._inverse_degree,
                    views,
                    self.labels.one_hot,
                    s.smoothness_temperature,
                    self.gate,
                    n_nodes,
                    labels.class_weights,
                )
            )
        return terms

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        logits: Tensor = self.module(self.adj_hat, self.features)
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Weight decay on the first layer alone, as in the paper's settings."""
        first = [p for name, p in self.module.named_parameters() if name.startswith("first")]
        rest = [p for name, p in self.module.named_parameters() if not name.startswith("first")]
        return [{"params": first, "weight_decay": self.settings.weight_decay}, {"params": rest}]
