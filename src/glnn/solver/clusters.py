"""Nearest rows in time linear in their number: rows are compared inside and between clusters.

Rows are put into small clusters, and the rows of a cluster are compared with those of its nearest
clusters alone. A cluster has a fixed mean size and looks at a fixed number of rows, so the
comparisons grow as N; only finding each row's cluster grows faster, and costs little. Over several
processes each one compares the rows of some clusters, which are sent to it, with those of near
clusters, which it fetches; which rows are compared does not depend on the number of processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from glnn.distributed import Partition, Peers
from glnn.graph.pairs import SpreadRows, owners, sent, sent_rows
from glnn.graph.rows import DENSE_FROM, RowMatrix

# --- centres: Directions of clusters of rows: k-means on a sample, and the nearest centre of every

SAMPLE, TURNS = 16, 4
"""Rows of the sample a cluster, and turns of k-means on it."""

_WIDTH = 128  # columns that clusters are found on; wider rows are projected at random
_FLAT, _NEAR_GROUPS = 256, 6  # centres that are compared one by one; groups seen beyond that
_AT_ONCE = 2**22  # entries of a block of products


def directions(rows: RowMatrix, generator: torch.Generator) -> Tensor:
    """Return the rows' directions in few columns; angles survive a random projection."""
    if rows.n_columns <= _WIDTH:
        return functional.normalize(rows.dense())
    turn = torch.randn(rows.n_columns, _WIDTH, generator=generator)
    return functional.normalize(rows.times(turn.to(rows.device)))


def k_means(
    points: Tensor,
    n_clusters: int,
    generator: torch.Generator,
    place: tuple[int, int],
    peers: Peers,
) -> Tensor:
    """Return directions found by k-means on a sample, near ones beside each other.

    ``place`` says where this process's points lie among those of all, and how many those are. The
    sample is drawn by these numbers, and every process has all of it.
    """
    first, n_points = place
    n_sampled = min(n_points, SAMPLE * n_clusters)
    chosen = torch.randperm(n_points, generator=generator)[:n_sampled].to(points.device) - first
    here = (chosen >= 0) & (chosen < len(points))
    sample = points.new_zeros(n_sampled, points.shape[1])
    sample[here] = points[chosen[here]]
    sample = peers.all_reduce(sample)
    found = sample[:n_clusters].clone()
    for _ in range(TURNS):
        found = _means(sample, found, nearest_centre(sample, found))
    axes = torch.linalg.eigh(found.T @ found).eigenvectors  # the last one is about their mean
    order = (found @ axes[:, -2:][:, 0]).argsort()
    return peers.broadcast(found[order].contiguous())


def nearest_centre(points: Tensor, centres: Tensor) -> Tensor:
    """Return about the nearest centre of each point; many centres are looked up in two steps."""
    if len(centres) <= _FLAT:
        return nearest_of_all(points, centres)
    groups = _Groups.of(centres)
    found = torch.empty(len(points), dtype=torch.int64, device=points.device)
    owner = nearest_of_all(points, groups.centres)
    for group, near in enumerate(groups.near):
        mine = torch.nonzero(owner == group)[:, 0]
        seen = torch.nonzero(torch.isin(groups.owner, near))[:, 0]
        found[mine] = seen[nearest_of_all(points[mine], centres[seen])]
    return found


