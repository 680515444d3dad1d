"""Rows spread over processes: each has a block, and the blocks of the others come by."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.graph.row_base import DEVICE_BYTES, RowMatrix
from glnn.graph.row_matrix import DenseRows, row_matrix
from glnn.peers import ALONE, Partition


@dataclass(frozen=True, eq=False)
class SpreadRows:
    """The rows of a matrix that this process has, and who has which others.

    Examples
    --------
    >>> [rank for rank, block in spread(torch.eye(3)).blocks()]
    [0]
    """

    own: RowMatrix
    partition: Partition

    def with_own(self, own: RowMatrix) -> "SpreadRows":
        """Return other rows, spread alike."""
        return SpreadRows(own, self.partition)

    def blocks(self) -> Iterator[tuple[int, RowMatrix]]:
        """Yield everyone's rows with the number of the process, own ones first.

        All processes must go through all blocks, in step: each passes on what it got.
        """
        part, block = self.partition, self.own
        size, rank = part.peers.size, part.peers.rank
        yield rank, block
        if size == 1:
            return
        lengths = [part.counts(len(tensor)) for tensor in block.tensors()]
        for shift in range(1, size):
            source = (rank - shift) % size
            received = tuple(
                part.peers.ring_shift(sent, sent.new_empty(int(counts[source]), *sent.shape[1:]))
                for sent, counts in zip(block.tensors(), lengths)
            )
            block = block.like(received)
            yield source, block

    def dense_from(self, share: float) -> "SpreadRows":
        """Return the same rows, dense where so large a share of their entries is stored.

        All processes decide alike. A device that is not the host is also given dense rows if
        they fit there.
        """
        own, n_nodes = self.own, self.partition.n_nodes
        n_stored = self.partition.peers.all_reduce(len(own) * own.row_length)
        n_bytes = n_nodes * own.n_columns * own.dtype.itemsize
        fits = own.device.type != "cpu" and n_bytes <= DEVICE_BYTES
        if fits or n_stored >= share * n_nodes * own.n_columns:
            return self.with_own(DenseRows(own.dense()))
        return self

    def summed(self, own: Tensor) -> Tensor:
        """Return the sum of everyone's parts."""
        return self.partition.peers.all_reduce(own)


def spread(matrix: object, partition: Partition | None = None) -> SpreadRows:
    """Return a matrix (array, tensor, CSR or rows) of which a block is here; alone, all of it."""
    if isinstance(matrix, SpreadRows):
        return matrix
    own = matrix if isinstance(matrix, RowMatrix) else row_matrix(matrix)
    return SpreadRows(own, partition or Partition(len(own), ALONE))


def owners(partition: Partition, nodes: Tensor) -> Tensor:
    """Return the process that has each node's row."""
    bounds = torch.as_tensor(partition.bounds[1:], device=nodes.device)
    return torch.searchsorted(bounds, nodes, right=True)


def pair_owners(partition: Partition, i: Tensor, j: Tensor) -> Tensor:
    """Return the process that has each pair, given in either order."""
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    return owners(partition, torch.where((low + high) % 2 == 0, low, high))


def sweep_owners(partition: Partition, i: Tensor, j: Tensor) -> Tensor:
    """Return the process that meets each pair when all blocks have come by once."""
    size = partition.peers.size
    first, second = owners(partition, i), owners(partition, j)
    return torch.where(_meets(first, second, size), first, second)


def meets(rank: int, source: int, size: int) -> bool:
    """Say whether a process compares its rows with those of another, or the other does."""
    return bool(_meets(torch.tensor(rank), torch.tensor(source), size))


def _meets(rank: Tensor, source: Tensor, size: int) -> Tensor:
    shift = (rank - source) % size
    return (2 * shift < size) | ((2 * shift == size) & (rank < source))


def sent(partition: Partition, owner: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    """Give each entry of some lists to its owner; return what came, in the order of ranks."""
    peers = partition.peers
    if peers.size == 1:
        return parts
    order = torch.argsort(owner, stable=True)
    counts = torch.bincount(owner, minlength=peers.size).tolist()
    arrived = []
    for part in parts:
        lists = list(torch.split(part.index_select(0, order), counts))
        arrived.append(torch.cat(peers.all_to_all(lists)))
    return tuple(arrived)


def sent_rows(partition: Partition, owner: Tensor, rows: RowMatrix) -> RowMatrix:
    """Give each row to its owner; return the rows that came, in the order of ranks."""
    peers = partition.peers
    if peers.size == 1:
        return rows
    lists = [
        rows.take(torch.nonzero(owner == rank).view(-1)).tensors() for rank in range(peers.size)
    ]
    columns = [peers.all_to_all(list(column)) for column in zip(*lists)]
    blocks = [rows.like(tensors) for tensors in zip(*columns)]
    return blocks[0].joined(blocks[1:])
