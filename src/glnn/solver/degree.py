"""From a wanted number of neighbours to the sparsity weight."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glnn.solver.dual_newton import WorkingProblem, solve_dual
from glnn.solver.pairs import Pairs, pair_keys, upper_entries
from glnn.solver.problem import Problem
from glnn.solver.working_set import Solved, SolveSettings, solve_problem

_MAX_SOLVES = 40
_CLOSE = 0.005  # relative error of the degree that is good enough


_MAX_ROUNDS = 6
_ACCEPTED = 0.02  # relative error of the degree that ends the search over all pairs


@dataclass(frozen=True, eq=False)
class DegreeGoal:
    """The wanted mean degree of the edges that the prior graph lacks."""

    target: float | int
    prior: sp.csr_matrix | None


@dataclass(frozen=True, eq=False)
class SparsityForDegree:
    """The sparsity weight found, the degree it gives on the working set, and a warm start."""

    sparsity: float
    degree: float
    dual: dict[str, np.ndarray]


def solve_for_degree(
    problem: Problem,
    pairs: Pairs,
    goal: DegreeGoal,
    settings: SolveSettings,
    start: dict[str, np.ndarray] | None = None,
) -> tuple[float, Solved, tuple[str, ...]]:
    r"""Find :math:`\lambda_1` on the working set, solve, and repeat if pairs joined meanwhile.

    ``problem`` must have been built with :math:`\lambda_1 = 0`. Returns the weight, the solution,
    and a note if the wanted degree is out of reach.
    """
    iterations, rounds, target = 0, 0, goal.target
    for _ in range(_MAX_ROUNDS):
        found = sparsity_for_degree(problem, pairs, goal, start)
        solved = solve_problem(problem.shifted(-found.sparsity), pairs, settings, found.dual)
        iterations, rounds = iterations + solved.iterations, rounds + solved.rounds
        degree = added_degree(solved.pairs, solved.solution.values, goal.prior)
        if problem.support is not None or abs(degree - target) <= _ACCEPTED * target:
            break
        if found.sparsity == 0 and degree <= target:
            break
        pairs = Pairs.from_keys(problem.n_nodes, np.union1d(pairs.keys, solved.pairs.keys))
        start = solved.solution.dual
    notes: tuple[str, ...] = ()
    if abs(degree - target) > 0.1 * target:
        notes = (
            f"wanted {target:g} added neighbours a node, reached {degree:.3g} "
            f"with a sparsity weight of {found.sparsity:.3g}",
        )
    done = Solved(solved.pairs, solved.solution, iterations, rounds)
    return found.sparsity, done, notes


def added_degree(pairs: Pairs, values: np.ndarray, prior: sp.csr_matrix | None) -> float:
    """Return the mean number of neighbours a node has by edges that the prior graph lacks."""
    return 2.0 * float(np.count_nonzero(values[_addable(pairs, prior)])) / pairs.n_nodes


def _addable(pairs: Pairs, prior: sp.csr_matrix | None) -> np.ndarray:
    """Say which pairs are neither loops nor edges of the prior graph."""
    addable = pairs.i != pairs.j
    if prior is not None:
        rows, columns, _ = upper_entries(prior)
        given = Pairs.from_keys(pairs.n_nodes, np.sort(pair_keys(pairs.n_nodes, rows, columns)))
        addable = addable & ~given.contains(pairs.keys)
    return np.asarray(addable)


def sparsity_for_degree(
    problem: Problem,
    pairs: Pairs,
    goal: DegreeGoal,
    start: dict[str, np.ndarray] | None = None,
) -> SparsityForDegree:
    r"""Find :math:`\lambda_1 \ge 0` for which the added edges give the wanted mean degree.

    The degree falls as :math:`\lambda_1` grows; a bracket is halved, guided by interpolation, with
    warm starts. ``problem`` must have been built with :math:`\lambda_1 = 0`. If even
    :math:`\lambda_1 = 0` gives too few edges, zero is returned.
    """
    working = WorkingProblem.of(problem, pairs)
    addable, target = _addable(pairs, goal.prior), goal.target
    dual = start

    def degree(sparsity: float) -> float:
        nonlocal dual
        solution = solve_dual(working.shifted(-sparsity), dual, tol=1e-6)
        dual = solution.dual
        return 2.0 * float(np.count_nonzero(solution.values[addable])) / pairs.n_nodes

    low = (0.0, degree(0.0))
    if low[1] <= target or not addable.any():
        return SparsityForDegree(0.0, low[1], dual or {})
    best = high = _upper_end(working, addable, degree, target)
    for solve in range(_MAX_SOLVES):
        if abs(best[1] - target) <= max(_CLOSE * target, 1.0 / pairs.n_nodes):
            break
        if high[0] - low[0] <= 1e-9 * high[0]:
            break
        middle = _between(low, high, target, halve=solve % 3 == 2)
        found = degree(middle)
        if abs(found - target) < abs(best[1] - target):
            best = (middle, found)
        if found > target:
            low = (middle, found)
        else:
            high = (middle, found)
    return SparsityForDegree(best[0], best[1], dual or {})


def _upper_end(
    working: WorkingProblem,
    addable: np.ndarray,
    degree: Callable[[float], float],
    target: float | int,
) -> tuple[float, float]:
    """Return a sparsity weight with at most the wanted degree."""
    high = max(float(working.offsets[addable].max()), 1e-6)
    found = degree(high)
    while found > target:
        high *= 2
        found = degree(high)
    return high, found


def _between(
    low: tuple[float, float], high: tuple[float, float], target: float | int, *, halve: bool
) -> float:
    """Interpolate the logarithm of the degree, away from both ends; or halve the bracket."""
    if halve or low[1] <= high[1]:
        return (low[0] + high[0]) / 2
    top, bottom, wanted = (float(np.log1p(d)) for d in (low[1], high[1], target))
    share = (top - wanted) / (top - bottom)
    return low[0] + (high[0] - low[0]) * min(0.95, max(0.05, share))
