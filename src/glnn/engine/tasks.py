"""What the training loop needs to know of a method: a model and its objective."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.distributed import ALONE, Partition, Peers
from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.graph.adjacency import DenseAdjacency, GraphOperator
from glnn.graph.operators import normalized_rows
from glnn.graph.rows import dense_rows
from glnn.nn.features import Features
from glnn.nn.gcn import GCN, GraphLearningLayer
from glnn.nn.losses import (
    consistency,
    cross_entropy,
    natural_gate,
    probabilities,
    smoothness_of_predictions,
)
from glnn.nn.propagation import PropagationNet
from glnn.nn.row_heads import HopsNet, LinearNet
from glnn.objective import Objective

# --- task: What the training loop needs to know of a method: a model and its objective

Measure = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Loss and accuracy of scores."""


class Task(ABC):
    """A model with its objective: all that tells one method from another.

    The trainer calls :meth:`losses` once an epoch, minimises their sum, and evaluates
    :meth:`scores`. Randomness comes from generators that the task holds.

    With several ``peers`` the losses and their gradients are this process's share of sums over all
    of them, and the scores are those of its rows. The module is the same in every process.
    """

    module: nn.Module
    peers: Peers = ALONE
    max_gradient: float | None = None
    """Longer gradients are cut to this length; ``None``: none are."""

    @abstractmethod
    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this epoch (from 0)."""

    @abstractmethod
    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without randomness."""

    def judged(self, measure: Measure) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy on the validation nodes, as numbers that stay on the device.

        ``measure`` returns them for the scores of every node that is here; a task that has those
        of the validation nodes at less cost need not ask it.
        """
        return measure(self.scores())

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameters with their optimiser settings."""
        return [{"params": list(self.module.parameters())}]


class RampedTask(Task):
    """A task in which an epoch's number plays no part but for the share of some weights.

    Its losses are a function of tensors alone, so a process that is alone may record an epoch and
    replay it.
    """

    @abstractmethod
    def ramp(self, epoch: int) -> float:
        """Return the share of their weight that ramped terms have in this epoch."""

    @abstractmethod
    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this share."""

    @abstractmethod
    def generators(self) -> list[torch.Generator]:
        """Return the generators that the terms draw from."""

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of this epoch."""
        return self.terms(self.ramp(epoch))


class HeadTask(RampedTask):
    """A head by its settings, with one generator of all its noise."""

    settings: HeadSettings
    _noise: torch.Generator

    def ramp(self, epoch: int) -> float:
        """Return the share of their weight that the losses on predictions have."""
        return min(1.0, epoch / self.settings.ramp_epochs)

    def generators(self) -> list[torch.Generator]:
        """Return the generator of everything that is drawn."""
        return [self._noise]


# --- classifier: The classifier step: a head on a fixed graph, trained on labels and on its own ag


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


# --- literal: The paper's method as printed: graph and network trained together by Adam, all entri


