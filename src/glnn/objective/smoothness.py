"""The graph Laplacian regulariser of one reading: the linear one."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Factor, Implicit
from glnn.graph.spread import SpreadRows
from glnn.objective.base import Term
from glnn.objective.new_row import RowShare


@dataclass(frozen=True, eq=False)
class SignalTerm(Term):
    """A reading of the regulariser: how smooth signals are over a graph."""

    weight: float | int
    signal: SpreadRows
    name: str = "smoothness"


class TraceSmoothness(SignalTerm):
    r"""Graph Laplacian regulariser :math:`\operatorname{tr}(X^\top (I - A) X)`.

    Paper: the exponent of the likelihood (eq:final_likelihood_func), summed over channels.

    Examples
    --------
    >>> from glnn.graph.spread import spread
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> TraceSmoothness(1.0, spread(torch.tensor([[0.0], [2.0]]))).value(pair)
    tensor(4.)
    """

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        x = self.signal.own.dense()
        return (x * (x - adj @ x)).sum()

    def linear(self) -> Implicit:
        r"""Return :math:`\lambda_0\, x_i \cdot x_j`."""
        return Implicit(factors=(Factor(self.signal, self.signal, self.weight),))

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the similarity to every node."""
        return RowShare(metrics=(torch.tensor(float(self.weight), dtype=torch.float64),))
