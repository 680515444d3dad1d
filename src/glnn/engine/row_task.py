"""Training of row heads: mini-batches of rows of features propagated beforehand."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.distributed import Partition
from glnn.engine.settings import HeadSettings
from glnn.engine.tasks import Labels, RampedTask, build_head
from glnn.graph.adjacency import GraphOperator
from glnn.nn.features import Features
from glnn.nn.losses import cross_entropy, softmax_by_class, squared_distance_loss, view_targets
from glnn.nn.row_heads import LinearNet, RowNet

# The pool of rows

_BLOCK_SIZE = 2**22  # numbers in a block of feature columns: they fit into a processor's cache
# A block with fewer columns than this is slow, so it may hold more numbers, up to the maximum.
_MIN_WIDTH, _MAX_BLOCK_SIZE = 64, 2**24
_BYTES_PER_NUMBER = 128  # of a GPU's free memory: propagation holds several copies of a block
_MAX_NUMBERS = 2**27  # in a pool, unless labelled and validation nodes alone have more
_CONSTANT_RATIO = 1e-5  # a column is constant if its deviation is at most this times its maximum


def gather_pool(
    module: RowNet, walk: GraphOperator, features: Features, nodes: np.ndarray, partition: Partition
) -> Float[Tensor, "p f"]:
    """Return the standardised rows of propagated features of some nodes, the same in every process.

    ``features`` are those of this process's rows. The module's scaling is fitted to the pool.
    """
    device = module.norm.scale.device
    is_local = partition.is_local(nodes)
    picked = torch.from_numpy(nodes[is_local] - partition.start).to(device)
    blocks = [module.propagate(walk, x)[picked] for x in _column_blocks(features)]
    rows = (blocks[0] if len(blocks) == 1 else torch.cat(blocks, 2)).flatten(1)
    if partition.is_split:
        whole = rows.new_zeros(len(nodes), rows.shape[1])
        whole[torch.from_numpy(is_local).to(device)] = rows
        rows = partition.peers.all_reduce(whole)
    module.norm.set_statistics(*_measure_columns(rows))
    return module.norm.standardize(rows)


def choose_pool_nodes(
    labelled: np.ndarray,
    validation: np.ndarray,
    n_others: int,
    n_nodes: int,
    n_columns: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return labelled, validation and random other nodes, in this order and each once.

    There are at most ``n_others`` other nodes, and fewer if the pool would hold too many numbers.

    Examples
    --------
    >>> choose_pool_nodes(np.array([3]), np.array([1]), 9, 4, 2, np.random.default_rng(0))
    array([3, 1, 0, 2])
    """
    is_other = np.ones(n_nodes, dtype=bool)
    is_other[labelled] = is_other[validation] = False
    rest = np.flatnonzero(is_other)
    room = max(0, _MAX_NUMBERS // max(1, n_columns) - len(labelled) - len(validation))
    n_others = min(n_others, len(rest), room)
    others = rest if n_others == len(rest) else np.sort(rng.choice(rest, n_others, replace=False))
    return np.concatenate([labelled, validation, others])


def _column_blocks(features: Features) -> Iterator[Float[Tensor, "n d"]]:
    """Yield dense blocks of feature columns; on a GPU as many as fit into memory."""
    n_rows, n_columns = max(1, features.shape[0]), features.shape[1]
    width = max(1, _BLOCK_SIZE // n_rows, min(_MIN_WIDTH, _MAX_BLOCK_SIZE // n_rows))
    if features.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(features.device)
        width = max(1, max(_MAX_BLOCK_SIZE, free // _BYTES_PER_NUMBER) // n_rows)
    for first in range(0, n_columns, width):
        yield features.columns(first, min(first + width, n_columns))


def _measure_columns(rows: Float[Tensor, "p f"]) -> tuple[Float[Tensor, "f"], Float[Tensor, "f"]]:
    """Return mean and standard deviation of each column; zero deviation for a constant one."""
    deviation, mean = torch.std_mean(rows, 0, correction=0)
    most = mean.abs() + 2 * math.sqrt(len(rows)) * deviation  # no entry of a column is larger
    doubtful = (deviation <= _CONSTANT_RATIO * most).nonzero().view(-1)
    low, high = torch.aminmax(rows[:, doubtful], dim=0)
    is_constant = deviation[doubtful] <= _CONSTANT_RATIO * torch.maximum(-low, high)
    return mean, deviation.index_fill(0, doubtful[is_constant], 0.0)


# The task

_MAX_COLUMNS = 6000  # of the head ``hops``, over all hops


def limit_hops(settings: HeadSettings, n_features: int) -> HeadSettings:
    """Return the settings with fewer hops, at least one, where features have many columns."""
    if settings.head != "hops" or settings.n_steps == 0:
        return settings
    n_steps = min(settings.n_steps, max(1, _MAX_COLUMNS // n_features - 1))
    return dataclasses.replace(settings, n_steps=n_steps)


class RowTask(RampedTask):
    """Cross-entropy and agreement of views, on a mini-batch of propagated rows per step.

    Every process has the same rows and the same noise and takes the same steps, so training needs
    no communication. ``features`` holds this process's rows, ``labels`` and ``validation`` hold
    all nodes.
    """

    module: RowNet

    def __init__(
        self,
        walk: GraphOperator,
        features: Features,
        labels: Labels,
        settings: HeadSettings,
        *,
        init: torch.Generator,  # draws the initial parameters
        noise: torch.Generator,  # draws rows and dropout
        partition: Partition,
        validation: Labels | None = None,
        n_labels: int | None = None,  # of the fit, those that are hidden in a fold included
    ) -> None:
        device = features.device
        self.features, self.settings, self.adj_hat, self._noise = features, settings, walk, noise
        head = build_head(settings, features.shape[1], labels.n_classes, init)
        assert isinstance(head, RowNet)
        self.module = head.to(device)
        self.max_gradient = settings.max_gradient
        held_out = np.empty(0, np.int64) if validation is None else validation.nodes.numpy()
        rng = np.random.default_rng(init.initial_seed())
        labelled, n_columns = labels.nodes.numpy(), len(head.norm.mean)
        n_known = len(labelled) + len(held_out)
        # no larger than a process's part of the rows
        room = max(0, labels.n_nodes // partition.peers.size - n_known)
        n_others = min(settings.pool_size, room)
        nodes = choose_pool_nodes(labelled, held_out, n_others, labels.n_nodes, n_columns, rng)
        self._pool = gather_pool(self.module, walk, features, nodes, partition)
        self._labels, self._n_labels = labels.to(device), len(labelled)
        self.align_targets(labels, validation, n_labels or len(labels))
        self._validation_rows = slice(len(labelled), n_known)
        self._validation = None if validation is None else validation.to(device)
        self.gate = _default_gate(labels.n_classes) if settings.gate is None else settings.gate

    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms on a new mini-batch; a linear head also gets its gradients."""
        s, net, (batch, classes, weights) = self.settings, self.module, self._draw_batch()
        factor, drawn = s.consistency_weight * ramp, (batch, s.n_views, self._noise)
        if isinstance(net, LinearNet):
            targets = self._view_targets if s.consistency_weight else None
            return net.set_loss_gradients(*drawn, classes, weights, targets, factor)
        logits = net.views(*drawn)
        terms = {"cross_entropy": cross_entropy(logits, None, classes, weights=weights)}
        if s.consistency_weight:
            views = softmax_by_class(logits)
            terms["consistency"] = factor * squared_distance_loss(views, *self._view_targets(views))
        return terms

    def _view_targets(self, views: Float[Tensor, "v b c"]) -> tuple[Tensor, Tensor]:
        """Return the targets of the agreement of views, and the weights of the rows."""
        shares = self._labels.class_weights, self.target_factors(views, views.shape[1])
        return view_targets(views, self.settings.consistency_temperature, self.gate, *shares)

    def validate(self, validation: Labels) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy on the validation nodes, from their rows of the pool."""
        if self._validation is None:
            return super().validate(validation)
        rows = self._pool[self._validation_rows]
        return self._validation.measure(self.module.row_logits(rows))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return one group: weight decay applies to all parameters, column scales included."""
        parameters = list(self.module.parameters())
        return [{"params": parameters, "weight_decay": self.settings.weight_decay}]

    def _draw_batch(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the rows of a mini-batch, labelled ones first, and their classes and weights."""
        picked, known, size = self._draw_labels(), self._labels, self.settings.batch_nodes
        weights = None if known.weights is None else known.weights[picked]
        rows, n_rows = picked, len(self._pool)
        if size and n_rows > self._n_labels:  # unlabelled rows, with those of validation nodes
            how: Any = {"generator": self._noise, "device": picked.device}
            rows = torch.cat([picked, torch.randint(self._n_labels, n_rows, (size,), **how)])
        return self._pool.index_select(0, rows), known.classes[picked], weights

    def _draw_labels(self) -> Tensor:
        """Draw labelled rows without replacement; return all of them if they are few."""
        size, device = self.settings.batch_labels, self._pool.device
        if size is None or size >= self._n_labels:
            return torch.arange(self._n_labels, device=device)
        keys = torch.rand(self._n_labels, generator=self._noise, device=device)
        return keys.topk(size).indices


def _default_gate(n_classes: int) -> float:
    r"""Return the gate that a probability of :math:`\frac{2}{C}` passes, at most 0.7."""
    return min(1 / (n_classes - 1), 0.7) if n_classes > 1 else 0.0
