"""Directions of clusters of rows: k-means on a sample, and the nearest centre of every row."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from glnn.graph.row_base import RowMatrix
from glnn.peers import Peers

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


def centres(
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
