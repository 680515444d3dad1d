r"""The one-row problem: edges of a new node to a learned graph that stays as it is.

For one new node with row :math:`a_j`, loop :math:`a_0` and row sum
:math:`\rho = a_0 + \sum_j a_j`, the objective of the enlarged matrix changes by

.. math:: 2\gamma\sum_j a_j^2 - 2\sum_j b_j a_j + \gamma a_0^2 - b_0 a_0
          + \lambda_3\Big[(\rho-1)^2 + \sum_j (r_j + a_j - 1)^2\Big] + \lambda_4 (t + a_0)^2,

with :math:`r` and :math:`t` the row sums and the trace of the learned graph. So

.. math:: a_j (2\gamma + \lambda_3) &= \max(0,\; b_j - \lambda_3(r_j - 2) - \lambda_3\rho) \\
          a_0 (2\gamma + 2\lambda_4) &= \max(0,\; b_0 + 2\lambda_3 - 2\lambda_4 t - 2\lambda_3\rho),

and one decreasing convex equation in :math:`\rho` is left, solved by Newton's method from the
left, which ends after finitely many steps. Each node's answer is independent of the others.

In the readings ``channel`` and ``frobenius`` the similarity in :math:`b` is that of the learned
graph's dual point: the energies are linearised there.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_features
from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.solver.implicit import BLOCK_BYTES, Matrix
from glnn.solver.prior_rows import PriorRows
from glnn.solver.signals import FeatureSignal

_MOST_ROWS = 64  # blocks are padded to one height, so that a row's bits never depend on others
_MAX_NEWTON = 200


class NewRows(NamedTuple):
    """Edges of new nodes (CSR, new x N) and the weights of their loops."""

    links: sp.csr_matrix
    loops: np.ndarray


class _Block(NamedTuple):
    """Numerators at a row sum of zero: the edges' (rows x N) and the loops'."""

    edges: np.ndarray
    loops: np.ndarray


@dataclass(frozen=True, eq=False)
class RowProblem:
    r"""What a new node's row depends on.

    Parameters
    ----------
    transform
        How features become signal rows.
    signal
        Signal rows of the training nodes; columns beyond the features (predictions) are unknown
        for new nodes and taken as zero.
    metric
        Similarity is :math:`s_{new}^\top M s_j`: a number, one weight a column, or a matrix.
    row_sums, trace
        Of the learned graph.
    weights
        The weights of the terms.
    prior
        How links become a row of the prior graph; ``None`` if there was no given graph.
    has_loops
        Whether nodes may have loops.
    n_candidates
        With the support ``candidates``: only the links and so many similar nodes may be joined.
    """

    transform: FeatureSignal
    signal: Matrix
    metric: np.ndarray
    row_sums: np.ndarray
    trace: float
    weights: Weights
    prior: PriorRows | None = None
    has_loops: bool = True
    n_candidates: int | None = None

    def connect(self, features: Any, links: Any = None) -> NewRows:
        """Return the best edges of each new node, a block of nodes at a time."""
        features = check_features("new_X", features)
        n_new, n_nodes = features.shape[0], self.signal.shape[0]
        self._check_width(features.shape[1])
        prior, prior_loops = self._prior_of(links, n_new)
        signal = self.transform.transform(features)
        height = max(1, min(_MOST_ROWS, BLOCK_BYTES // (32 * n_nodes)))
        parts, loops = [], []
        for first in range(0, n_new, height):
            rows = slice(first, first + height)
            block = self._numerators(
                _padded(signal[rows], height), _padded(prior[rows], height), prior_loops[rows]
            )
            edges, loop = self._solve(block)
            n_rows = min(height, n_new - first)
            parts.append(sp.csr_matrix(edges[:n_rows]))
            loops.append(loop[:n_rows])
        return NewRows(sp.csr_matrix(sp.vstack(parts, format="csr")), np.concatenate(loops))

    def _check_width(self, width: int) -> None:
        expected = self.transform.n_features
        if width != expected:
            raise InputError(
                f"new_X must have the {expected} columns of the training features, got {width}."
            )

    def _prior_of(self, links: Any, n_new: int) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return the rows and loops of the prior graph for the new nodes."""
        n_nodes = self.signal.shape[0]
        if links is not None and self.prior is None:
            raise InputError(
                "links must be None for a graph learned without a given one. "
                "Learn with graph=... to let links of new nodes count."
            )
        if self.prior is None:
            return sp.csr_matrix((n_new, n_nodes)), np.zeros(n_new)
        return self.prior.rows(links, n_new)

    def _numerators(self, signal: Matrix, prior: sp.csr_matrix, prior_loops: np.ndarray) -> _Block:
        r"""Return :math:`b_j - \lambda_3(r_j - 2)` and :math:`b_0 + 2\lambda_3 - 2\lambda_4 t`."""
        w = self.weights
        closeness = 0.0 if self.prior is None else w.closeness
        similar = _products(signal, self.signal)
        left = self._weighted(signal)
        edges = similar * self.metric if self.metric.ndim == 0 else _products(left, self.signal)
        edges -= w.sparsity + w.row_sums * (self.row_sums - 2.0)
        edges += 2 * closeness * prior.toarray()
        if self.n_candidates is not None:
            edges[~self._may_join(similar, prior)] = -np.inf
        if not self.has_loops:
            return _Block(edges, np.full(len(edges), -np.inf))
        width = self.transform.n_features
        own = _row_products(left[:, :width], signal)
        loops = own - w.sparsity + 2 * w.row_sums - 2 * w.loops * self.trace
        loops[: len(prior_loops)] += 2 * closeness * prior_loops
        return _Block(edges, loops)

    def _weighted(self, signal: Matrix) -> Matrix:
        """Return the signal rows times the metric, over the columns of the features."""
        width = self.transform.n_features
        if self.metric.ndim == 0:
            return signal * float(self.metric)
        if self.metric.ndim == 1:
            weight = self.metric[:width]
            return (
                sp.csr_matrix(signal @ sp.diags(weight))
                if sp.issparse(signal)
                else (signal * weight)
            )
        return np.asarray(signal @ self.metric[:width])

    def _may_join(self, similar: np.ndarray, prior: sp.csr_matrix) -> np.ndarray:
        """Say which training nodes are links or among the most similar ones."""
        allowed: np.ndarray = prior.toarray() > 0
        k = min(self.n_candidates or 0, similar.shape[1])
        if k:
            best = np.argpartition(-similar, k - 1, axis=1)[:, :k]
            rows = np.arange(len(similar))[:, None]
            allowed[rows, best] |= similar[rows, best] > 0
        return allowed

    def _solve(self, block: _Block) -> tuple[np.ndarray, np.ndarray]:
        """Return edges and loops at the row sum that agrees with them."""
        w = self.weights
        closeness = 0.0 if self.prior is None else w.closeness
        curvature = 2 * (closeness + w.ridge)
        edge_scale, loop_scale = curvature + w.row_sums, curvature + 2 * w.loops
        total = _row_sums(block, w.row_sums, edge_scale, loop_scale)
        edges = np.maximum(block.edges - w.row_sums * total[:, None], 0.0) / edge_scale
        return edges, np.maximum(block.loops - 2 * w.row_sums * total, 0.0) / loop_scale


