"""The weighted sum of the terms, each under its own name."""

import dataclasses
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from glnn._validation import check_choice, check_number
from glnn.graph.base import Adjacency
from glnn.objective import terms


@dataclass(frozen=True, kw_only=True)
class Weights:
    r"""How much each term of the objective counts; the defaults are the paper's.

    Parameters
    ----------
    smoothness
        :math:`\lambda_0` of the graph Laplacian regulariser (per data set in the paper).
    sparsity
        :math:`\lambda_1` of :math:`\|A\|_1`.
    symmetry
        :math:`\lambda_2`; zero, because every stored graph is symmetric.
    row_sums
        :math:`\lambda_3` of :math:`\|A1-1\|^2`.
    loops
        :math:`\lambda_4` of :math:`\operatorname{tr}(A)^2`.
    closeness
        :math:`\alpha` of :math:`\|A-G\|^2`.
    ridge
        :math:`\beta` of :math:`\|A\|^2`, not in the paper; needed where there is no prior graph.
    """

    smoothness: float = 1.0
    sparsity: float = 0.1
    symmetry: float = 0.0
    row_sums: float = 0.1
    loops: float = 0.001
    closeness: float = 10.0
    ridge: float = 0.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_number(f"weights.{field.name}", getattr(self, field.name), low=0)

    @classmethod
    def paper(cls, smoothness: float = 1.0) -> "Weights":
        r"""Return the paper's weights, with :math:`\lambda_0` as its table 2 varies it."""
        return cls(smoothness=smoothness)

    @classmethod
    def without_prior(cls) -> "Weights":
        """Return weights for data without a given graph, on signals of length one."""
        return cls(smoothness=1.0, sparsity=0.1, row_sums=1.0, closeness=0.0, ridge=0.5)

    @classmethod
    def closeness_alone(cls) -> "Weights":
        """Return weights whose optimum is the prior graph itself."""
        return cls(smoothness=0.0, sparsity=0.0, row_sums=0.0, loops=0.0, closeness=1.0)

    def replace(self, **changes: float) -> "Weights":
        """Return the same weights with some of them changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True)
class Objective:
    """The paper's graph learning loss: every named term, and their weighted sum."""

    weights: Weights
    reading: str = "trace"

    def __post_init__(self) -> None:
        check_choice("reading", self.reading, terms.READINGS)

    def terms(
        self, adj: Adjacency, x: Float[Tensor, "n d"], prior: Adjacency | None = None
    ) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted value of each term by its name."""
        w = self.weights
        named = {
            "smoothness": w.smoothness * terms.READINGS[self.reading](adj, x),
            "sparsity": w.sparsity * terms.sparsity(adj),
            "symmetry": w.symmetry * terms.symmetry(adj),
            "row_sums": w.row_sums * terms.row_sums(adj),
            "loops": w.loops * terms.loops(adj),
            "ridge": w.ridge * terms.ridge(adj),
        }
        if prior is not None:
            named["closeness"] = w.closeness * terms.closeness(adj, prior)
        return named

    def __call__(
        self, adj: Adjacency, x: Float[Tensor, "n d"], prior: Adjacency | None = None
    ) -> Float[Tensor, ""]:
        """Return the weighted sum of all terms."""
        total: Tensor = sum(self.terms(adj, x, prior).values(), start=x.new_zeros(()))
        return total
