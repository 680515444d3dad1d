"""Approximate nearest rows in about linear time, by k-means clusters.

Rows are grouped into small clusters, and the rows of a cluster are compared only with those of the
nearest clusters. Clusters have a fixed mean size and are compared with a fixed number of rows, so
the number of comparisons is O(N); only the assignment of rows to clusters grows faster, and it is
cheap. With several processes, the rows of each cluster are sent to one process, which fetches the
rows of the nearest clusters. The compared rows do not depend on the number of processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from glnn.distributed import Partition, Peers
from glnn.graph.pairs import ShardedRows, exchange, exchange_rows, row_owners
from glnn.graph.rows import DENSE_THRESHOLD, RowMatrix

# k-means

SAMPLE_PER_CLUSTER, KMEANS_ITERATIONS = 16, 4  # k-means runs on a sample of the rows
_PROJECTED_COLUMNS = 128  # wider rows are projected at random to this many columns
# more centres than this are searched in two steps, by groups; groups searched per point
_MAX_FLAT_CENTRES, _NEAR_GROUPS = 256, 6
_BLOCK_ENTRIES = 2**22  # entries of a block of products


def project_directions(rows: RowMatrix, generator: torch.Generator) -> Tensor:
    """Normalise the rows; wide rows are projected at random, which nearly keeps their angles."""
    if rows.n_columns <= _PROJECTED_COLUMNS:
        return functional.normalize(rows.to_dense())
    projection = torch.randn(rows.n_columns, _PROJECTED_COLUMNS, generator=generator)
    return functional.normalize(rows.matmul(projection.to(rows.device)))


def k_means(
    points: Tensor,
    n_clusters: int,
    generator: torch.Generator,
    place: tuple[int, int],
    peers: Peers,
) -> Tensor:
    """Return centres (directions) by k-means on a sample, sorted so that close ones are adjacent.

    ``place`` is the number of this process's first point and the number of points of all
    processes. Every process has the whole sample.
    """
    first, n_points = place
    n_sampled = min(n_points, SAMPLE_PER_CLUSTER * n_clusters)
    chosen = torch.randperm(n_points, generator=generator)[:n_sampled].to(points.device) - first
    here = (chosen >= 0) & (chosen < len(points))
    sample = points.new_zeros(n_sampled, points.shape[1])
    sample[here] = points[chosen[here]]
    sample = peers.all_reduce(sample)
    found = sample[:n_clusters].clone()
    for _ in range(KMEANS_ITERATIONS):
        found = _means(sample, found, nearest_centre(sample, found))
    axes = torch.linalg.eigh(found.T @ found).eigenvectors  # the last eigenvector is about the mean
    order = (found @ axes[:, -2:][:, 0]).argsort()
    return peers.broadcast(found[order].contiguous())


def nearest_centre(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest centre of each point; approximate (in two steps) for many centres."""
    if len(centres) <= _MAX_FLAT_CENTRES:
        return compare_all_centres(points, centres)
    groups = _Groups.of(centres)
    found = torch.empty(len(points), dtype=torch.int64, device=points.device)
    owner = compare_all_centres(points, groups.centres)
    for group, near in enumerate(groups.near):
        mine = torch.nonzero(owner == group)[:, 0]
        seen = torch.nonzero(torch.isin(groups.owner, near))[:, 0]
        found[mine] = seen[compare_all_centres(points[mine], centres[seen])]
    return found


