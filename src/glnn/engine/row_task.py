"""The classifier step of a head that trains on rows: small steps, on few rows each."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.distributed import Partition
from glnn.engine.settings import HeadSettings
from glnn.engine.tasks import HeadTask, Labels, Measure, build_head
from glnn.engine.trainer import Validation
from glnn.graph.adjacency import GraphOperator
from glnn.nn.features import Features
from glnn.nn.losses import consistency, cross_entropy, probabilities
from glnn.nn.row_heads import RowNet

# --- pool: Rows of spread features that a head trains on: some nodes, known to every process

_BLOCK = 2**22
"""Numbers in a block of feature columns: few enough for a processor's cache."""

_WIDE, _MOST = 64, 2**24
"""Narrower blocks take longer for each column, so they may have more numbers, up to this."""

_ROOM = 128
"""Bytes of a device's free memory for each number: a block is spread in several copies."""

_MAX_NUMBERS = 2**27
"""Numbers in all rows of a pool, unless labelled and validation nodes alone have more."""

_VARIES = 1e-5
"""A column whose deviation is at most this share of its largest entry is constant."""


@dataclass(frozen=True)
class Pool:
    """Standardised rows of some nodes, the same in every process.

    Parameters
    ----------
    rows
        What the head sees of each node.
    nodes
        Their numbers: labelled nodes, then validation nodes, then others.
    """

    rows: Float[Tensor, "p f"]
    nodes: Int[Tensor, "p"]

    @classmethod
    def of(
        cls,
        module: RowNet,
        walk: GraphOperator,
        features: Features,
        nodes: np.ndarray,
        partition: Partition,
    ) -> "Pool":
        """Spread the features of all nodes, keep those of some, tell the module their statistics.

        ``features`` are those of this process's rows.
        """
        device = module.norm.scale.device
        picked = torch.from_numpy(nodes[partition.has(nodes)] - partition.start).to(device)
        blocks = [module.spread(walk, x)[picked] for x in _column_blocks(features)]
        spread = blocks[0] if len(blocks) == 1 else torch.cat(blocks, 2)
        rows = _everyones(spread.flatten(1), nodes, partition)
        module.norm.measure(*_statistics(rows))
        return cls(module.norm.standardized(rows), torch.from_numpy(nodes).to(device))


