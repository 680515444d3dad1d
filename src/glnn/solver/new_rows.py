r"""The problem of one new row: edges of a new node to a learned graph that does not change.

The sum of the terms' :class:`~glnn.objective.base.RowCoefficients` for a new node has the dual

.. math:: \min_y \sum_j \frac{\max(0, n_j - (y V)_j)^2}{e}
          + \frac{\max(0, n_0 - y\cdot v_0)^2}{\ell}
          + \sum_m \Big(\frac{y_m^2}{\kappa_m} + 2 s_m y_m\Big), \qquad
          a_j = \max(0, n_j - (yV)_j)/e ,

with one number :math:`y_m` for each coupling :math:`m`. It is convex, once differentiable and
piecewise quadratic. Damped Newton steps solve it for a block of nodes at a time; the nodes are
independent of each other. In the readings ``channel`` and ``frobenius`` the energies are linearised
at the learned graph's dual point.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from glnn._utils import check_features
from glnn.exceptions import InputError, ProblemError
from glnn.graph.prior import PriorGraph
from glnn.graph.rows import BLOCK_BYTES, RowMatrix, as_row_matrix
from glnn.objective.base import RowCoefficients
from glnn.solver.signals import FeatureSignal, Matrix

_BLOCK_ROWS = 64  # blocks are padded to this height: a row's bits must not depend on other rows
_MAX_NEWTON = 200
_MAX_HALVINGS = 40


class NewLinks(NamedTuple):
    """Edges of new nodes (CSR, new x N) and the weights of their loops."""

    links: sp.csr_matrix
    loops: np.ndarray


@dataclass(frozen=True, eq=False)
class NewRowProblem:
    """Everything that the edges of new nodes depend on."""

    transform: FeatureSignal  # turns features into signal rows
    # Signal rows of the training nodes; columns after the features (predictions) are unknown for
    # new nodes and taken as zero.
    signal: Matrix
    share: RowCoefficients  # the sum of the terms' coefficients for a new row
    prior: PriorGraph | None = None  # computes the prior graph's row; None without a given graph
    # With the support "candidates", a new node may have edges only to its links and to this many
    # most similar nodes.
    n_candidates: int | None = None

    def connect(self, features: Any, links: Any = None) -> NewLinks:
        """Return the optimal edges of each new node; see :meth:`LearnedGraph.connect`."""
        features = check_features("new_X", features)
        n_new, n_nodes = features.shape[0], self.signal.shape[0]
        if features.shape[1] != self.transform.n_features:
            raise InputError(
                f"new_X must have the {self.transform.n_features} columns of the training "
                f"features, got {features.shape[1]}."
            )
        if self.share.edge_curvature <= 0 or self.share.loop_curvature <= 0:
            raise ProblemError(
                "a term with curvature must return from new_row the curvature that it gives to the "
                "links of a new node: without any they have no unique minimum."
            )
        prior, prior_loops = self._prior_rows(links, n_new)
        signal = self.transform.transform(features)
        known = as_row_matrix(self.signal, dtype=torch.float64)
        height = max(1, min(_BLOCK_ROWS, BLOCK_BYTES // (32 * n_nodes)))
        parts, loops = [], []
        for first in range(0, n_new, height):
            place = slice(first, first + height)
            new = _pad(signal[place], height, self.signal.shape[1])
            row = _pad(prior[place], height, n_nodes)
            loop = _pad(prior_loops[place, None], height, 1)[:, 0]
            edges, loop = _solve_block(self._make_block(known, new, row, loop))
            n_rows = min(height, n_new - first)
            parts.append(sp.csr_matrix(edges[:n_rows].numpy()))
            loops.append(loop[:n_rows].numpy())
        return NewLinks(sp.csr_matrix(sp.vstack(parts, format="csr")), np.concatenate(loops))

    def _prior_rows(self, links: Any, n_new: int) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return the rows and loops of the prior graph for the new nodes."""
        if self.prior is not None:
            return self.prior.rows(links, n_new)
        if links is not None:
            raise InputError(
                "links must be None for a graph learned without a given one. "
                "Learn with graph=... to use links of new nodes."
            )
        return sp.csr_matrix((n_new, self.signal.shape[0])), np.zeros(n_new)

    def _make_block(
        self, known: RowMatrix, new: Tensor, prior: Tensor, loop: Tensor
    ) -> "_RowBlock":
        """Return the dual problem of a block of new nodes."""
        share, width = self.share, self.transform.n_features
        similar = known.left_matmul(new)
        edges = share.prior * prior + share.edges
        loops = share.loop + share.prior * loop / 2
        for metric in share.metrics:
            left = new * metric if metric.ndim < 2 else new @ metric
            edges = edges + (similar * metric if metric.ndim == 0 else known.left_matmul(left))
            loops = loops + (left[:, :width] * new[:, :width]).sum(1) / 2
        if self.n_candidates is not None:  # only links and the most similar nodes
            best, place = torch.topk(similar, min(self.n_candidates, similar.shape[1]), dim=1)
            is_open = (best > 0) | (prior.gather(1, place) > 0)
            edges[~(prior > 0).scatter_(1, place, is_open)] = -torch.inf
        return _RowBlock(edges, loops, share)


