"""Approximate nearest rows in about linear time, by k-means clusters.

Rows are grouped into small clusters, and the rows of a cluster are compared only with those of the
nearest clusters. Clusters have a fixed mean size and are compared with a fixed number of rows, so
the number of comparisons is O(N); only the assignment of rows to clusters grows faster, and it is
cheap. With several processes, the rows of each cluster are sent to one process; those of the other
processes arrive by ring exchange. The compared rows do not depend on the number of processes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from glnn.distributed import Partition
from glnn.graph.pairs import ShardedRows, exchange_rows
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
    points: Tensor, n_clusters: int, generator: torch.Generator, part: Partition, counts: list[int]
) -> Tensor:
    """Return centres (directions) by k-means on a sample, sorted so that close ones are adjacent.

    ``counts`` holds the number of points of each process. Every process has the whole sample.
    """
    n_points, first = sum(counts), sum(counts[: part.peers.rank])
    n_sampled = min(n_points, SAMPLE_PER_CLUSTER * n_clusters)
    chosen = torch.randperm(n_points, generator=generator)[:n_sampled].to(points.device) - first
    here = (chosen >= 0) & (chosen < len(points))
    sample = points.new_zeros(n_sampled, points.shape[1])
    sample[here] = points[chosen[here]]
    sample = part.sum(sample)
    found = sample[:n_clusters].clone()
    for _ in range(KMEANS_ITERATIONS):
        found = _means(sample, found, nearest_centre(sample, found))
    axes = torch.linalg.eigh(found.T @ found).eigenvectors  # the last eigenvector is about the mean
    order = (found @ axes[:, -2:][:, 0]).argsort()
    return part.agree(found[order].contiguous())


def nearest_centre(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest centre of each point; approximate for many centres.

    K of them are then searched by about sqrt(K) groups, so that a point is compared with about
    sqrt(K) directions twice.
    """
    if len(centres) <= _MAX_FLAT_CENTRES:
        return compare_all_centres(points, centres)
    first = centres[:: round(len(centres) ** 0.5)]
    groups = _means(centres, first, compare_all_centres(centres, first))
    group_of_centre = compare_all_centres(centres, groups)
    near_groups = torch.topk(groups @ groups.T, min(_NEAR_GROUPS, len(groups)), dim=1).indices
    found = torch.empty(len(points), dtype=torch.int64, device=points.device)
    group_of_point = compare_all_centres(points, groups)
    for group, near in enumerate(near_groups):
        mine = torch.nonzero(group_of_point == group)[:, 0]
        seen = torch.nonzero(torch.isin(group_of_centre, near))[:, 0]
        found[mine] = seen[compare_all_centres(points[mine], centres[seen])]
    return found


