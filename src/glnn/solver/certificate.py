"""The certificate of a learned graph: how far it is from the optimum, from the graph alone."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.exceptions import InputError
from glnn.graph.pairs import ImplicitMatrix, Pairs, pair_keys, read_entries
from glnn.solver.problem import Problem, nonnegative_max, violation_scale

_ACCEPTED = 1e-6  # largest relative violation of a converged graph
_MOST_ROUNDING = 1e-4  # the same where rounding alone causes more than _ACCEPTED
_EPSILON = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Certificate:
    r"""How far a graph is from the optimum of its problem.

    Parameters
    ----------
    max_violation
        The maximum of :math:`|a_{ij} - \max(0, b_{ij} - \sum_m T_m^*(y_m)_{ij})/(2\gamma)|` with
        :math:`y_m = 2 w_m (T_m(A)-\tau_m)` over the support; zero at the optimum and only there.
        Asymmetry, negative entries and entries outside the support are violations too; an entry
        that is not finite is an infinite violation.
    gap, relative_gap
        Objective minus a proven lower bound; the same divided by the absolute objective, or by 1
        if that is smaller.
    objective
        The value of the objective, up to a constant.
    pairs_checked, n_pairs_checked
        The share and the number of all :math:`N(N+1)/2` pairs that were checked.
    support
        ``all`` pairs may become edges, or only the ``candidates``.
    converged
        Whether the violation is at most 1e-6, relative to the largest entry if that is above 1,
        and to 100 times the largest entry if that is below 0.01. If a penalty is so strong that
        rounding alone causes a larger violation, that much is accepted, up to 1e-4.
    reading
        The reading of the graph Laplacian regulariser: ``trace``, ``channel`` or ``frobenius``.
    iterations, rounds
        Number of Newton steps, and of solves with growing working sets; 0 if unknown.
    notes
        Messages to the user about this solve.
    """

    max_violation: float
    gap: float
    relative_gap: float
    objective: float
    pairs_checked: float
    n_pairs_checked: int
    support: str
    converged: bool
    reading: str = "trace"
    iterations: int = 0
    rounds: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        state = "optimal" if self.converged else "NOT optimal"
        return (
            f"{state}: largest violation {self.max_violation:.1e}, relative gap "
            f"{self.relative_gap:.1e} over {self.n_pairs_checked:,} pairs "
            f"({self.pairs_checked:.1%}, support {self.support!r}), {self.reading} reading, "
            f"Newton steps: {self.iterations}, rounds: {self.rounds}"
        )


def certify(problem: Problem, adjacency: sp.csr_matrix) -> Certificate:
    """Check a graph against every pair of the problem's support, using only the graph itself.

    With several processes, ``adjacency`` are the rows of this one.
    """
    layout, support = problem.signal.layout, problem.support
    pairs, values, asymmetry = _read_entries(problem, adjacency)
    images = problem.images(pairs, values)
    dual = problem.dual_of(images)
    correction = problem.correction(dual)
    whole = problem.linear + correction
    # checked one by one: stored entries, and the support or the pairs that a term lists
    listed = support
    if listed is None and whole.sparse is not None:
        listed = whole.sparse.pairs
    known = Pairs.from_keys(layout, pairs.keys, *([] if listed is None else [listed.keys]))
    gains, place = problem.linear.on_pairs(known), known.locate(pairs.keys)[0]
    numerator = gains + correction.on_pairs(known)
    implied = numerator.clamp_(min=0).div_(2 * problem.curvature)
    if support is not None:
        implied *= support.contains(known.keys)
    residual = implied.index_add(0, place, values, alpha=-1)
    # a negative entry needs no check of its own: implied entries are not negative, so its
    # residual is at least its absolute value
    worst = max(nonnegative_max(residual.abs()), asymmetry)
    squares = float((known.counts * implied).dot(implied))
    if problem.support is None:
        beyond, more = _sweep_other_pairs(problem, whole, known)
        worst, squares = max(worst, beyond), squares + more
    primal = problem.primal_value(pairs, values, images, gains.index_select(0, place))
    gap = primal - problem.dual_value(dual, layout.sum(squares))
    violation = layout.max(worst)
    scale = violation_scale(
        layout.max(max(nonnegative_max(values.abs()), nonnegative_max(implied))),
        layout.max(nonnegative_max(gains.abs())) / (2 * problem.curvature),
    )
    rounding = _rounding_error(problem, images, known)
    accepted = min(max(_ACCEPTED * scale, rounding), _MOST_ROUNDING * scale)
    n_pairs = problem.n_nodes * (problem.n_nodes + 1) // 2
    n_checked = n_pairs if support is None else int(layout.sum(float(len(support))))
    return Certificate(
        max_violation=violation,
        gap=gap,
        relative_gap=gap / max(1.0, abs(primal)),
        objective=primal,
        pairs_checked=n_checked / n_pairs,
        n_pairs_checked=n_checked,
        support="all" if support is None else "candidates",
        converged=violation <= accepted and math.isfinite(gap),
    )


def _read_entries(problem: Problem, adjacency: sp.csr_matrix) -> tuple[Pairs, Tensor, float]:
    """Return pairs with a stored entry, their entries in the upper triangle, and the asymmetry.

    Pairs are those of this process; the asymmetry is the largest difference of the two triangles.
    """
    layout, shape = problem.signal.layout, (problem.signal.layout.n_rows, problem.n_nodes)
    if np.shape(adjacency) != shape:
        raise InputError(
            f"adjacency must have {shape[0]} rows and {shape[1]} columns, "
            f"got shape {np.shape(adjacency)}."
        )
    rows, columns, values = read_entries(adjacency, layout, problem.signal.local.device)
    rows, columns, values = layout.exchange_pairs(rows, columns, rows, columns, values)
    keys = pair_keys(problem.n_nodes, rows, columns)
    pairs = Pairs.from_keys(layout, keys)
    triangles = values.new_zeros(2, len(pairs))
    triangles.index_put_(((rows > columns).long(), pairs.locate(keys)[0]), values, True)
    asymmetry = torch.where(pairs.i == pairs.j, 0.0, triangles[0] - triangles[1]).abs()
    return pairs, triangles[0], nonnegative_max(asymmetry)


def _rounding_error(problem: Problem, images: Tensor, known: Pairs) -> float:
    r"""Return the violation that rounding of :math:`T(A)` and :math:`\tau` alone may cause.

    It is large if a penalty is much stronger than the curvature.
    """
    errors = problem.strength * _EPSILON * (images.abs() + problem.target.abs())
    own = nonnegative_max(problem.correction(errors).on_pairs(known).abs())
    return problem.signal.layout.max(own) / (2 * problem.curvature)


def _sweep_other_pairs(
    problem: Problem, numerator: ImplicitMatrix, known: Pairs
) -> tuple[float, float]:
    """Return the largest implied entry outside the known pairs, and the sum of their squares."""
    worst, squares = 0.0, 0.0
    for first_row, first_column, values in numerator.tiles(known, 0.0):
        flat = values.clamp_(min=0).div_(2 * problem.curvature).view(-1)
        squares += float(flat.dot(flat)) * (1 if first_row == first_column else 2)
        worst = max(worst, nonnegative_max(flat))
    return worst, squares
