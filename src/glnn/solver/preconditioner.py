r"""What conjugate gradients are given to solve a Newton system in few steps.

The system is :math:`H = \operatorname{diag}(1/2w) + T T^*/(2\gamma)` over the active pairs. Its
diagonal serves most maps. Those with few dual numbers may be strongly tied to each other and to
a map like the row sums: there the two blocks

.. math:: \begin{pmatrix} R & B \\ B^\top & E \end{pmatrix}

are solved together, with :math:`R` replaced by a diagonal matrix :math:`\bar R \succeq R`, so that
the Schur complement :math:`E - B^\top \bar R^{-1} B` stays positive. A map says itself whether it
can give its rows of :math:`E` and :math:`B` (``columns``), and whether it has such a
:math:`\bar R` (``bound``).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from glnn.solver.dual import WorkingProblem

Apply = Callable[[Tensor], Tensor]
_AT_ONCE = 2**23  # entries of columns that are looked at together
_MOST = 2**26  # entries of the coupling of both blocks


def preconditioner(working: WorkingProblem, active: Tensor, scale: float) -> Apply:
    r"""Return an approximate inverse of the Newton matrix.

    Parameters
    ----------
    working
        The problem on its pairs.
    active
        One for pairs with an edge, zero for the others.
    scale
        :math:`1/(2\gamma)`.
    """
    diagonal = torch.add(working.inverse, working.squares(active), alpha=scale)
    few = [k for k, m in enumerate(working.maps) if m.columns(slice(0, 0)) is not None]
    if not few:
        return lambda residual: residual / diagonal
    bounded = [k for k, m in enumerate(working.maps) if m.bound(active) is not None]
    widths = [sum(_width(working.slices[k]) for k in part) for part in (few, bounded)]
    if widths[0] * max(widths) > _MOST:
        return lambda residual: residual / diagonal
    schur = _Schur(working, active, scale, diagonal, (few, bounded))
    return schur if schur.is_positive else lambda residual: residual / diagonal


def _width(part: slice) -> int:
    return int(part.stop - part.start)


class _Schur:
    """The small block and the bounded ones solved together, the rest by the diagonal."""

    def __init__(
        self,
        working: WorkingProblem,
        active: Tensor,
        scale: float,
        diagonal: Tensor,
        parts: tuple[list[int], list[int]],
    ) -> None:
        few, bounded = parts
        self.diagonal = diagonal
        place = torch.arange(len(diagonal), device=diagonal.device)
        self.small = torch.cat([place[working.slices[k]] for k in few])
        self.rows = torch.cat([place[:0], *(place[working.slices[k]] for k in bounded)])
        bounds = [working.maps[k].bound(active) for k in bounded]
        own = torch.cat([diagonal[:0], *(bound for bound in bounds if bound is not None)])
        self.row_block = working.inverse[self.rows] + scale * working.peers.all_reduce(own)
        energy, coupling = _blocks(working, active, few, bounded)
        self.coupling = scale * working.peers.all_reduce(coupling)
        schur = scale * working.peers.all_reduce(energy)
        schur.diagonal().add_(working.inverse[self.small])
        schur -= self.coupling.T @ (self.coupling / self.row_block[:, None])
        self.factor, failed = torch.linalg.cholesky_ex(schur)
        self.is_positive = working.peers.broadcast(float(failed)) == 0

    def __call__(self, residual: Tensor) -> Tensor:
        result = residual / self.diagonal
        on_rows = residual[self.rows] / self.row_block
        rest = residual[self.small] - self.coupling.T @ on_rows
        energy = torch.cholesky_solve(rest[:, None], self.factor)[:, 0]
        result[self.small] = energy
        result[self.rows] = on_rows - (self.coupling @ energy) / self.row_block
        return result


def _blocks(
    working: WorkingProblem, active: Tensor, few: list[int], bounded: list[int]
) -> tuple[Tensor, Tensor]:
    r"""Return this process's share of :math:`E` and :math:`B`, some pairs at a time."""
    width = sum(_width(working.slices[k]) for k in few)
    height = sum(_width(working.slices[k]) for k in bounded)
    energy = working.offsets.new_zeros(width, width)
    coupling = working.offsets.new_zeros(height, width)
    step, n_pairs = max(1, _AT_ONCE // max(1, width)), len(working.pairs)
    weight = active * working.pairs.counts
    for first in range(0, n_pairs, step):
        place = slice(first, min(first + step, n_pairs))
        given = [working.maps[k].columns(place) for k in few]
        columns = torch.cat([part for part in given if part is not None], 1)
        energy += columns.T @ (columns * weight[place, None])
        parts = [working.maps[k].coupled(active, columns, place) for k in bounded]
        coupling += torch.cat([coupling[:0], *parts])
    return energy, coupling
