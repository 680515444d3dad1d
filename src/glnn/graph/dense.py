"""All n x n entries of a graph: the oracle of the tests and the preset ``literal``."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.graph.base import Adjacency


class DenseAdjacency(Adjacency):
    """A graph stored as its full matrix.

    Examples
    --------
    >>> DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).row_sums()
    tensor([1., 1.])
    """

    def __init__(self, matrix: Float[Tensor, "n n"]) -> None:
        self._matrix = matrix

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._matrix.shape[0]

    def rows(self) -> Int[Tensor, "p"]:  # noqa: D102
        nodes = torch.arange(self.n_nodes, device=self._matrix.device)
        return nodes.repeat_interleave(self.n_nodes)

    def columns(self) -> Int[Tensor, "p"]:  # noqa: D102
        return torch.arange(self.n_nodes, device=self._matrix.device).repeat(self.n_nodes)

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
