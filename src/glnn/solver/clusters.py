"""Nearest rows in time linear in their number: rows are compared inside and between clusters.

Rows are put into small clusters, and the rows of a cluster are compared with those of its nearest
clusters alone. A cluster has a fixed mean size and looks at a fixed number of rows, so the
comparisons grow as N; only finding each row's cluster grows faster, and costs little.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from glnn.solver.device_clusters import nearest_in_clusters
from glnn.solver.implicit import Matrix, dense_rows, is_thin, on_device

ROWS = 120
"""Mean rows of a cluster."""

SEEN = 100
"""Mean clusters whose rows a row is compared with: crowded ones are fewer, sparse ones more."""

MOST_CLUSTERS = 8192
SAMPLE, TURNS = 16, 4
"""Rows of the sample a cluster, and turns of k-means on it."""

_LARGEST = 3  # a cluster of more than so many times ROWS is cut into parts
_WIDTH = 128  # columns that clusters are found on; wider rows are projected at random
_FLAT, _NEAR_GROUPS = 256, 6  # centres that are compared one by one; groups seen beyond that
_AT_ONCE = 2**22  # entries of a block of products

Range = tuple[int, int]


def clustered_nearest(
    signal: Matrix, k: int, *, device: str = "cpu", seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return columns and scores of about the ``k`` rows with the largest :math:`s_i \cdot s_j`.

    Places that were not filled have the score :math:`-\infty`. Products are exact; which rows are
    compared is not: a row's neighbours in far clusters are missed. Rows of zeros take no part.
    The answer depends on nothing but the arguments.
    """
    n_rows = signal.shape[0]
    found = np.zeros((n_rows, k), dtype=np.int64)
    score = np.full((n_rows, k), -np.inf, dtype=np.float32)
    taking_part = np.flatnonzero(_lengths(signal))
    if taking_part.size < 2:
        return found, score
    rows = signal.astype(np.float32)
    rows = rows if taking_part.size == n_rows else rows[taking_part]
    if device != "cpu":
        found[taking_part], score[taking_part] = _on_device(rows, taking_part, k, device, seed)
        return found, score
    lists = _Lists.of(rows, device, seed)
    numbers = taking_part[lists.order]
    rows = _Rows(rows[lists.order])
    for own, seen in lists.visits():
        columns = np.concatenate([np.arange(a, b) for a, b in seen])
        products = rows.times(own, seen)
        products.diagonal().fill_(-torch.inf)  # a cluster sees itself first
        width = min(k, products.shape[1])
        best, place = torch.topk(products, width, dim=1)
        mine = numbers[own[0] : own[1]]
        score[mine, :width] = best.numpy()
        found[mine, :width] = numbers[columns[place.numpy()]]
    return found, score