def pool_nodes(
    labelled: np.ndarray,
    watched: np.ndarray,
    n_others: int,
    n_nodes: int,
    n_columns: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return labelled, validation and random other nodes, in this order and each once.

    There are ``n_others`` others at most, and as many as fit into a pool of this many columns.

    Examples
    --------
    >>> pool_nodes(np.array([3]), np.array([1]), 9, 4, 2, np.random.default_rng(0))
    array([3, 1, 0, 2])
    """
    is_other = np.ones(n_nodes, dtype=bool)
    is_other[labelled] = is_other[watched] = False
    rest = np.flatnonzero(is_other)
    room = max(0, _MAX_NUMBERS // max(1, n_columns) - len(labelled) - len(watched))
    n_others = min(n_others, len(rest), room)
    others = rest if n_others == len(rest) else np.sort(rng.choice(rest, n_others, replace=False))
    return np.concatenate([labelled, watched, others])


def _block_width(n_rows: int, device: torch.device) -> int:
    """Return how many columns are spread at once: as many as there is room for on a GPU."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(1, max(_MOST, free // _ROOM) // n_rows)
    return max(1, _BLOCK // n_rows, min(_WIDE, _MOST // n_rows))


def _column_blocks(features: Features) -> Iterator[Float[Tensor, "n d"]]:
    """Yield the features dense, some columns at a time."""
    n_rows, n_columns = features.shape
    width = _block_width(max(1, n_rows), features.device)
    for first in range(0, n_columns, width):
        yield features.columns(first, min(first + width, n_columns))


def _statistics(rows: Float[Tensor, "p f"]) -> tuple[Float[Tensor, "f"], Float[Tensor, "f"]]:
    """Return mean and deviation of each column; the deviation of a constant one is zero."""
    deviation, mean = torch.std_mean(rows, 0, correction=0)
    most = mean.abs() + 2 * math.sqrt(len(rows)) * deviation  # no entry of a column is larger
    doubtful = (deviation <= _VARIES * most).nonzero().view(-1)
    low, high = torch.aminmax(rows[:, doubtful], dim=0)
    is_constant = deviation[doubtful] <= _VARIES * torch.maximum(-low, high)
    return mean, deviation.index_fill(0, doubtful[is_constant], 0.0)


def _everyones(
    rows: Float[Tensor, "m f"], nodes: np.ndarray, partition: Partition
) -> Float[Tensor, "p f"]:
    """Return the rows of all nodes of the pool, of which each process gives its own."""
    if partition.peers.size == 1:
        return rows
    whole = rows.new_zeros(len(nodes), rows.shape[1])
    whole[torch.from_numpy(partition.has(nodes)).to(rows.device)] = rows
    return partition.peers.all_reduce_(whole)


# --- row_task: The classifier step of a head that trains on rows: small steps, on few rows each

_MAX_COLUMNS = 6000
"""With more columns side by side, fewer hops are looked at; one always is."""


def fitted_to_width(settings: HeadSettings, n_features: int) -> HeadSettings:
    """Return the settings with fewer hops side by side where features have many columns.

    Examples
    --------
    >>> fitted_to_width(HeadSettings(head="hops", n_steps=5), 1500).n_steps
    3
    """
    if settings.head != "hops" or settings.n_steps == 0:
        return settings
    n_steps = min(settings.n_steps, max(1, _MAX_COLUMNS // n_features - 1))
    return dataclasses.replace(settings, n_steps=n_steps)


class RowTask(HeadTask):
    """Cross-entropy and agreement of views, on a few rows of spread features a step.

    Every process has the same rows and the same noise and takes the same steps, so that nothing
    travels while it trains; ``peers`` are therefore none.

    Parameters
    ----------
    walk
        The random walk over the graph.
    features
        This process's rows of the features.
    labels, validation
        All labelled nodes, and those that choose the epoch.
    settings
        The network, its losses, and how many rows a step takes.
    init, noise
        Generators of the first parameters, and of rows and dropout; alike in every process.
    partition
        Which rows are here.
    """

    module: RowNet

    def __init__(
        self,
        walk: GraphOperator,
        features: Features,
        labels: Labels,
        validation: Validation | None,
        settings: HeadSettings,
        *,
        init: torch.Generator,
        noise: torch.Generator,
        partition: Partition,
    ) -> None:
        device = features.device
        self.features, self.settings, self.walk, self._noise = features, settings, walk, noise
        head = build_head(settings, features.shape[1], labels.n_classes, init)
        assert isinstance(head, RowNet)  # as the settings say
        self.module = head.to(device)
        self.max_gradient = settings.max_gradient
        watched = np.empty(0, np.int64) if validation is None else validation.nodes.numpy()
        rng = np.random.default_rng(init.initial_seed())
        labelled, n_columns = labels.nodes.numpy(), len(head.norm.mean)
        n_known = len(labelled) + len(watched)
        room = max(0, labels.n_nodes // partition.peers.size - n_known)  # as for any other array
        n_others = min(settings.pool_size, room)
        nodes = pool_nodes(labelled, watched, n_others, labels.n_nodes, n_columns, rng)
        self._pool = Pool.of(self.module, walk, features, nodes, partition)
        self._labels, self._n_labels = labels.to(device), len(labelled)
        self._watched = slice(len(labelled), len(labelled) + len(watched))
        self._here = None if validation is None else _renumbered(validation, device)
        self.gate = _gate(labels.n_classes) if settings.gate is None else settings.gate

    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms on freshly drawn rows."""
        s = self.settings
        picked = self._drawn_labels()
        batch = self._pool.rows[self._with_others(picked)]
        logits = self.module.views(batch, s.n_views, self._noise)
        places = torch.arange(len(picked), device=picked.device)
        known = self._labels
        weights = None if known.weights is None else known.weights[picked]
        loss = cross_entropy(logits, places, known.classes[picked], weights=weights)
        terms = {"cross_entropy": loss}
        if s.consistency_weight:
            agreement = consistency(
                probabilities(logits),
                s.consistency_temperature,
                self.gate,
                class_weights=known.class_weights,
            )
            terms["consistency"] = s.consistency_weight * ramp * agreement
        return terms

    def judged(self, measure: Measure) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy on the validation nodes, whose rows are all here."""
        if self._here is None:
            return measure(self.scores())
        return self._here.measure(self.module.of_rows(self._pool.rows[self._watched]))

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        logits: Tensor = self.module(self.walk, self.features)
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Weight decay on all parameters: scale of a column and its weights share one budget."""
        parameters = list(self.module.parameters())
        return [{"params": parameters, "weight_decay": self.settings.weight_decay}]

    def _drawn_labels(self) -> Tensor:
        """Return places of labelled rows, each at most once; all of them if few are there."""
        size, device = self.settings.batch_labels, self._pool.rows.device
        if size is None or size >= self._n_labels:
            return torch.arange(self._n_labels, device=device)
        keys = torch.rand(self._n_labels, generator=self._noise, device=device)
        return keys.topk(size).indices

    def _with_others(self, picked: Tensor) -> Tensor:
        """Return the same places and those of other rows, validation nodes' features included."""
        size, n_rows = self.settings.batch_nodes, len(self._pool.rows)
        if size == 0 or n_rows == self._n_labels:
            return picked
        others = torch.randint(
            self._n_labels, n_rows, (size,), generator=self._noise, device=picked.device
        )
        return torch.cat([picked, others])


def _gate(n_classes: int) -> float:
    r"""Return the gate that a probability of :math:`\frac{2}{C}` passes, 0.7 at most."""
    return min(1 / (n_classes - 1), 0.7) if n_classes > 1 else 0.0


def _renumbered(validation: Validation, device: torch.device) -> Validation:
    """Return the validation nodes numbered in their order."""
    nodes = torch.arange(len(validation.nodes))
    return dataclasses.replace(validation, nodes=nodes).to(device)
