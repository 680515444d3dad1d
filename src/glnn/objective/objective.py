"""The objective: a list of weighted terms, each under its own name."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from glnn._utils import check_choice, check_number
from glnn.exceptions import InputError, InputTypeError
from glnn.graph.adjacency import Adjacency
from glnn.graph.pairs import SpreadRows, spread
from glnn.objective.base import Term
from glnn.objective.smoothness import ChannelSmoothness, FrobeniusSmoothness, TraceSmoothness
from glnn.objective.terms import Closeness, Loops, Ridge, RowSums, Sparsity, Symmetry

# --- weights: How much each term of the objective counts


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


# --- objective: The objective: a list of weighted terms, each under its own name

Reading = Literal["trace", "channel", "frobenius"]
"""The readings of the graph Laplacian regulariser for more than one signal."""

READINGS: tuple[Reading, ...] = get_args(Reading)

_SMOOTHNESS: dict[Reading, Callable[[float, SpreadRows], Term]] = {
    "trace": TraceSmoothness,
    "channel": ChannelSmoothness,
    "frobenius": FrobeniusSmoothness,
}


@dataclass(frozen=True, eq=False)
class Objective:
    """A sum of weighted terms: the paper's graph learning loss, and what a fit adds to it.

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
            _refuse_silent(term)
        names = [term.name for term in self.parts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"terms must have different names, got {', '.join(twice)} twice.")

    @classmethod
    def of(
        cls,
        weights: Weights,
        signal: Tensor | SpreadRows,
        prior: Adjacency | None = None,
        *,
        reading: Reading = "trace",
        more: Iterable[Term] = (),
    ) -> "Objective":
        """Return the paper's terms with these weights, and further ones.

        Parameters
        ----------
        weights
            The weights of the terms.
        signal
            The signal rows of all nodes; over several processes, this one's.
        prior
            The prior graph; without one there is no closeness.
        reading
            ``trace`` (default), ``channel`` or ``frobenius``.
        more
            Terms that have their own weights.
        """
        check_choice("reading", reading, READINGS)
        rows = spread(signal)
        like = torch.empty(rows.partition.n_nodes, dtype=rows.own.dtype, device=rows.own.device)
        own: list[Term] = [
            _SMOOTHNESS[reading](weights.smoothness, rows),
            Sparsity(weights.sparsity),
            Symmetry(weights.symmetry),
            RowSums(weights.row_sums, like),
            Loops(weights.loops, like),
            Ridge(weights.ridge),
        ]
        if prior is not None:
            own.append(Closeness(weights.closeness, prior, rows.partition))
        return cls((*own, *more))

    def terms(self, adj: Adjacency) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted value of each term by its name."""
        return {term.name: term.weight * term.value(adj) for term in self.parts}

    def __call__(self, adj: Adjacency) -> Float[Tensor, ""]:
        """Return the weighted sum of all terms."""
        total: Tensor = sum(self.terms(adj).values(), start=adj.values().new_zeros(()))
        return total

    def for_degree(self, weight: float) -> "Objective":
        """Return the same terms, with another weight of the one that sets the degree."""
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


def checked_terms(terms: object) -> list[Term]:
    """Return further terms of an objective as a list; what is none is refused.

    Examples
    --------
    >>> checked_terms((Sparsity(0.5),))
    [Sparsity(weight=0.5, name='sparsity')]
    """
    given: list[Any] = list(terms) if isinstance(terms, Iterable) else [terms]
    for term in given:
        if not isinstance(term, Term):
            raise InputTypeError(
                "terms must be a list of glnn.objective.Term, got one of type "
                f"{type(term).__name__}. Derive a class from Term or QuadraticTerm."
            )
    return given


def _refuse_silent(term: Term) -> None:
    """Refuse a term that has a value and no part in the solver."""
    parts = ("curvature", "linear", "penalty")
    says = any(getattr(type(term), part) is not getattr(Term, part) for part in parts)
    if not says and not term.is_constant:
        raise InputError(
            f"the term {term.name} must say how it enters the solver, got a value alone. Override "
            "curvature or linear, derive it from QuadraticTerm, or set is_constant if it is the "
            "same for every symmetric graph."
        )
