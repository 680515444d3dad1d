"""Weighted graphs: the interface that the objective and the networks use, and dense storage.

:class:`glnn.graph.pairs.SparseAdjacency` is the sparse storage.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor


class GraphOperator(ABC):
    """A linear operator on signals over the nodes of a graph."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        r"""Return :math:`A x`."""

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:
        r"""Return :math:`\sum_{k=0}^{K} A^k x` by Horner's rule, :math:`z \leftarrow A z + x`."""
        z = x
        for _ in range(n_steps):
            z = self @ z
            z = z + x if z.requires_grad else z.add_(x)
        return z

    def sum_of_powers_transposed(
        self, x: Float[Tensor, "n d"], n_steps: int
    ) -> Float[Tensor, "n d"]:
        r"""Return :math:`\sum_{k=0}^{K} (A^\top)^k x`; the same for a symmetric matrix."""
        return self.sum_of_powers(x, n_steps)


class Adjacency(GraphOperator):
    r"""A weighted graph on ``n`` nodes, :math:`A \in \mathbb{R}^{n \times n}`.

    A subclass lists its stored entries (:meth:`ends`, :meth:`values`). Entry ``p`` of the list
    stands for :meth:`counts` ``[p]`` entries of the full matrix: 2 for a pair that is stored once,
    1 for a loop or if the full matrix is stored.
    """

    @abstractmethod
    def ends(self) -> tuple[Int[Tensor, "p"], Int[Tensor, "p"]]:
        """Return the row and the column of each stored entry."""

    @abstractmethod
    def values(self) -> Float[Tensor, "p"]:
        """Weight of each stored entry."""

    @abstractmethod
    def counts(self) -> Float[Tensor, "p"]:
        """Return how many entries of the full matrix each stored entry stands for."""

    @abstractmethod
    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Return the weights at these rows and columns, zero where nothing is stored."""

    @abstractmethod
    def to_dense(self) -> Float[Tensor, "n n"]:
        """Return the full matrix, for tests and small graphs."""

    @abstractmethod
    def asymmetry(self) -> Float[Tensor, ""]:
        r"""Return :math:`\|A^\top - A\|_F^2`."""

    @abstractmethod
    def row_sums(self) -> Float[Tensor, "n"]:
        r"""Return :math:`r = A 1`."""

    @abstractmethod
    def trace(self) -> Float[Tensor, ""]:
        r"""Return :math:`\operatorname{tr}(A)`."""


class DenseAdjacency(Adjacency):
    """A graph stored as a dense matrix."""

    def __init__(self, matrix: Float[Tensor, "n n"]) -> None:
        self._matrix = matrix

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._matrix.shape[0]

    def ends(self) -> tuple[Int[Tensor, "p"], Int[Tensor, "p"]]:  # noqa: D102
        nodes = torch.arange(self.n_nodes, device=self._matrix.device)
        return nodes.repeat_interleave(self.n_nodes), nodes.repeat(self.n_nodes)

    def values(self) -> Float[Tensor, "p"]:  # noqa: D102
        return self._matrix.reshape(-1)

    def counts(self) -> Float[Tensor, "p"]:  # noqa: D102
        return torch.ones_like(self.values())

    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:  # noqa: D102
        return self._matrix[rows, columns]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._matrix @ x

    def to_dense(self) -> Float[Tensor, "n n"]:  # noqa: D102
        return self._matrix

    def asymmetry(self) -> Float[Tensor, ""]:  # noqa: D102
        return (self._matrix.T - self._matrix).square().sum()

    def row_sums(self) -> Float[Tensor, "n"]:  # noqa: D102
        return self._matrix.sum(1)

    def trace(self) -> Float[Tensor, ""]:  # noqa: D102
        return self._matrix.diagonal().sum()
