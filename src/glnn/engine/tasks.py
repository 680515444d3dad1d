"""Training tasks: a network with its objective, as the training loop needs it.

:class:`ClassifierTask` trains a head on a fixed graph, :class:`LiteralTask` trains graph and
network together as the paper prints it. Heads that train on rows are in
:mod:`glnn.engine.row_task`.
"""

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from glnn.distributed import SINGLE_PROCESS, Partition, Peers
from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.graph.adjacency import DenseAdjacency, GraphOperator
from glnn.graph.operators import PowerRows, normalize_graph_rows
from glnn.graph.rows import to_dense_array
from glnn.nn.features import Features
from glnn.nn.gcn import GCN, GraphLearningLayer
from glnn.nn.losses import (
    ShareAlignment,
    average_views,
    cross_entropy,
    default_graph_gate,
    smoothness_of_predictions,
    softmax_by_class,
    squared_distance_loss,
    view_targets,
)
from glnn.nn.propagation import PropagationNet
from glnn.nn.row_heads import HopsNet, LinearNet
from glnn.objective import Objective

# Labels


class Labels:
    """Labelled nodes: those that train, or those that choose the epoch and never train.

    Over several processes each one has all of them; :meth:`local` returns those of its rows.
    """

    def __init__(self, nodes: Any, classes: Any, n_nodes: int, n_classes: int) -> None:
        self.nodes: Int[Tensor, l] = torch.as_tensor(nodes, dtype=torch.int64)
        self.classes: Int[Tensor, l] = torch.as_tensor(classes, dtype=torch.int64)
        self.n_nodes, self.n_classes = n_nodes, n_classes
        self._n_labels, self._peers = len(self.nodes), SINGLE_PROCESS  # over all processes
        # of each label, with mean one over all processes; ``None``: all alike
        self.weights: Float[Tensor, l] | None = None
        # of an unlabelled node in the losses on predictions, by its target class
        self.class_weights: Float[Tensor, c] | None = None

    def __len__(self) -> int:
        return self._n_labels

    @cached_property
    def one_hot(self) -> Float[Tensor, "n c"]:
        """One-hot rows of all nodes, zero where there is no label."""
        rows = torch.zeros(self.n_nodes, self.n_classes, device=self.nodes.device)
        rows[self.nodes, self.classes] = 1.0
        return rows

    def with_weights(self, weights: np.ndarray) -> "Labels":
        """Return the labels with weights of mean one; all-zero weights are ignored.

        Class weights are the means per class.
        """
        if not weights.any():
            return self
        each = torch.from_numpy(np.asarray(weights / weights.mean(), dtype=np.float32))
        total = torch.zeros(self.n_classes).index_add_(0, self.classes, each)
        by_class = total / torch.bincount(self.classes, minlength=self.n_classes).clamp_min(1)
        return self._replace(weights=each, class_weights=by_class)

    def select(self, places: np.ndarray) -> "Labels":
        """Return the labels at the given positions."""
        chosen = torch.from_numpy(places)
        labels = Labels(self.nodes[chosen], self.classes[chosen], self.n_nodes, self.n_classes)
        if self.weights is None:
            return labels
        return labels.with_weights(self.weights[chosen].numpy())

    def local(self, partition: Partition) -> "Labels":
        """Return the labels of this process's rows, with local row numbers."""
        here = torch.from_numpy(partition.is_local(self.nodes.numpy()))
        return self._replace(
            nodes=self.nodes[here] - partition.start,
            classes=self.classes[here],
            weights=None if self.weights is None else self.weights[here],
            n_nodes=partition.n_rows,
            _peers=partition.peers,
        )

    def to(self, device: str | torch.device) -> "Labels":
        """Return the labels on another device."""
        names = ("nodes", "classes", "weights", "class_weights")
        own = {name: getattr(self, name) for name in names}
        return self._replace(**{k: None if v is None else v.to(device) for k, v in own.items()})

    def measure(self, picked: Float[Tensor, "l c"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy of these nodes' logits as tensors: means over all processes."""
        if self.weights is None:
            loss = functional.cross_entropy(picked, self.classes, reduction="sum")
        else:
            each = functional.cross_entropy(picked, self.classes, reduction="none")
            loss = (each * self.weights).sum()
        right = (picked.argmax(1) == self.classes).sum()
        sums = self._peers.all_reduce(torch.stack([loss, right.to(loss.dtype)]))
        means = sums / len(self)
        return means[0], means[1]

    def _replace(self, **changes: Any) -> "Labels":
        other = copy.copy(self)
        other.__dict__.pop("one_hot", None)
        other.__dict__.update(changes)
        return other


# Interface of the training loop


class TrainingTask(ABC):
    """A model with its objective. All random numbers come from generators that the task holds.

    Over several processes, the losses and their gradients are this process's summands of the
    totals, and the scores are those of its rows. The module is the same in every process.
    """

    module: nn.Module
    peers: Peers = SINGLE_PROCESS
    max_gradient: float | None = None  # gradients are clipped to this norm; ``None``: no clipping

    @abstractmethod
    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name; epochs count from 0."""

    @abstractmethod
    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without randomness."""

    def validate(self, validation: Labels) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy on the validation nodes, as tensors on the device."""
        return validation.measure(self.scores()[validation.nodes])

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameter groups for the optimiser."""
        return [{"params": list(self.module.parameters())}]


class RampedTask(TrainingTask):
    """A head with losses on predictions that grow to their full weight over ``ramp_epochs``.

    The epoch counts through this ramp only, and the losses are a function of tensors alone. So a
    single process can capture an epoch as a CUDA graph and replay it.
    """

    settings: HeadSettings
    features: Features
    adj_hat: GraphOperator  # which the network propagates over
    _alignment: ShareAlignment | None = None  # of the targets of these losses
    _noise: torch.Generator

    def ramp(self, epoch: int) -> float:
        """Return the factor between 0 and 1 on the losses on predictions in this epoch."""
        return min(1.0, epoch / self.settings.ramp_epochs)

    @abstractmethod
    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this ramp factor."""

    def generators(self) -> list[torch.Generator]:
        """Return the generators used by the terms."""
        return [self._noise]

    def align_targets(self, labels: Labels, validation: Labels | None, n_labels: int) -> None:
        """Align the targets with the shares of the known labels, unless the fit has many."""
        known = [labels.classes] if validation is None else [labels.classes, validation.classes]
        strength = 1 - n_labels / labels.n_classes / max(self.settings.alignment, 1e-9)
        if strength > 0:
            classes = torch.cat(known).to(self.features.device)
            self._alignment = ShareAlignment(classes, labels.n_classes, strength)

    def target_factors(
        self, views: Float[Tensor, "v n c"], n_nodes: int
    ) -> Float[Tensor, "c"] | None:
        """Return the factors that align the targets of these views, if anything is aligned."""
        if self._alignment is None:
            return None
        return self._alignment.factors(self.peers.all_reduce(average_views(views).sum(0)) / n_nodes)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of this epoch."""
        return self.terms(self.ramp(epoch))

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        logits: Tensor = self.module(self.adj_hat, self.features)
        return logits


# The classifier on a fixed graph


Network: TypeAlias = GCN | PropagationNet | LinearNet | HopsNet
_NETWORKS: dict[str, type[Network]] = {
    "gcn": GCN,
    "propagation": PropagationNet,
    "linear": LinearNet,
    "hops": HopsNet,
}  # by the name of the head


def build_head(
    settings: HeadSettings, n_features: int, n_classes: int, generator: torch.Generator
) -> Network:
    """Return a freshly initialised network."""
    return _NETWORKS[settings.head](n_features, n_classes, settings, generator)


_MAX_ROW_NUMBERS = 2**25  # in the dense rows that propagate to some nodes alone


class ClassifierTask(RampedTask):
    """Cross-entropy, agreement of views and GLR on the predictions, on one learned graph.

    The network uses ``D^-1/2 A D^-1/2``. Over several processes, graph and features hold the rows
    of this process, and ``labels`` and ``validation`` are those of all processes. Each term is a
    mean over all nodes, to which each process adds its summand.
    """

    def __init__(
        self,
        adjacency: sp.csr_matrix,  # symmetric
        features: Features,
        labels: Labels,
        settings: HeadSettings,
        *,
        init: torch.Generator,  # draws the initial parameters, the same in every process
        noise: torch.Generator,  # draws all dropout, each process its own
        partition: Partition | None = None,
        validation: Labels | None = None,
        n_labels: int | None = None,  # of the fit, those that are hidden in a fold included
    ) -> None:
        device = features.device
        partition = partition or Partition(labels.n_nodes, SINGLE_PROCESS)
        self.features, self.settings = features, settings
        self.labels, self._noise = labels.local(partition).to(device), noise
        self.n_nodes, self.peers = labels.n_nodes, partition.peers
        self.align_targets(labels, validation, n_labels or len(labels))
        self.adjacency, self.adj_hat = normalize_graph_rows(adjacency, partition, device=device)
        degree = self.adjacency.row_sums()
        self._inverse_degree = torch.where(degree > 0, 1 / degree.clamp_min(1e-12), 0.0)
        head = build_head(settings, features.shape[1], labels.n_classes, init)
        self.module: nn.Module = head.to(device)
        # propagation to labelled and to validation nodes alone, if no others are needed
        self._labelled_rows: PowerRows | None = None
        self._validation_rows: PowerRows | None = None
        self._prepare_rows(validation)
        self.gate = default_graph_gate(labels.n_classes) if settings.gate is None else settings.gate

    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms; the ramp applies to the losses on predictions."""
        s, labels, n_nodes = self.settings, self.labels, self.n_nodes
        operator: GraphOperator = self._labelled_rows or self.adj_hat
        # propagated rows are those of the labelled nodes, in their order
        nodes = labels.nodes if self._labelled_rows is None else None
        logits = self.module.views(operator, self.features, s.n_views, self._noise)  # type: ignore[operator]
        known = (nodes, labels.classes, len(labels), labels.weights)
        terms = {"cross_entropy": cross_entropy(logits, *known)}
        if s.uses_labels_alone:
            return terms
        views = softmax_by_class(logits)
        gates = (self.gate, labels.class_weights, self.target_factors(views, n_nodes))
        if s.consistency_weight:
            targets = view_targets(views, s.consistency_temperature, *gates)
            agreement = squared_distance_loss(views, *targets, n_nodes)
            terms["consistency"] = s.consistency_weight * ramp * agreement
        if s.smoothness_weight:
            seen = (self.adjacency, self._inverse_degree, views, labels.one_hot)
            smoothness = smoothness_of_predictions(*seen, s.smoothness_temperature, *gates, n_nodes)
            terms["smoothness"] = s.smoothness_weight * ramp * smoothness
        return terms

    def _prepare_rows(self, validation: Labels | None) -> None:
        s, nodes = self.settings, self.labels.nodes
        n_rows = len(nodes) + (0 if validation is None else len(validation.nodes))
        is_small = self.peers.size == 1 and n_rows * self.n_nodes <= _MAX_ROW_NUMBERS
        if s.head != "propagation" or not s.uses_labels_alone or not is_small:
            return
        self._labelled_rows = PowerRows.of(self.adj_hat, nodes, s.n_steps, self.n_nodes)
        if validation is not None:
            chosen = validation.nodes.to(nodes.device)
            self._validation_rows = PowerRows.of(self.adj_hat, chosen, s.n_steps, self.n_nodes)

    def validate(self, validation: Labels) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy on the validation nodes, propagating to them alone."""
        if self._validation_rows is None:
            return super().validate(validation)
        return validation.measure(self.module(self._validation_rows, self.features))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return two groups: weight decay applies to the first layer only, as in the paper."""
        return _decay_first_layer(self.module, "first", self.settings.weight_decay)


def _decay_first_layer(module: nn.Module, prefix: str, decay: float) -> list[dict[str, Any]]:
    named = list(module.named_parameters())
    first = [p for name, p in named if name.startswith(prefix)]
    rest = [p for name, p in named if not name.startswith(prefix)]
    return [{"params": first, "weight_decay": decay}, {"params": rest}]


# The paper's method as printed


class LiteralTask(TrainingTask):
    r"""Paper: eq:overall_loss, :math:`L_{GCN} + L_{GL} + \alpha L_{gt}`, on a dense matrix.

    Holds n x n numbers with their gradient and two moments, so it is for small graphs only.
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
    def build_objective(
        signal: Any, prior: sp.csr_matrix | None, graph: GraphSettings, device: str | torch.device
    ) -> Objective:
        """Return the paper's graph learning loss, on dense features and a dense prior graph."""
        x = torch.from_numpy(np.asarray(to_dense_array(signal), dtype=np.float32)).to(device)
        given = None
        if prior is not None:
            matrix = torch.from_numpy(prior.toarray().astype(np.float32))
            given = DenseAdjacency(matrix.to(device))
        reading: Any = graph.reading  # checked by the settings
        return Objective.of(graph.weights, x, given, reading=reading)

    def adjacency(self) -> DenseAdjacency:
        """Return the current graph."""
        graph: DenseAdjacency = self.module["graph"]()  # type: ignore[index]
        return graph

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the cross-entropy and every weighted term of the graph learning loss."""
        adj = self.adjacency()
        logits = self.module["network"](adj, self.features, self._noise)  # type: ignore[index]
        known = self.labels
        loss = cross_entropy(logits[None], known.nodes, known.classes, weights=known.weights)
        return {"cross_entropy": loss} | self._objective.terms(adj)

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        logits: Tensor = self.module["network"](self.adjacency(), self.features)  # type: ignore[index]
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return two groups: weight decay applies to the network's first layer only."""
        return _decay_first_layer(self.module, "network.first", self._settings.weight_decay)


# Gradient of the classification loss with respect to the graph


class RecordingGraph(GraphOperator):
    """A graph that records the inputs and outputs of its products."""

    def __init__(self, graph: GraphOperator) -> None:
        self._graph = graph
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        out = self._graph @ x
        out.retain_grad()
        self.inputs.append(x.detach())
        self.outputs.append(out)
        return out


def factor_task_gradient(task: ClassifierTask) -> tuple[np.ndarray, np.ndarray]:
    r"""Return :math:`U, V` with :math:`\partial L/\partial a_{ij} = \frac12(u_i v_j + u_j v_i)`.

    :math:`L` is the paper's cross-entropy, summed over the labelled nodes, without dropout, and
    :math:`a` the graph before its normalisation :math:`\hat a_{ij} = a_{ij} s_i s_j`,
    :math:`s = r^{-1/2}`. With :math:`E` the gradient at :math:`\hat A`, the chain rule gives

    .. math:: \tfrac12 s_i s_j (E_{ij} + E_{ji}) + \tfrac12 (\delta_i + \delta_j), \qquad
              \delta_i = -\tfrac{1}{2 r_i} \textstyle\sum_j (E_{ij} + E_{ji}) \hat a_{ij}.
    """
    recorded = RecordingGraph(task.adj_hat)
    logits: Tensor = task.module(recorded, task.features)
    known = task.labels
    loss = cross_entropy(logits[None], known.nodes, known.classes, weights=known.weights)
    loss = loss * len(known.nodes)
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