class _RowBlock:
    r"""The dual of a block of new nodes; the last column of :math:`V` belongs to the loop."""

    def __init__(self, edges: Tensor, loops: Tensor, share: RowCoefficients) -> None:
        n_nodes = edges.shape[1]
        self.numerators = torch.cat([edges, loops[:, None]], 1)
        self.curvature = edges.new_full((n_nodes + 1,), float(share.edge_curvature))
        self.curvature[-1] = share.loop_curvature
        self.vectors = edges.new_empty(len(share.couplings), n_nodes + 1)
        for vector, coupling in zip(self.vectors, share.couplings):
            vector[:-1], vector[-1] = coupling.edges, coupling.loop
        self.inverse = edges.new_tensor([1 / c.weight for c in share.couplings])
        self.target = edges.new_tensor([c.target for c in share.couplings])

    def links(self, y: Tensor) -> Tensor:
        """Return the links at a dual point; summed per row, so a row's bits stay the same."""
        coupled = (y[:, :, None] * self.vectors).sum(1)
        return (self.numerators - coupled).clamp_(min=0) / self.curvature

    def value(self, y: Tensor, links: Tensor) -> Tensor:
        """Return the dual value of each node."""
        squares = (links.square() * self.curvature).sum(1)
        return squares + (y.square() * self.inverse).sum(1) + 2 * (y * self.target).sum(1)

    def step(self, y: Tensor, links: Tensor) -> tuple[Tensor, Tensor]:
        """Return the Newton step and the slope along it."""
        gradient = y * self.inverse + self.target - (links[:, None] * self.vectors).sum(2)
        active = (links > 0).double() / self.curvature
        outer = self.vectors[:, None] * self.vectors[None]
        hessian = (active[:, None, None] * outer).sum(3) + torch.diag(self.inverse)
        step = -torch.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        return step, 2 * (gradient * step).sum(1)


def _solve_block(block: _RowBlock) -> tuple[Tensor, Tensor]:
    """Return edges and loops; a node is done when its step is as small as rounding."""
    n_rows = len(block.numerators)
    y = (-block.target / block.inverse).expand(n_rows, -1).clone()  # of a node without links
    is_open = torch.ones(n_rows, dtype=torch.bool)
    links = block.links(y)
    for _ in range(_MAX_NEWTON):
        step, slope = block.step(y, links)
        is_open &= (step.abs() > 1e-15 * (1.0 + y.abs())).any(1)
        if not is_open.any():
            break
        step = torch.where(is_open[:, None], step, 0.0)
        y, links, moved = _line_search(block, y, links, step, slope)
        is_open &= moved
    return links[:, :-1], links[:, -1]


def _line_search(
    block: _RowBlock, y: Tensor, links: Tensor, step: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Halve each node's step until its value decreases; also return which nodes moved."""
    value = block.value(y, links)
    length = torch.ones(len(y), dtype=torch.float64)
    slack = 1e-14 * value.abs()
    for _ in range(_MAX_HALVINGS):
        trial = y + length[:, None] * step
        found = block.links(trial)
        fits = block.value(trial, found) <= value + 1e-4 * length * slope + slack
        if fits.all():
            break
        length = torch.where(fits, length, length / 2)
    moved = fits[:, None]
    return torch.where(moved, trial, y), torch.where(moved, found, links), fits


def _pad(rows: Any, height: int, width: int) -> Tensor:
    """Return dense rows, padded with zeros to the given height and width."""
    given = as_row_matrix(rows, dtype=torch.float64).to_dense()
    return functional.pad(given, (0, width - given.shape[1], 0, height - len(given)))
