r"""What conjugate gradients are given to solve a Newton system in few steps.

The system is :math:`H = \operatorname{diag}(1/2w) + T T^*/(2\gamma)` over the active pairs. Its
diagonal serves row sums and loops. The channel energies are strongly tied to each other and to the
row sums: there the two blocks

.. math:: \begin{pmatrix} R & B \\ B^\top & E \end{pmatrix}

are solved together, with :math:`R` replaced by the diagonal matrix :math:`\bar R \succeq R` of
twice its degrees, so that the Schur complement :math:`E - B^\top \bar R^{-1} B` stays positive.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from glnn.solver.energies import ChannelsOnPairs
from glnn.solver.penalties import OnPairs, RowSums

Apply = Callable[[np.ndarray], np.ndarray]
_WIDEST = 512  # channels up to which the dense Schur complement pays


def preconditioner(
    maps: list[OnPairs], slices: list[slice], inverse: np.ndarray, scale: float
) -> Apply:
    r"""Return an approximate inverse of the Newton matrix.

    Parameters
    ----------
    maps, slices
        The penalties on the active pairs, and where each one's part of a vector lies.
    inverse
        The entries :math:`1/(2w)`.
    scale
        :math:`1/(2\gamma)`.
    """
    diagonal = inverse + scale * np.concatenate([on_pairs.squares() for on_pairs in maps])
    rows = next((k for k, m in enumerate(maps) if isinstance(m.penalty, RowSums)), None)
    channels = next((k for k, m in enumerate(maps) if _is_small(m)), None)
    if channels is None or rows is None:
        return lambda residual: residual / diagonal
    parts = (slices[rows], slices[channels])
    energies = maps[channels]
    assert isinstance(energies, ChannelsOnPairs)  # _is_small has looked
    blocks = _blocks(maps[rows], energies, (inverse[parts[0]], inverse[parts[1]]), scale)
    return _Schur(diagonal, parts, blocks)


def _is_small(on_pairs: OnPairs) -> bool:
    return isinstance(on_pairs, ChannelsOnPairs) and on_pairs.products.shape[1] <= _WIDEST


class _Schur:
    """Row sums and channel energies solved together, the rest by the diagonal."""

    def __init__(
        self, diagonal: np.ndarray, parts: tuple[slice, slice], blocks: tuple[np.ndarray, ...]
    ) -> None:
        self.diagonal = diagonal
        self.rows, self.channels = parts
        self.row_block, self.coupling, energy = blocks
        schur = energy - self.coupling.T @ (self.coupling / self.row_block[:, None])
        self.factor = scipy.linalg.cho_factor(schur)

    def __call__(self, residual: np.ndarray) -> np.ndarray:
        result = residual / self.diagonal
        on_rows = residual[self.rows] / self.row_block
        energy = scipy.linalg.cho_solve(
            self.factor, residual[self.channels] - self.coupling.T @ on_rows
        )
        result[self.channels] = energy
        result[self.rows] = on_rows - (self.coupling @ energy) / self.row_block
        return np.asarray(result)


def _blocks(
    rows: OnPairs, channels: ChannelsOnPairs, inverse: tuple[np.ndarray, np.ndarray], scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return :math:`\bar R` (its diagonal), :math:`B` and :math:`E`."""
    pairs, products = rows.pairs, channels.products
    row_block = inverse[0] + 2 * scale * rows.squares()
    half = pairs.counts / 2  # a loop is counted from both of its ends
    order = np.arange(len(pairs))
    entries = (np.tile(half, 2), (np.concatenate([pairs.i, pairs.j]), np.tile(order, 2)))
    incidence = sp.csr_matrix(entries, shape=(pairs.n_nodes, len(pairs)))
    coupling = scale * _dense(incidence @ products)
    weighted = sp.diags(pairs.counts) @ products
    energy = scale * _dense(products.T @ weighted)
    energy[np.diag_indices_from(energy)] += inverse[1]
    return row_block, coupling, energy


def _dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
