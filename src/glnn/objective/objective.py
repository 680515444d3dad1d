"""The objective, a sum of weighted terms, and the weights of the paper."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from glnn._utils import check_choice, check_number
from glnn.exceptions import InputError, InputTypeError
from glnn.graph.pairs import Adjacency, ShardedRows, as_sharded_rows
from glnn.objective.base import QuadraticTerm, Term
from glnn.objective.smoothness import ChannelSmoothness, FrobeniusSmoothness, TraceSmoothness
from glnn.objective.terms import Closeness, Loops, Ridge, RowSums, Sparsity, Symmetry


@dataclass(frozen=True, kw_only=True)
class Weights:
    r"""Weights of the terms of the objective; the defaults are the paper's.

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
    def without_prior(cls) -> "Weights":
        """Return weights for data without a given graph and signal rows of norm one."""
        return cls(smoothness=1.0, sparsity=0.1, row_sums=1.0, closeness=0.0, ridge=0.5)

    def replace(self, **changes: float) -> "Weights":
        """Return a copy with some weights changed."""
        return dataclasses.replace(self, **changes)


# Interpretations of the graph Laplacian regulariser for more than one signal
Reading = Literal["trace", "channel", "frobenius"]

READINGS: tuple[Reading, ...] = get_args(Reading)

_SMOOTHNESS: dict[Reading, Callable[[float, ShardedRows], Term]] = {
    "trace": TraceSmoothness,
    "channel": ChannelSmoothness,
    "frobenius": FrobeniusSmoothness,
}


@dataclass(frozen=True, eq=False)
class Objective:
    """A sum of weighted terms: the paper's graph learning loss and further terms.

    A term must have a part in the solver, and names must differ.

    Examples
    --------
    >>> objective = Objective((Sparsity(0.5), Ridge(2.0)))
    >>> objective(DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]])))
    tensor(5.)
    """

    parts: tuple[Term, ...]

    def __post_init__(self) -> None:
        for term in self.parts:
            check_number(f"the weight of {term.name}", term.weight, low=0)
            parts = ("curvature", "linear")
            has_part = any(getattr(type(term), part) is not getattr(Term, part) for part in parts)
            if not (has_part or isinstance(term, QuadraticTerm) or term.is_constant):
                raise InputError(
                    f"the term {term.name} must have a part in the solver, got only a value. "
                    "Override curvature or linear, derive it from QuadraticTerm, or set "
                    "is_constant if it is the same for every symmetric graph."
                )
        names = [term.name for term in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"terms must have different names, got {', '.join(twice)} twice.")

    @classmethod
    def of(
        cls,
        weights: Weights,
        signal: Tensor | ShardedRows,
        prior: Adjacency | None = None,
        *,
        reading: Reading = "trace",
        more: Any = (),
    ) -> "Objective":
        """Return the paper's terms with these weights, and further terms with their own.

        With several processes, ``signal`` are the rows of this one. Without a prior graph there is
        no closeness term.
        """
        check_choice("reading", reading, READINGS)
        rows = as_sharded_rows(signal)
        like = torch.empty(rows.layout.n_nodes, dtype=rows.local.dtype, device=rows.local.device)
        terms: list[Term] = [
            _SMOOTHNESS[reading](weights.smoothness, rows),
            Sparsity(weights.sparsity),
            Symmetry(weights.symmetry),
            RowSums(weights.row_sums, like),
            Loops(weights.loops, like),
            Ridge(weights.ridge),
        ]
        if prior is not None:
            terms.append(Closeness(weights.closeness, prior))
        for term in more if isinstance(more, Iterable) else [more]:
            if not isinstance(term, Term):
                raise InputTypeError(
                    "terms must be a list of glnn.objective.Term, got one of type "
                    f"{type(term).__name__}. Derive a class from Term or QuadraticTerm."
                )
            terms.append(term)
        return cls(tuple(terms))

    def terms(self, adj: Adjacency) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted value of each term by its name."""
        return {term.name: term.weight * term.value(adj) for term in self.parts}

    def __call__(self, adj: Adjacency) -> Float[Tensor, ""]:
        """Return the weighted sum of all terms."""
        total: Tensor = sum(self.terms(adj).values(), start=torch.zeros(()))
        return total

    def with_degree_weight(self, weight: float) -> "Objective":
        """Return the objective with another weight of the term whose ``sets_degree`` holds."""
        names = [term.name for term in self.parts if term.sets_degree]
        if len(names) > 1:
            raise InputError(
                f"n_neighbors must set the weight of one term, got {', '.join(names)}. Give "
                "weights, or make sets_degree of the others False."
            )
        changed = tuple(
            dataclasses.replace(term, weight=weight) if term.sets_degree else term  # type: ignore[type-var]
            for term in self.parts
        )
        return Objective(changed)