def nearest_of_all(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest centre of each point, all of them compared."""
    step = max(1, _AT_ONCE // len(centres))
    return torch.cat([(part @ centres.T).argmax(1) for part in torch.split(points, step)])


def nearest_centres(some: Tensor, centres: Tensor, count: int) -> Tensor:
    """Return the nearest centres of some centres, a block at a time."""
    count, step = min(count, len(centres)), max(1, _AT_ONCE // len(centres))
    parts = [torch.topk(part @ centres.T, count, 1).indices for part in torch.split(some, step)]
    return torch.cat(parts)


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
        groups = _means(centres, first, nearest_of_all(centres, first))
        owner = nearest_of_all(centres, groups)
        near = torch.topk(groups @ groups.T, min(_NEAR_GROUPS, len(groups)), dim=1).indices
        return cls(groups, owner, near)


def _means(points: Tensor, centres: Tensor, owner: Tensor) -> Tensor:
    """Return the mean directions of each centre's points; one that lost all stays where it was."""
    sums = torch.zeros_like(centres).index_add_(0, owner, points)
    taken = sums.norm(dim=1) > 0
    return torch.where(taken[:, None], functional.normalize(sums), centres)


# --- clusters: Nearest rows in time linear in their number: rows are compared inside and between c

ROWS = 120
"""Mean rows of a cluster."""

SEEN = 100
"""Mean clusters whose rows a row is compared with: crowded ones are fewer, sparse ones more."""

MOST_CLUSTERS = 8192

_LARGEST = 3  # a cluster of more than this many times ROWS is cut into parts


def clustered_nearest(signal: SpreadRows, k: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    r"""Return columns and scores of about the ``k`` rows with the largest :math:`s_i \cdot s_j`.

    Places that were not filled have the score :math:`-\infty`. Products are exact; which rows are
    compared is not: a row's neighbours in far clusters are missed. Rows of zeros take no part.
    The answer depends on nothing but the arguments.
    """
    part = signal.partition
    rows = signal.with_own(signal.own.to(torch.float32)).dense_from(DENSE_FROM).own
    found = torch.zeros(len(rows), k, dtype=torch.int64, device=rows.device)
    score = torch.full((len(rows), k), -torch.inf, device=rows.device)
    taking = torch.nonzero(rows.lengths() > 0).view(-1)
    counts = part.counts(len(taking))
    if counts.sum() < 2:
        return found, score
    rows = rows if len(taking) == len(rows) else rows.take(taking)
    clusters = Clusters.of(rows, part, counts.tolist(), seed)
    held = _Held.of(clusters, rows, taking + part.start)
    numbers, places, values = held.compared(k)
    numbers, places, values = sent(part, owners(part, numbers), numbers, places, values)
    found[numbers - part.start, : places.shape[1]] = places
    score[numbers - part.start, : values.shape[1]] = values
    return found, score


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows put into clusters, which lie one after the other.

    Parameters
    ----------
    partition
        The processes.
    position
        Where each row of this process lies in the order of clusters.
    starts
        Where each cluster begins, and one past the last; on the host.
    centres
        The direction of each cluster; parts of a crowded one have the same.
    """

    partition: Partition
    position: Tensor
    starts: Tensor
    centres: Tensor

    @classmethod
    def of(cls, rows: RowMatrix, part: Partition, counts: list[int], seed: int) -> "Clusters":
        """Put the rows into clusters; ``counts`` says how many rows each process gives."""
        n_rows, first = sum(counts), sum(counts[: part.peers.rank])
        generator = torch.Generator().manual_seed(seed)
        points = directions(rows, generator)
        n_clusters = max(1, min(MOST_CLUSTERS, n_rows // ROWS))
        centres = k_means(points, n_clusters, generator, (first, n_rows), part.peers)
        owner = nearest_centre(points, centres)
        own = torch.bincount(owner, minlength=n_clusters)
        everyone = torch.stack(part.peers.all_gather(own))
        sizes = everyone.sum(0)
        before = everyone[: part.peers.rank].sum(0) + sizes.cumsum(0) - sizes
        order = torch.argsort(owner, stable=True)
        turn = torch.arange(len(owner), device=owner.device) - (own.cumsum(0) - own)[owner[order]]
        position = torch.empty_like(owner)
        position[order] = before[owner[order]] + turn
        starts, centre = _cut(sizes.cpu(), n_rows)
        return cls(part, position, starts, centres[centre.to(centres.device)])

    @property
    def bounds(self) -> list[int]:
        """First cluster of each process, and their number: about as many rows for each."""
        size, n_clusters = self.partition.peers.size, len(self.starts) - 1
        wanted = torch.arange(1, size) * int(self.starts[-1]) // size
        return [0, *torch.searchsorted(self.starts[:-1], wanted).tolist(), n_clusters]

    def seen(self) -> list[list[int]]:
        """Return for each cluster of this process those it looks at, itself first."""
        rank = self.partition.peers.rank
        own = slice(*self.bounds[rank : rank + 2])
        near = nearest_centres(self.centres[own], self.centres, SEEN + SEEN // 4).cpu()
        sizes = self.starts.diff()
        most = SEEN * max(1, round(int(self.starts[-1]) / len(sizes)))
        counts = (sizes[near].cumsum(1) <= most).sum(1).clamp_(min=1).tolist()
        return [
            [number, *(c for c in others[:count] if c != number)]
            for number, others, count in zip(range(own.start, own.stop), near.tolist(), counts)
        ]


def _cut(sizes: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Cut crowded clusters into parts; return where the parts begin, and each one's cluster."""
    largest = _LARGEST * max(ROWS, n_rows // len(sizes))
    parts = torch.clamp((sizes + largest - 1) // largest, min=1)
    centre = torch.repeat_interleave(torch.arange(len(sizes)), parts)
    share = torch.arange(len(centre)) - (parts.cumsum(0) - parts)[centre]
    ends = (sizes.cumsum(0) - sizes)[centre] + (share + 1) * sizes[centre] // parts[centre]
    return torch.cat([ends.new_zeros(1), ends]), centre


@dataclass(frozen=True, eq=False)
class _Held:
    """The rows of the clusters that this process compares, in their order."""

    clusters: Clusters
    rows: RowMatrix
    numbers: Tensor

    @classmethod
    def of(cls, clusters: Clusters, rows: RowMatrix, numbers: Tensor) -> "_Held":
        """Send each row to the process that compares its cluster."""
        part, bounds = clusters.partition, clusters.bounds
        firsts = clusters.starts[bounds].to(rows.device)
        owner = torch.searchsorted(firsts[1:-1], clusters.position, right=True)
        position, numbers = sent(part, owner, clusters.position, numbers)
        rows = sent_rows(part, owner, rows)
        order = position.argsort()
        return cls(clusters, rows.take(order), numbers[order])

    def compared(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return numbers of rows, and numbers and products of the best others of each."""
        width = min(k, int(self.clusters.starts[-1]))
        found = self.numbers.new_zeros(len(self.numbers), width)
        score = torch.full(found.shape, -torch.inf, device=found.device)
        for clusters, seen, there in self._batches():
            for cluster, others in zip(clusters, seen):
                mine = slice(*there.ranges[cluster])
                if mine.start == mine.stop:
                    continue
                columns = there.places(others)
                products = there.rows.take(columns).met_by(there.rows.block(mine).dense())
                products.diagonal().fill_(-torch.inf)  # a cluster sees itself first
                count = min(width, products.shape[1])
                best, place = torch.topk(products, count, dim=1)
                score[mine, :count] = best
                found[mine, :count] = there.numbers[columns[place]]
        return self.numbers, found, score

    def _batches(self) -> Iterator[tuple[list[int], list[list[int]], "_There"]]:
        """Yield some own clusters, those they look at, and all rows of both.

        Own rows come first. So few clusters are taken at a time that what is fetched for them is
        no more than what is held anyway.
        """
        part = self.clusters.partition
        bounds, seen = self.clusters.bounds, self.clusters.seen()
        first = bounds[part.peers.rank]
        batches = _cut_up(seen, self.clusters, len(self.numbers))
        n_batches = int(part.peers.all_reduce(float(len(batches)), "max"))
        for number in range(n_batches):
            low, high, wanted = batches[number] if number < len(batches) else (0, 0, [])
            there = self._fetched(sorted(wanted))
            yield list(range(first + low, first + high)), seen[low:high], there

    def _fetched(self, wanted: list[int]) -> "_There":
        """Return own rows and those of other processes' clusters."""
        clusters, peers = self.clusters, self.clusters.partition.peers
        bounds, starts = clusters.bounds, clusters.starts.tolist()
        shift = starts[bounds[peers.rank]]
        own = range(bounds[peers.rank], bounds[peers.rank + 1])
        ranges = {c: (starts[c] - shift, starts[c + 1] - shift) for c in own}
        if peers.size == 1:
            return _There(self.rows, self.numbers, ranges)
        lists = [
            torch.tensor([c for c in wanted if bounds[q] <= c < bounds[q + 1]], dtype=torch.int64)
            for q in range(peers.size)
        ]
        asked = peers.all_to_all(lists)
        held = _There(self.rows, self.numbers, ranges)
        places = [held.places(want.tolist()) for want in asked]
        owner = torch.cat([torch.full_like(place, q) for q, place in enumerate(places)])
        given = torch.cat(places)
        rows = sent_rows(clusters.partition, owner, self.rows.take(given))
        (numbers,) = sent(clusters.partition, owner, self.numbers[given])
        place = len(self.rows)
        for cluster in (c for listed in lists for c in listed.tolist()):
            ranges[cluster] = (place, place + starts[cluster + 1] - starts[cluster])
            place = ranges[cluster][1]
        return _There(self.rows.joined([rows]), torch.cat([self.numbers, numbers]), ranges)


@dataclass(frozen=True, eq=False)
class _There:
    """Rows with their numbers, and where those of each cluster lie."""

    rows: RowMatrix
    numbers: Tensor
    ranges: dict[int, tuple[int, int]]

    def places(self, clusters: list[int]) -> Tensor:
        """Return the places of the rows of some clusters, one after the other."""
        bounds = np.array([self.ranges[c] for c in clusters], dtype=np.int64).reshape(-1, 2)
        sizes = bounds[:, 1] - bounds[:, 0]
        firsts = bounds[:, 0] - (sizes.cumsum() - sizes)
        places = np.repeat(firsts, sizes) + np.arange(sizes.sum())
        return torch.from_numpy(places).to(self.numbers.device)


def _cut_up(
    seen: list[list[int]], clusters: Clusters, most: int
) -> list[tuple[int, int, set[int]]]:
    """Return ranges of clusters, and which clusters of other processes each range looks at."""
    rank, bounds, sizes = clusters.partition.peers.rank, clusters.bounds, clusters.starts.diff()
    batches, low, wanted, n_rows = [], 0, set[int](), 0
    for place, others in enumerate(seen):
        new = {c for c in others if not bounds[rank] <= c < bounds[rank + 1]} - wanted
        more = sum(int(sizes[c]) for c in new)
        if n_rows + more > most and place > low:
            batches.append((low, place, wanted))
            low, wanted, n_rows = place, set(), 0
            new = {c for c in others if not bounds[rank] <= c < bounds[rank + 1]}
            more = sum(int(sizes[c]) for c in new)
        wanted, n_rows = wanted | new, n_rows + more
    return [*batches, (low, len(seen), wanted)]