def _on_device(
    rows: Matrix, numbers: np.ndarray, k: int, device: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers found and their scores of rows that have these numbers."""
    resident = on_device(rows, device)
    lists = _Lists.of(resident, device, seed)
    order = torch.from_numpy(lists.order).to(device)
    starts, near = torch.from_numpy(lists.starts), torch.from_numpy(lists.looked_at())
    place, value = nearest_in_clusters(resident[order], starts, near, k)
    place = torch.from_numpy(numbers).to(device)[order[place]]
    back = order.argsort()
    return place[back].cpu().numpy(), value[back].cpu().numpy()


@dataclass(frozen=True, eq=False)
class _Lists:
    """Rows in the order of their clusters, where each begins, and which others it looks at."""

    order: np.ndarray
    starts: np.ndarray
    near: np.ndarray

    @classmethod
    def of(cls, rows: Matrix | Tensor, device: str, seed: int) -> "_Lists":
        generator = torch.Generator().manual_seed(seed)
        points = _points(rows, device, generator)
        n_clusters = max(1, min(MOST_CLUSTERS, len(points) // ROWS))
        centres = _centres(points, n_clusters, generator)
        owner = _nearest_centre(points, centres).cpu().numpy()
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=n_clusters)
        largest = _LARGEST * max(ROWS, len(points) // n_clusters)
        parts = np.maximum(1, -(-sizes // largest))  # a crowded cluster is cut into parts
        centre = np.repeat(np.arange(n_clusters), parts)
        share = np.arange(centre.size) - np.repeat(np.cumsum(parts) - parts, parts)
        ends = np.cumsum(sizes)[centre] - sizes[centre]
        ends = ends + (share + 1) * sizes[centre] // parts[centre]
        starts = np.concatenate([[0], ends])
        return cls(order, starts, _near(centres[torch.from_numpy(centre).to(device)]))

    def visits(self) -> Iterator[tuple[Range, list[Range]]]:
        """Yield for each cluster its rows and the rows it is compared with, as ranges."""
        ranges = [(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:])]
        for own, others, count in zip(ranges, self.near, self._n_seen()):
            if own[0] < own[1]:
                yield own, [own, *(ranges[c] for c in others[:count] if ranges[c] != own)]

    def looked_at(self) -> np.ndarray:
        """Return the same as numbers of clusters, a row each, filled up with its own number."""
        own = np.arange(len(self.near))[:, None]
        return np.where(np.arange(self.near.shape[1]) < self._n_seen()[:, None], self.near, own)

    def _n_seen(self) -> np.ndarray:
        """Return how many of its nearest clusters each one looks at, for about as many rows."""
        sizes = np.diff(self.starts)
        most = SEEN * max(1, round(len(self.order) / sizes.size))
        counts = (np.cumsum(sizes[self.near], axis=1) <= most).sum(1)
        return np.asarray(np.maximum(counts, 1))


class _Rows:
    """Signal rows, dense or thin ones in CSR, and their products range by range."""

    def __init__(self, rows: Matrix) -> None:
        self.thin = sp.csr_matrix(rows) if is_thin(rows) else None
        self.dense = None if self.thin is not None else dense_rows(rows, "cpu")
        self._buffers: dict[str, Tensor] = {}

    def times(self, own: Range, seen: list[Range]) -> Tensor:
        """Return the products of the rows of one range with those of several, side by side."""
        if self.thin is not None:
            others = sp.vstack([self.thin[a:b] for a, b in seen], format="csr")
            return torch.from_numpy((self.thin[own[0] : own[1]] @ others.T).toarray())
        assert self.dense is not None
        left, parts = self.dense[own[0] : own[1]], [self.dense[a:b] for a, b in seen]
        n_columns = sum(len(part) for part in parts)
        columns = self._buffer("columns", n_columns, left.shape[1])
        torch.cat(parts, out=columns)
        return torch.mm(left, columns.T, out=self._buffer("products", len(left), n_columns))

    def _buffer(self, name: str, n_rows: int, n_columns: int) -> Tensor:
        """Return room that is used again: blocks of ever new sizes would scatter the memory."""
        assert self.dense is not None
        size, held = n_rows * n_columns, self._buffers.get(name)
        if held is None or held.numel() < size:
            held = self._buffers[name] = self.dense.new_empty(size + size // 2)
        return held[:size].view(n_rows, n_columns)


def _lengths(signal: Matrix) -> np.ndarray:
    """Return the squared length of each row."""
    if sp.issparse(signal):
        return np.asarray(signal.multiply(signal).sum(1)).ravel()
    return np.asarray(np.einsum("nd,nd->n", signal, signal))


def _points(rows: Matrix | Tensor, device: str, generator: torch.Generator) -> Tensor:
    """Return the rows' directions in few columns; angles survive a random projection."""
    width = rows.shape[1]
    if width > _WIDTH:
        turn = torch.randn(width, _WIDTH, generator=generator)
        rows = rows @ (turn.to(device) if isinstance(rows, Tensor) else turn.numpy())
    return functional.normalize(rows if isinstance(rows, Tensor) else dense_rows(rows, device))


def _centres(points: Tensor, n_clusters: int, generator: torch.Generator) -> Tensor:
    """Return directions found by k-means on a sample."""
    n_sampled = min(len(points), SAMPLE * n_clusters)
    chosen = torch.randperm(len(points), generator=generator)[:n_sampled]
    sample = points[chosen.to(points.device)]
    centres = sample[:n_clusters].clone()
    for _ in range(TURNS):
        centres = _means(sample, centres, _nearest_centre(sample, centres))
    return centres


def _nearest_centre(points: Tensor, centres: Tensor) -> Tensor:
    """Return about the nearest centre of each point; many centres are looked up in two steps."""
    if len(centres) <= _FLAT:
        return _nearest_of_all(points, centres)
    groups = _Groups.of(centres)
    found = torch.empty(len(points), dtype=torch.int64, device=points.device)
    owner = _nearest_of_all(points, groups.centres)
    for group, near in enumerate(groups.near):
        mine = torch.nonzero(owner == group)[:, 0]
        seen = torch.nonzero(torch.isin(groups.owner, near))[:, 0]
        found[mine] = seen[_nearest_of_all(points[mine], centres[seen])]
    return found


def _nearest_of_all(points: Tensor, centres: Tensor) -> Tensor:
    step = max(1, _AT_ONCE // len(centres))
    return torch.cat([(part @ centres.T).argmax(1) for part in torch.split(points, step)])


@dataclass(frozen=True, eq=False)
class _Groups:
    """Centres put into about as many groups as a group has centres, and each one's neighbours.

    So a point meets the root of their number twice or so, not all of them.
    """

    centres: Tensor
    owner: Tensor
    near: Tensor

    @classmethod
    def of(cls, centres: Tensor) -> "_Groups":
        first = centres[:: max(1, round(len(centres) ** 0.5))]
        groups = _means(centres, first, _nearest_of_all(centres, first))
        owner = _nearest_of_all(centres, groups)
        near = torch.topk(groups @ groups.T, min(_NEAR_GROUPS, len(groups)), dim=1).indices
        return cls(groups, owner, near)


def _means(points: Tensor, centres: Tensor, owner: Tensor) -> Tensor:
    """Return the mean directions of each centre's points; one that lost all stays where it was."""
    sums = torch.zeros_like(centres).index_add_(0, owner, points)
    taken = sums.norm(dim=1) > 0
    return torch.where(taken[:, None], functional.normalize(sums), centres)


def _near(centres: Tensor) -> np.ndarray:
    """Return the nearest centres of each centre, a block at a time."""
    count, step = min(SEEN + SEEN // 4, len(centres)), max(1, _AT_ONCE // len(centres))
    parts = [
        torch.topk(part @ centres.T, count, dim=1).indices for part in torch.split(centres, step)
    ]
    near: np.ndarray = torch.cat(parts).cpu().numpy()
    return near
