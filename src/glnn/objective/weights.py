"""How much each term of the objective counts."""

import dataclasses
from dataclasses import dataclass

from glnn._validation import check_number


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