def compare_all_centres(points: Tensor, centres: Tensor) -> Tensor:
    """Return the nearest centre of each point by comparing with all centres."""
    step = max(1, _BLOCK_ENTRIES // len(centres))
    return torch.cat([(part @ centres.T).argmax(1) for part in torch.split(points, step)])


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


def search_clusters(signal: ShardedRows, k: int) -> tuple[Tensor, Tensor]:
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
    counts = part.all_gather(np.array([len(nonzero)]))
    if counts.sum() < 2:
        return found, score
    rows = rows if len(nonzero) == len(rows) else rows.take(nonzero)
    clusters = Clusters.of(rows, part, counts.tolist())
    numbers, places, values = clusters.compare_rows(rows, nonzero + part.start, k)
    numbers, places, values = part.exchange(part.owners(numbers), numbers, places, values)
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
    def of(cls, rows: RowMatrix, part: Partition, counts: list[int]) -> "Clusters":
        """Assign the rows to clusters; ``counts`` holds the number of rows of each process."""
        n_rows, generator = sum(counts), torch.Generator().manual_seed(0)
        points = project_directions(rows, generator)
        n_clusters = max(1, min(MAX_CLUSTERS, n_rows // ROWS_PER_CLUSTER))
        centres = k_means(points, n_clusters, generator, part, counts)
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

    @cached_property
    def bounds(self) -> list[int]:
        """First cluster of each process, then the number of clusters; balanced by rows."""
        size, n_clusters = self.partition.peers.size, len(self.starts) - 1
        wanted = torch.arange(1, size) * int(self.starts[-1]) // size
        return [0, *torch.searchsorted(self.starts[:-1], wanted).tolist(), n_clusters]

    def clusters_to_compare(self, own: range) -> list[list[int]]:
        """Return the clusters that each of these clusters is compared with, itself first."""
        centres, sizes = self.centres, self.starts.diff()
        count = min(CLUSTERS_PER_ROW + CLUSTERS_PER_ROW // 4, len(centres))
        parts = torch.split(centres[own.start : own.stop], max(1, _BLOCK_ENTRIES // len(centres)))
        near = torch.cat([torch.topk(part @ centres.T, count, 1).indices for part in parts]).cpu()
        most = CLUSTERS_PER_ROW * max(1, round(int(self.starts[-1]) / len(sizes)))
        counts = (sizes[near].cumsum(1) <= most).sum(1).clamp_(min=1).tolist()
        return [
            [number, *(c for c in others[:count] if c != number)]
            for number, others, count in zip(own, near.tolist(), counts)
        ]

    def compare_rows(
        self, rows: RowMatrix, numbers: Tensor, k: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Send each row to the process of its cluster and compare it with those of near clusters.

        Returns the numbers of the rows that came, and numbers and scores of their neighbours.
        """
        part, bounds, starts = self.partition, self.bounds, self.starts.tolist()
        rank, firsts = part.peers.rank, self.starts[bounds].to(rows.device)
        owner = torch.searchsorted(firsts[1:-1], self.position, right=True)
        position, numbers = part.exchange(owner, self.position, numbers)
        order = position.argsort()
        rows, numbers = exchange_rows(part, owner, rows).take(order), numbers[order]
        every = part.all_gather(numbers)  # the row at each position
        own = range(bounds[rank], bounds[rank + 1])
        neighbours = self.clusters_to_compare(own)
        found = numbers.new_zeros(len(numbers), min(k, len(every)))
        score = torch.full(found.shape, -torch.inf, device=found.device)
        for source, block in ShardedRows(rows, part).blocks():
            for cluster, others in zip(own, neighbours):
                here = [c for c in others if bounds[source] <= c < bounds[source + 1]]
                place = slice(*(starts[c] - starts[own.start] for c in (cluster, cluster + 1)))
                if place.start == place.stop or not here:
                    continue
                ranges = [torch.arange(starts[c], starts[c + 1]) for c in here]
                positions = torch.cat(ranges).to(found.device)
                columns = block.take(positions - firsts[source])
                products = columns.left_matmul(rows.block(place).to_dense())
                if source == rank:  # the own cluster comes first: products of rows with themselves
                    products.diagonal().fill_(-torch.inf)
                best, at = torch.topk(products, min(found.shape[1], products.shape[1]), dim=1)
                both = torch.cat([found[place], every[positions[at]]], 1)
                merged = torch.cat([score[place], best], 1).topk(found.shape[1], dim=1)
                score[place], found[place] = merged.values, both.gather(1, merged.indices)
        return numbers, found, score


def _split_large_clusters(sizes: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Split large clusters; return the bounds of the parts, and the cluster of each part."""
    largest = _MAX_RELATIVE_SIZE * max(ROWS_PER_CLUSTER, n_rows // len(sizes))
    parts = torch.clamp((sizes + largest - 1) // largest, min=1)
    centre = torch.repeat_interleave(torch.arange(len(sizes)), parts)
    share = torch.arange(len(centre)) - (parts.cumsum(0) - parts)[centre]
    ends = (sizes.cumsum(0) - sizes)[centre] + (share + 1) * sizes[centre] // parts[centre]
    return torch.cat([ends.new_zeros(1), ends]), centre
