"""What the networks are fed: scaled features, edges for PyTorch Geometric, isolated randomness."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from sklearn.preprocessing import normalize
from torch import Tensor, nn

from glnn.nn.features import Features


def row_normalized(features: Any) -> Any:
    r"""Return :math:`X_{id} / \sum_e X_{ie}`, the bag-of-words scaling of Kipf and Welling.

    Rows of zeros stay zero. Where a feature is negative row sums mean nothing: then each column
    is shifted and scaled to mean 0 and variance 1 instead (scaled alone, if sparse).

    Examples
    --------
    >>> row_normalized(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    stored = features.data if sp.issparse(features) else features
    if stored.size and stored.min() < 0:
        return standardized(features)
    sums = np.asarray(features.sum(1), dtype=np.float64).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    if sp.issparse(features):
        return sp.csr_matrix(sp.diags(scale) @ features)
    return features * scale[:, None]


def standardized(features: Any) -> Any:
    """Return columns of mean 0 and variance 1; sparse columns are scaled but not shifted.

    Examples
    --------
    >>> standardized(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    if sp.issparse(features):
        mean = np.asarray(features.mean(0), dtype=np.float64).ravel()
        square = np.asarray(features.multiply(features).mean(0), dtype=np.float64).ravel()
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
        return sp.csr_matrix(features @ sp.diags(_inverse(deviation)))
    array = np.asarray(features, dtype=np.float64)
    return (array - array.mean(0)) * _inverse(array.std(0))


def unit_rows(features: Any) -> Any:
    r"""Return :math:`X_i / \|X_i\|_2`; rows of zeros stay zero.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    return normalize(features)


def scaled(features: Any) -> Any:
    """Return dense features standardised, and sparse ones with rows of length one."""
    return unit_rows(features) if sp.issparse(features) else standardized(features)


def max_abs_scaled(features: Any) -> Any:
    """Divide each column by its largest absolute value, so that words are 0 or 1.

    Examples
    --------
    >>> max_abs_scaled(np.array([[2.0, 0.0], [-4.0, 0.0]]))
    array([[ 0.5,  0. ],
           [-1. ,  0. ]])
    """
    if sp.issparse(features):
        largest = np.asarray(abs(features).max(0).todense(), dtype=np.float64).ravel()
        return sp.csr_matrix(features @ sp.diags(_inverse(largest)))
    return features * _inverse(np.abs(np.asarray(features, dtype=np.float64)).max(0))


def _inverse(deviation: np.ndarray) -> np.ndarray:
    """One over the deviation; constant columns become 0."""
    inverse = np.zeros_like(deviation)
    np.divide(1.0, deviation, out=inverse, where=deviation > 1e-12)
    return inverse


@dataclass(frozen=True)
class Edges:
    """A graph as PyTorch Geometric wants it: both directions of every edge, with weights."""

    index: Int[Tensor, "2 e"]
    weight: Float[Tensor, "e"]
    n_nodes: int

    @classmethod
    def of(cls, graph: sp.csr_matrix) -> "Edges":
        """Read the entries of a symmetric CSR matrix."""
        coo = sp.coo_matrix(graph)
        index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        weight = torch.from_numpy(coo.data.astype(np.float32))
        return cls(index, weight, graph.shape[0])


class InputMap(nn.Module):
    r"""The first map of a network, :math:`X W`, with :math:`X` kept sparse.

    The layers of PyTorch Geometric take dense features. Since they are linear in their input
    before the first activation, :math:`P(X)W = P(XW)`: this module multiplies, and the layer
    behind it only passes messages, its own map fixed to the identity.
    """

    def __init__(self, n_in: int, n_out: int, n_blocks: int = 1) -> None:
        super().__init__()
        blocks = [nn.init.xavier_uniform_(torch.empty(n_in, n_out)) for _ in range(n_blocks)]
        self.weight = nn.Parameter(torch.cat(blocks, 1))

    def forward(self, x: Features) -> Float[Tensor, "n h"]:
        """Return the mapped features of every node."""
        return x @ self.weight


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed torch's global generator inside the block, and leave it as it was afterwards.

    Layers of PyTorch Geometric draw their first parameters and their dropout from that
    generator and accept no other.

    Examples
    --------
    >>> before = torch.get_rng_state()
    >>> with isolated_rng(0):
    ...     draw = torch.rand(1)
    >>> bool((before == torch.get_rng_state()).all())
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def draw_seed(generator: torch.Generator) -> int:
    """Draw a fresh seed from a generator."""
    return int(torch.randint(2**62, (1,), generator=generator))