class LiteralTask(Task):
    r"""Paper: eq:overall_loss, :math:`L_{GCN} + L_{GL} + \alpha L_{gt}`, on a dense matrix.

    Holds n x n numbers with gradient and two moments: for small graphs, and for the record.
    """

    def __init__(
        self,
        features: Features,
        labels: Labels,
        settings: HeadSettings,
        objective: Objective,
        *,
        init: torch.Generator,
        noise: torch.Generator,
    ) -> None:
        layer = GraphLearningLayer(features.shape[0], generator=init)
        network = build_head(settings, features.shape[1], labels.n_classes, init)
        self.module: nn.Module = nn.ModuleDict({"graph": layer, "network": network})
        self.module.to(features.device)
        self.features, self.labels, self._noise = features, labels.to(features.device), noise
        self._objective, self._settings = objective, settings

    @staticmethod
    def objective(
        signal: Any, prior: sp.csr_matrix | None, graph: GraphSettings, device: str | torch.device
    ) -> Objective:
        """Return the paper's loss of a graph, on dense features and a dense prior graph."""
        x = torch.from_numpy(np.asarray(dense_rows(signal), dtype=np.float32)).to(device)
        given = None
        if prior is not None:
            matrix = torch.from_numpy(prior.toarray().astype(np.float32))
            given = DenseAdjacency(matrix.to(device))
        reading: Any = graph.reading  # which was checked
        return Objective.of(graph.weights, x, given, reading=reading)

    def adjacency(self) -> DenseAdjacency:
        """Return the graph as it stands."""
        graph: DenseAdjacency = self.module["graph"]()  # type: ignore[index]
        return graph

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the cross-entropy and every weighted term of the graph learning loss."""
        adj = self.adjacency()
        logits = self.module["network"](adj, self.features, self._noise)  # type: ignore[index]
        terms = {
            "cross_entropy": cross_entropy(
                logits[None],
                self.labels.nodes,
                self.labels.classes,
                weights=self.labels.weights,
            )
        }
        return terms | self._objective.terms(adj)

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        logits: Tensor = self.module["network"](self.adjacency(), self.features)  # type: ignore[index]
        return logits

    def parameter_groups(self) -> list[dict[str, object]]:
        """Weight decay on the network's first layer alone."""
        named = list(self.module.named_parameters())
        first = [p for name, p in named if name.startswith("network.first")]
        rest = [p for name, p in named if not name.startswith("network.first")]
        return [{"params": first, "weight_decay": self._settings.weight_decay}, {"params": rest}]


# --- task_gradient: The gradient of the classification loss with respect to every entry of the gra


class RecordedGraph(GraphOperator):
    """A graph that remembers what it was multiplied with, and the gradients of the products."""

    def __init__(self, graph: GraphOperator) -> None:
        self._graph = graph
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._graph.n_nodes

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        out = self._graph @ x
        out.retain_grad()
        self.inputs.append(x.detach())
        self.outputs.append(out)
        return out


def task_factors(task: ClassifierTask) -> tuple[np.ndarray, np.ndarray]:
    r"""Return :math:`U, V` with :math:`\partial L/\partial a_{ij} = \frac12(u_i v_j + u_j v_i)`.

    :math:`L` is the paper's cross-entropy, summed over the labelled nodes, without dropout, and
    :math:`a` the graph before its normalisation :math:`\hat a_{ij} = a_{ij} s_i s_j`,
    :math:`s = r^{-1/2}`. With :math:`E` the gradient at :math:`\hat A`, the chain rule gives

    .. math:: \tfrac12 s_i s_j (E_{ij} + E_{ji}) + \tfrac12 (\delta_i + \delta_j), \qquad
              \delta_i = -\tfrac{1}{2 r_i} \textstyle\sum_j (E_{ij} + E_{ji}) \hat a_{ij}.
    """
    recorded = RecordedGraph(task.adj_hat)
    logits: Tensor = task.module(recorded, task.features)
    nodes, classes = task.labels.nodes, task.labels.classes
    weights = task.labels.weights
    loss = cross_entropy(logits[None], nodes, classes, weights=weights) * len(nodes)
    task.module.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    task.module.zero_grad(set_to_none=True)
    grads = [torch.zeros_like(o) if o.grad is None else o.grad for o in recorded.outputs]
    gamma, inputs = torch.cat(grads, 1), torch.cat(recorded.inputs, 1)

    degree = task.adjacency.row_sums()
    scale = torch.where(degree > 0, degree.clamp_min(1e-12).rsqrt(), 0.0)
    # sum_j E_ij a_ij = gamma_i . (A H)_i, and its mirror h_i . (A gamma)_i
    through = (gamma * (task.adj_hat @ inputs)).sum(1) + (inputs * (task.adj_hat @ gamma)).sum(1)
    delta = -0.5 * through * scale.square()
    ones = torch.ones_like(delta)
    left = torch.cat([scale[:, None] * gamma, delta[:, None]], 1)
    right = torch.cat([scale[:, None] * inputs, ones[:, None]], 1)
    return left.double().cpu().numpy(), right.double().cpu().numpy()
