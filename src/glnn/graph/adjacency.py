"""Graphs as linear operators on signals, and the dense storage of a weighted graph.

:class:`glnn.graph.pairs.SparseAdjacency` is the sparse storage.
"""

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor


class GraphOperator(ABC):
    """A linear operator on signals over the nodes of a graph."""

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


class DenseAdjacency(GraphOperator):
    """A graph stored as a dense matrix, which need not be symmetric."""

    def __init__(self, matrix: Float[Tensor, "n n"]) -> None:
        self._matrix = matrix

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._matrix @ x

    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Return the weights at these rows and columns."""
        return self._matrix[rows, columns]

    def to_dense(self) -> Float[Tensor, "n n"]:
        """Return the matrix."""
        return self._matrix

    def row_sums(self) -> Float[Tensor, "n"]:
        r"""Return :math:`r = A 1`."""
        return self._matrix.sum(1)

    def trace(self) -> Float[Tensor, ""]:
        r"""Return :math:`\operatorname{tr}(A)`."""
        return self._matrix.diagonal().sum()