def compare_all_centres(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest centre of each point by comparing with all centres."""
    step = max(1, _BLOCK_ENTRIES // len(centres))
    return torch.cat([(part @ centres.T).argmax(1) for part in torch.split(points, step)])


def nearest_centres(some: Tensor, centres: Tensor, count: int) -> Tensor:
    """Return the ``count`` nearest centres of some of the centres."""
    count, step = min(count, len(centres)), max(1, _BLOCK_ENTRIES // len(centres))
    parts = [torch.topk(part @ centres.T, count, 1).indices for part in torch.split(some, step)]
    return torch.cat(parts)


@dataclass(frozen=True, eq=False)
class _Groups:
    """About sqrt(K) groups of K centres, so that a search compares about sqrt(K) centres twice."""

    centres: Tensor  # mean direction of each group
    owner: Tensor  # group of each centre
    near: Tensor  # nearest groups of each group

    @classmethod
    def of(cls, centres: Tensor) -> "_Groups":
        first = centres[:: max(1, round(len(centres) ** 0.5))]
        groups = _means(centres, first, compare_all_centres(centres, first))
        owner = compare_all_centres(centres, groups)
        near = torch.topk(groups @ groups.T, min(_NEAR_GROUPS, len(groups)), dim=1).indices
        return cls(groups, owner, near)


def _means(points: Tensor, centres: Tensor, owner: Tensor) -> Tensor:
    """Return the mean direction of each centre's points; a centre without points stays."""
    sums = torch.zeros_like(centres).index_add_(0, owner, points)
    has_points = sums.norm(dim=1) > 0
    return torch.where(has_points[:, None], functional.normalize(sums), centres)


# Search

ROWS_PER_CLUSTER = 120  # mean size of a cluster
CLUSTERS_PER_ROW = 100  # clusters that a row is compared with, fewer if they are large
MAX_CLUSTERS = 8192

_MAX_RELATIVE_SIZE = 3  # larger clusters, relative to ROWS_PER_CLUSTER, are split


def search_clusters(signal: ShardedRows, k: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    r"""Return columns and scores of about the ``k`` rows with the largest :math:`s_i \cdot s_j`.

    Missing neighbours have the score :math:`-\infty`. Scores are exact products, but neighbours in
    distant clusters are missed. Rows of zeros are left out. The result is deterministic.
    """
    part = signal.layout
    rows = signal.with_local(signal.local.to(torch.float32)).densify(DENSE_THRESHOLD).local
    found = torch.zeros(len(rows), k, dtype=torch.int64, device=rows.device)
    score = torch.full((len(rows), k), -torch.inf, device=rows.device)
    norms = rows.square().matmul(torch.ones(rows.n_columns, 1, device=rows.device))
    nonzero = torch.nonzero(norms[:, 0] > 0).view(-1)
    counts = part.all_gather_count(len(nonzero))
    if counts.sum() < 2:
        return found, score
    rows = rows if len(nonzero) == len(rows) else rows.take(nonzero)
    clusters = Clusters.of(rows, part, counts.tolist(), seed)
    assigned = _AssignedRows.of(clusters, rows, nonzero + part.start)
    numbers, places, values = assigned.compare_rows(k)
    numbers, places, values = exchange(part, row_owners(part, numbers), numbers, places, values)
    found[numbers - part.start, : places.shape[1]] = places
    score[numbers - part.start, : values.shape[1]] = values
    return found, score


@dataclass(frozen=True, eq=False)
class Clusters:
    """An assignment of rows to clusters; positions sort the rows of all processes by cluster."""

    partition: Partition
    position: Tensor  # position of each row of this process
    starts: Tensor  # first position of each cluster, then the number of rows; on the CPU
    centres: Tensor  # direction of each cluster; parts of a split cluster share theirs

    @classmethod
    def of(cls, rows: RowMatrix, part: Partition, counts: list[int], seed: int) -> "Clusters":
        """Assign the rows to clusters; ``counts`` holds the number of rows of each process."""
        n_rows, first = sum(counts), sum(counts[: part.peers.rank])
        generator = torch.Generator().manual_seed(seed)
        points = project_directions(rows, generator)
        n_clusters = max(1, min(MAX_CLUSTERS, n_rows // ROWS_PER_CLUSTER))
        centres = k_means(points, n_clusters, generator, (first, n_rows), part.peers)
        owner = nearest_centre(points, centres)
        own = torch.bincount(owner, minlength=n_clusters)
        all_counts = torch.stack(part.peers.all_gather(own))
        sizes = all_counts.sum(0)
        before = all_counts[: part.peers.rank].sum(0) + sizes.cumsum(0) - sizes
        order = torch.argsort(owner, stable=True)
        turn = torch.arange(len(owner), device=owner.device) - (own.cumsum(0) - own)[owner[order]]
        position = torch.empty_like(owner)
        position[order] = before[owner[order]] + turn
        starts, centre = _split_large_clusters(sizes.cpu(), n_rows)
        return cls(part, position, starts, centres[centre.to(centres.device)])

    @property
    def bounds(self) -> list[int]:
        """First cluster of each process, then the number of clusters; balanced by rows."""
        size, n_clusters = self.partition.peers.size, len(self.starts) - 1
        wanted = torch.arange(1, size) * int(self.starts[-1]) // size
        return [0, *torch.searchsorted(self.starts[:-1], wanted).tolist(), n_clusters]

    def clusters_to_compare(self) -> list[list[int]]:
        """Return the clusters that each cluster of this process is compared with, itself first."""
        rank = self.partition.peers.rank
        own = slice(*self.bounds[rank : rank + 2])
        near = nearest_centres(
            self.centres[own], self.centres, CLUSTERS_PER_ROW + CLUSTERS_PER_ROW // 4
        ).cpu()
        sizes = self.starts.diff()
        most = CLUSTERS_PER_ROW * max(1, round(int(self.starts[-1]) / len(sizes)))
        counts = (sizes[near].cumsum(1) <= most).sum(1).clamp_(min=1).tolist()
        return [
            [number, *(c for c in others[:count] if c != number)]
            for number, others, count in zip(range(own.start, own.stop), near.tolist(), counts)
        ]


def _split_large_clusters(sizes: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Split large clusters; return the bounds of the parts, and the cluster of each part."""
    largest = _MAX_RELATIVE_SIZE * max(ROWS_PER_CLUSTER, n_rows // len(sizes))
    parts = torch.clamp((sizes + largest - 1) // largest, min=1)
    centre = torch.repeat_interleave(torch.arange(len(sizes)), parts)
    share = torch.arange(len(centre)) - (parts.cumsum(0) - parts)[centre]
    ends = (sizes.cumsum(0) - sizes)[centre] + (share + 1) * sizes[centre] // parts[centre]
    return torch.cat([ends.new_zeros(1), ends]), centre


@dataclass(frozen=True, eq=False)
class _AssignedRows:
    """The rows of the clusters that are assigned to this process, sorted by cluster."""

    clusters: Clusters
    rows: RowMatrix
    numbers: Tensor

    @classmethod
    def of(cls, clusters: Clusters, rows: RowMatrix, numbers: Tensor) -> "_AssignedRows":
        """Send each row to the process of its cluster."""
        part, bounds = clusters.partition, clusters.bounds
        firsts = clusters.starts[bounds].to(rows.device)
        owner = torch.searchsorted(firsts[1:-1], clusters.position, right=True)
        position, numbers = exchange(part, owner, clusters.position, numbers)
        rows = exchange_rows(part, owner, rows)
        order = position.argsort()
        return cls(clusters, rows.take(order), numbers[order])

    def compare_rows(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the numbers of the rows, and numbers and scores of their best neighbours."""
        width = min(k, int(self.clusters.starts[-1]))
        found = self.numbers.new_zeros(len(self.numbers), width)
        score = torch.full(found.shape, -torch.inf, device=found.device)
        for clusters, neighbours, pool in self._batches():
            for cluster, others in zip(clusters, neighbours):
                mine = slice(*pool.ranges[cluster])
                if mine.start == mine.stop:
                    continue
                columns = pool.places(others)
                products = pool.rows.take(columns).left_matmul(pool.rows.block(mine).to_dense())
                # the own cluster comes first, so the diagonal is each row's product with itself
                products.diagonal().fill_(-torch.inf)
                count = min(width, products.shape[1])
                best, place = torch.topk(products, count, dim=1)
                score[mine, :count] = best
                found[mine, :count] = pool.numbers[columns[place]]
        return self.numbers, found, score

    def _batches(self) -> Iterator[tuple[list[int], list[list[int]], "_FetchedRows"]]:
        """Yield some own clusters, the clusters to compare them with, and the rows of both.

        A batch is so small that it fetches no more rows than this process has itself.
        """
        part = self.clusters.partition
        bounds, neighbours = self.clusters.bounds, self.clusters.clusters_to_compare()
        first = bounds[part.peers.rank]
        batches = _make_batches(neighbours, self.clusters, len(self.numbers))
        n_batches = int(part.peers.all_reduce(float(len(batches)), "max"))
        for number in range(n_batches):
            low, high, wanted = batches[number] if number < len(batches) else (0, 0, [])
            pool = self._fetch_clusters(sorted(wanted))
            yield list(range(first + low, first + high)), neighbours[low:high], pool

    def _fetch_clusters(self, wanted: list[int]) -> "_FetchedRows":
        """Return own rows, followed by the rows of clusters of other processes."""
        clusters, peers = self.clusters, self.clusters.partition.peers
        bounds, starts = clusters.bounds, clusters.starts.tolist()
        shift = starts[bounds[peers.rank]]
        own = range(bounds[peers.rank], bounds[peers.rank + 1])
        ranges = {c: (starts[c] - shift, starts[c + 1] - shift) for c in own}
        if peers.size == 1:
            return _FetchedRows(self.rows, self.numbers, ranges)
        lists = [
            torch.tensor([c for c in wanted if bounds[q] <= c < bounds[q + 1]], dtype=torch.int64)
            for q in range(peers.size)
        ]
        requests = peers.all_to_all(lists)
        own_rows = _FetchedRows(self.rows, self.numbers, ranges)
        places = [own_rows.places(request.tolist()) for request in requests]
        owner = torch.cat([torch.full_like(place, q) for q, place in enumerate(places)])
        sent_places = torch.cat(places)
        rows = exchange_rows(clusters.partition, owner, self.rows.take(sent_places))
        (numbers,) = exchange(clusters.partition, owner, self.numbers[sent_places])
        place = len(self.rows)
        for cluster in (c for listed in lists for c in listed.tolist()):
            ranges[cluster] = (place, place + starts[cluster + 1] - starts[cluster])
            place = ranges[cluster][1]
        return _FetchedRows(
            self.rows.concatenate([rows]), torch.cat([self.numbers, numbers]), ranges
        )


@dataclass(frozen=True, eq=False)
class _FetchedRows:
    """Rows with their numbers, and the range of each cluster in them."""

    rows: RowMatrix
    numbers: Tensor
    ranges: dict[int, tuple[int, int]]

    def places(self, clusters: list[int]) -> Tensor:
        """Return the concatenated places of the rows of some clusters."""
        bounds = np.array([self.ranges[c] for c in clusters], dtype=np.int64).reshape(-1, 2)
        sizes = bounds[:, 1] - bounds[:, 0]
        firsts = bounds[:, 0] - (sizes.cumsum() - sizes)
        places = np.repeat(firsts, sizes) + np.arange(sizes.sum())
        return torch.from_numpy(places).to(self.numbers.device)


def _make_batches(
    neighbours: list[list[int]], clusters: Clusters, max_rows: int
) -> list[tuple[int, int, set[int]]]:
    """Return ranges of own clusters, each with the clusters of other processes that it needs."""
    rank, bounds, sizes = clusters.partition.peers.rank, clusters.bounds, clusters.starts.diff()
    batches, low, wanted, n_rows = [], 0, set[int](), 0
    for place, others in enumerate(neighbours):
        new = {c for c in others if not bounds[rank] <= c < bounds[rank + 1]} - wanted
        more = sum(int(sizes[c]) for c in new)
        if n_rows + more > max_rows and place > low:
            batches.append((low, place, wanted))
            low, wanted, n_rows = place, set(), 0
            new = {c for c in others if not bounds[rank] <= c < bounds[rank + 1]}
            more = sum(int(sizes[c]) for c in new)
        wanted, n_rows = wanted | new, n_rows + more
    return [*batches, (low, len(neighbours), wanted)]