def _row_sums(block: _Block, weight: float, edge_scale: float, loop_scale: float) -> np.ndarray:
    r"""Solve for the row sums.

    .. math:: \rho = \sum_j \max(0, n_j - \lambda_3\rho)/s + \max(0, n_0-2\lambda_3\rho)/s_0

    Newton's steps from zero never pass the root; a row is left alone once its step is rounding.
    """
    total = np.zeros(len(block.loops))
    open_rows = np.arange(len(total))
    for _ in range(_MAX_NEWTON):
        rho = total[open_rows]
        edges = block.edges[open_rows] - weight * rho[:, None]
        loops = block.loops[open_rows] - 2 * weight * rho
        excess = np.maximum(edges, 0.0).sum(1) / edge_scale - rho
        excess += np.maximum(loops, 0.0) / loop_scale
        slope = 1.0 + weight * np.count_nonzero(edges > 0, axis=1) / edge_scale
        slope += 2 * weight * (loops > 0) / loop_scale
        step = excess / slope
        total[open_rows] = rho + step
        open_rows = open_rows[step > 1e-15 * (1.0 + rho)]
        if not open_rows.size:
            break
    return total


def _padded(rows: Matrix, height: int) -> Matrix:
    """Return the rows with rows of zeros below, ``height`` in all."""
    if sp.issparse(rows):
        padded = rows.copy()
        padded.resize((height, rows.shape[1]))
        return padded
    return np.vstack([rows, np.zeros((height - len(rows), rows.shape[1]))])


def _products(new: Matrix, signal: Matrix) -> np.ndarray:
    """Return new x N inner products; missing columns of ``new`` count as zero."""
    part = signal[:, : new.shape[1]] if new.shape[1] < signal.shape[1] else signal
    if not sp.issparse(new):
        return np.ascontiguousarray((part @ new.T).T)
    if not sp.issparse(part):
        return np.asarray(new @ part.T)
    return np.asarray((new @ part.T).toarray())


def _row_products(left: Matrix, right: Matrix) -> np.ndarray:
    """Return the inner product of each row of one with the same row of the other."""
    if sp.issparse(left):
        return np.asarray(left.multiply(right).sum(1)).ravel()
    product = right.multiply(left).sum(1) if sp.issparse(right) else (left * right).sum(1)
    return np.asarray(product).ravel()
