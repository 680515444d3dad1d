r"""The smooth part of a graph as features, for nodes that have none of their own.

Neighbours of a node speak for it: :math:`z_i = \sum_j a_{ij} v_j`, scaled to one length, where
:math:`V = (D + \tau)^{-1/2} U` and :math:`U` spans the leading eigenvectors of
:math:`(D + \tau)^{-1/2} A (D + \tau)^{-1/2}`, those of largest magnitude. A link that was drawn by
chance or malice hardly changes them. With :math:`\tau` the mean degree, small components do not
take up the leading places.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float64
from sklearn.preprocessing import normalize
from torch import Tensor

from glnn.graph.graph_rows import GraphRows
from glnn.peers import ALONE, Partition, Peers

_MAX_COLUMNS, _NODES_PER_COLUMN = 32, 20
_N_STEPS = 30
"""Steps of the subspace iteration; similarities need the space, not its single vectors."""

_FEW = 1000
"""Rows that are looked at before all of them."""

_DEPENDENT = 1e-10
"""Directions with less than this share of the largest variance are left out."""


@dataclass(frozen=True, eq=False)
class Structure:
    """What each node of a graph says to its neighbours.

    Parameters
    ----------
    voices
        A row for each node, or those that are here.
    size
        Length of the rows of features.

    Examples
    --------
    >>> apart = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 2, format="csr")
    >>> structure, rows = Structure.of(apart)
    >>> (rows @ rows.T).round(6)[0].tolist() == [1, 1, 1, 0, 0, 0]
    True
    """

    voices: np.ndarray
    size: float = 1.0

    @classmethod
    def of(
        cls,
        block: sp.csr_matrix,
        partition: Partition | None = None,
        *,
        size: float = 1.0,
        seed: int = 0,
    ) -> tuple["Structure", np.ndarray]:
        """Find the leading directions; return them with the features of the nodes that are here."""
        partition = partition or Partition(block.shape[0], ALONE)
        peers, n_nodes = partition.peers, partition.n_nodes
        graph = GraphRows.of(block, partition, dtype=torch.float64)
        degree = graph.row_sums()
        shift = peers.all_reduce(float(degree.sum())) / n_nodes
        root = (degree + max(shift, 1e-300)).rsqrt()[:, None]
        width = min(_MAX_COLUMNS, max(2, n_nodes // _NODES_PER_COLUMN))
        start = np.random.default_rng(seed).standard_normal((n_nodes, width))
        basis = _orthonormal(torch.from_numpy(start[partition.rows]), peers)
        for _ in range(_N_STEPS):
            basis = _orthonormal(root * (graph @ (root * basis)), peers)
        voices = root * basis
        near = size * normalize((graph @ voices).numpy())
        return cls(voices.numpy(), size), near

    def rows(self, links: Any, n_new: int) -> np.ndarray:
        """Return the features of new nodes by their links; zero where there are none."""
        if links is None:
            return np.zeros((n_new, self.voices.shape[1]))
        heard = normalize(np.asarray(sp.csr_matrix(links) @ self.voices))
        return np.asarray(self.size * heard)


def says_nothing(features: Any, peers: Peers = ALONE) -> bool:
    """Whether features tell no two nodes alike: no two share a column, or all rows are equal.

    Examples
    --------
    >>> says_nothing(np.eye(4)), says_nothing(np.ones((4, 1))), says_nothing(np.eye(4)[:, :2] + 1)
    (True, True, False)
    """
    dense = None if sp.issparse(features) else np.asarray(features)
    if dense is None:
        filled = np.bincount(features.indices[features.data != 0], minlength=features.shape[1])
    else:
        filled = np.count_nonzero(dense, axis=0)
    if peers.all_reduce(filled.astype(np.float64)).max() <= 1:
        return True
    high, low = _bounds(features[:_FEW])
    if peers.all_reduce(float((high + low).any()), "max"):
        return False  # which a few rows show as a rule
    high, low = (peers.all_reduce(bound, "max") for bound in _bounds(features))
    return bool((high + low == 0).all())


def _bounds(features: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest value of each column, and the largest negated one."""
    bounds = (features.max(0), -features.min(0))
    dense = (bound.toarray().ravel() if sp.issparse(bound) else bound for bound in bounds)
    high, low = (np.asarray(bound, dtype=np.float64) for bound in dense)
    return high, low


def _orthonormal(z: Float64[Tensor, "n k"], peers: Peers) -> Float64[Tensor, "n k"]:
    """Return an orthonormal basis of the columns' span; columns that depend on others are zero."""
    gram = peers.all_reduce(z.T @ z)
    values, vectors = torch.linalg.eigh(gram)
    kept = values > _DEPENDENT * values[-1].clamp_min(1e-300)
    scale = torch.where(kept, values.clamp_min(1e-300).rsqrt(), 0.0)
    basis: Tensor = z @ (vectors * scale)
    return basis
