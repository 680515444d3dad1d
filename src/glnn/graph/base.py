"""The contract of every storage of a graph: the few reductions that the objective needs."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor


class GraphOperator(ABC):
    """What a network needs of a graph: its size, and products with signals."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        r"""Return :math:`A x`."""

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:
        r"""Return :math:`\sum_{k=0}^{K} A^k x`, by Horner's rule :math:`z \leftarrow A z + x`."""
        z = x
        for _ in range(n_steps):
            z = self @ z + x
        return z


class Adjacency(GraphOperator):
    r"""A weighted graph on ``n`` nodes, :math:`A \in \mathbb{R}^{n \times n}`.

    A storage gives its entries as a list (:meth:`rows`, :meth:`columns`, :meth:`values`) in which
    entry ``p`` stands for :meth:`counts` ``[p]`` entries of the full matrix: 2 for a pair that is
    stored once, 1 for a loop or for a matrix stored whole. Every sum over :math:`A` follows.
    """

    @abstractmethod
    def rows(self) -> Int[Tensor, "p"]:
        """Row of each stored entry."""

    @abstractmethod
    def columns(self) -> Int[Tensor, "p"]:
        """Column of each stored entry."""

    @abstractmethod
    def values(self) -> Float[Tensor, "p"]:
        """Weight of each stored entry; gradients reach the storage's parameters through it."""

    @abstractmethod
    def counts(self) -> Float[Tensor, "p"]:
        """How many entries of the full matrix each stored entry stands for."""

    @abstractmethod
    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Weights at the given places, zero where nothing is stored."""

    @abstractmethod
    def to_dense(self) -> Float[Tensor, "n n"]:
        """Return the full matrix: for tests and small graphs."""

    @abstractmethod
    def asymmetry(self) -> Float[Tensor, ""]:
        r"""Return :math:`\|A^\top - A\|_F^2`."""

    def row_sums(self) -> Float[Tensor, "n"]:
        r"""Return :math:`r = A 1`."""
        ones = torch.ones(self.n_nodes, 1, dtype=self.values().dtype, device=self.values().device)
        return (self @ ones)[:, 0]

    def trace(self) -> Float[Tensor, ""]:
        r"""Return :math:`\operatorname{tr}(A)`."""
        return self.values()[self.rows() == self.columns()].sum()
