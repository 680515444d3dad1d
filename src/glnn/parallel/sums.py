"""Sums over all nodes with the bits of a single process.

A sum of rounded numbers depends on its order, training can blow a difference in the last bit up
to a visible one (a unit that is just off here and just on there moves a weight by a whole step of
the optimiser), and a later round then chooses other pairs. So sums over nodes are not made of the
processes' partial sums. Instead columns change hands: a process gets a few columns of all rows,
and sums them in the order in which a single process does.
"""

import itertools

import torch
from torch import Tensor

from glnn.peers import Partition
from glnn.peers.partition import GROUP

_NARROWEST = 16  # columns; matrix products take them so many at a time


class Sums:
    """Sums over the nodes of all processes.

    Parameters
    ----------
    partition
        Which rows are here.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition, self._peers = partition, partition.peers

    def columns(self, width: int) -> list[slice]:
        """Return each process's share of so many columns; some may have none."""
        size = self._peers.size
        n_shares = max(1, min(size, width // _NARROWEST))
        ends = [width // _NARROWEST * k // n_shares * _NARROWEST for k in range(n_shares)]
        ends += [width] * (size + 1 - n_shares)
        return [slice(first, last) for first, last in itertools.pairwise(ends)]

    def share(self, width: int) -> slice:
        """Return the share of this process."""
        return self.columns(width)[self._peers.rank]

    def turned(self, x: Tensor) -> Tensor:
        """Return this process's columns of all rows; rows are the first dimension."""
        shares = self.columns(x.shape[-1])
        return self._exchanged([x[..., share] for share in shares])

    def whole(self, x: Tensor) -> Tensor:
        """Return all rows of a tensor that is narrow enough; rows are the first dimension."""
        return self._exchanged([x] * self._peers.size)

    def _exchanged(self, parts: list[Tensor]) -> Tensor:
        """Give part ``q`` to process ``q``; return what came, in the order of rows."""
        rank, size, bounds = self._peers.rank, self._peers.size, self._partition.bounds
        mine = parts[rank]
        result = mine.new_empty(self._partition.n_nodes, *mine.shape[1:])
        result[self._partition.rows] = mine
        for shift in range(1, size):
            to, source = (rank + shift) % size, (rank - shift) % size
            place = result[bounds[source] : bounds[source + 1]]
            self._peers.ring_shift(parts[to].contiguous(), place, shift)
        return result

    def product(self, x: Tensor, g: Tensor) -> Tensor:
        r"""Return :math:`X^\top G` over the rows of all processes; rows are the last but one."""
        shares = self.columns(x.shape[-1])
        own = self.turned(_rows_first(x))
        result = x.new_zeros(x.shape[-1], g.shape[-1])
        mine = result[shares[self._peers.rank]]
        flat = _rows_back(own, x.ndim).flatten(0, -2)
        for share in self.columns(g.shape[-1]):
            part = self.whole(_rows_first(g)[..., share].contiguous())
            if flat.shape[1] and part.shape[-1]:
                mine[:, share] = flat.T @ _rows_back(part, g.ndim).flatten(0, -2)
        return self.everyones(result)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        r"""Return :math:`X W` of the rows that are here; rows are the last dimension but one.

        A single process multiplies all views at once, one below the other. Rows of zeros bring
        those of each view here to the place in their group of rows that they have there.
        """
        n_nodes, here = self._partition.n_nodes, x.shape[-2]
        if x.ndim < 3 or n_nodes % GROUP == 0:
            return x @ weight
        blocks, places, n_rows = [], [], 0
        for number, view in enumerate(x.reshape(-1, here, x.shape[-1])):
            n_before = (number * n_nodes - n_rows) % GROUP
            blocks += [view.new_zeros(n_before, view.shape[1]), view]
            places.append(slice(n_rows + n_before, n_rows + n_before + here))
            n_rows += n_before + here
        if self._peers.rank < self._peers.size - 1:  # the last rows of all are not here
            blocks.append(x.new_zeros(-n_rows % GROUP, x.shape[-1]))
        product = torch.cat(blocks) @ weight
        return torch.stack([product[place] for place in places]).reshape(*x.shape[:-1], -1)

    def everyones(self, parts: Tensor) -> Tensor:
        """Return a tensor of which each process has filled its part, zeros elsewhere."""
        return self._peers.all_reduce_(parts)

    def over_rows(self, g: Tensor) -> Tensor:
        """Return the sum of a gradient over everything but its columns, the last dimension.

        The order of additions follows the layout in memory, which is kept.
        """
        width, columns = g.shape[-1], g.ndim - 1
        share = self.share(width)
        order = sorted(range(g.ndim), key=g.stride, reverse=True)
        own = _rows_back(self.turned(_rows_first(g)), g.ndim).permute(order).contiguous()
        result = g.new_zeros(width)
        if order[-1] == columns:
            result[share] = _column_sums(own, share, width)
        elif own.numel():
            place = order.index(columns)
            result[share] = own.sum([dim for dim in range(g.ndim) if dim != place])
        return self.everyones(result)


def _rows_first(x: Tensor) -> Tensor:
    return x.movedim(-2, 0)


def _rows_back(x: Tensor, n_dimensions: int) -> Tensor:
    return x.movedim(0, n_dimensions - 2)


def _column_sums(x: Tensor, share: slice, width: int) -> Tensor:
    """Return the sums of some columns as if all ``width`` columns were there.

    The order of additions depends on the number of columns and on a column's place among them.
    So the rows are read as rows of full width that overlap; what the other columns hold is not
    looked at.
    """
    n_columns = x.shape[-1]
    if n_columns == 0:
        return x.new_empty(0)
    n_rows = x.numel() // n_columns
    padding = (share.start, width - share.start - n_columns)
    flat = torch.nn.functional.pad(x.reshape(-1), padding)
    overlapping = flat.as_strided((n_rows, width), (n_columns, 1))
    return overlapping.sum(0)[share]
