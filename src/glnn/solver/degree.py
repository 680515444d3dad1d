"""From a wanted number of neighbours to the sparsity weight."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.solver.dual_newton import WorkingProblem, solve_dual
from glnn.solver.pairs import Pairs, pair_keys, sorted_distinct, upper_entries
from glnn.solver.problem import Problem
from glnn.solver.working_set import Solved, SolveSettings, solve_problem

_MAX_SOLVES = 40
SEARCH_TOL = 1e-5
"""Entries need not be exact to be counted."""

_CLOSE = 0.005  # relative error of the degree that is good enough


_MAX_SEARCHES = 6
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
    dual: dict[str, Any]


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
    iterations, rounds, n_searches, target = 0, 0, 0, goal.target
    found = None if start is None else SparsityForDegree(0.0, 0.0, start)
    while True:
        found = sparsity_for_degree(problem, pairs, goal, found)
        solved = solve_problem(problem.shifted(-found.sparsity), pairs, settings, found.dual)
        iterations, rounds = iterations + solved.iterations, rounds + solved.rounds
        own_degree = added_degree(solved.pairs, solved.solution.values, goal.prior)
        degree = problem.peers.all_reduce(own_degree)
        reached = abs(degree - target) <= _ACCEPTED * target
        n_searches += 1
        if problem.support is not None or reached or n_searches == _MAX_SEARCHES:
            break
        if found.sparsity == 0 and degree <= target:
            break
        pairs = Pairs.from_keys(problem.n_nodes, sorted_distinct([pairs.keys, solved.pairs.keys]))
    notes = degree_notes(target, degree, found.sparsity)
    done = Solved(solved.pairs, solved.solution, iterations, rounds)
    return found.sparsity, done, notes


def degree_notes(target: float | int, degree: float, sparsity: float) -> tuple[str, ...]:
    """Return what a user should know about a degree that was not reached, or nothing."""
    if abs(degree - target) <= 0.1 * target:
        return ()
    return (
        f"wanted {target:g} added neighbours a node, reached {degree:.3g} "
        f"with a sparsity weight of {sparsity:.3g}",
    )


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
    near: SparsityForDegree | None = None,
) -> SparsityForDegree:
    r"""Find :math:`\lambda_1 \ge 0` for which the added edges give the wanted mean degree.

    The degree falls as :math:`\lambda_1` grows; a bracket is halved, guided by interpolation, with
    warm starts. ``problem`` must have been built with :math:`\lambda_1 = 0`. If even
    :math:`\lambda_1 = 0` gives too few edges, zero is returned. ``near`` is an earlier answer.
    """
    search = _HostSearch(WorkingProblem.of(problem, pairs), _addable(pairs, goal.prior), near)
    return search.find(goal.target, pairs.n_nodes, near)


class DegreeSearch(ABC):
    """Solves one problem for one sparsity weight after the other, each from the last.

    ``dual`` is the last dual point, ``largest`` the weight from which on the last graph would
    have had no added edge, its row sums unchanged.
    """

    dual: dict[str, Any]
    largest: float = 0.0

    @abstractmethod
    def at(self, sparsity: float) -> tuple[float, float]:
        """Return the weight and the degree it gives."""

    def find(
        self, target: float | int, n_nodes: int, near: SparsityForDegree | None
    ) -> SparsityForDegree:
        """Narrow a bracket around the wanted degree."""
        low, high = self.bracket(target, near)
        best = min(low, high, key=lambda end: abs(end[1] - target))
        for solve in range(_MAX_SOLVES):
            close = abs(best[1] - target) <= max(_CLOSE * target, 1.0 / n_nodes)
            if close or high[0] - low[0] <= 1e-9 * high[0]:
                break
            found = self.at(_between(low, high, target, halve=solve % 3 == 2))
            best = min(best, found, key=lambda end: abs(end[1] - target))
            low, high = (found, high) if found[1] > target else (low, found)
        return SparsityForDegree(best[0], best[1], self.dual)

    def bracket(
        self, target: float | int, near: SparsityForDegree | None
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return weights with more and with at most the wanted degree; twice zero if none has."""
        if near is not None and near.sparsity > 0:
            low, high = self.at(near.sparsity / 1.1), self.at(near.sparsity * 1.1)
        else:
            low = high = self.at(0.0)
        if low[1] <= target and low[0] > 0:
            low = self.at(0.0)
        if low[1] <= target:
            return low, low
        size = max(high[0], self.largest, 1e-9)
        while high[1] > target:
            low, high = high, self.at(high[0] + size)
            size *= 2
        return low, high


class _HostSearch(DegreeSearch):
    """The search over pairs in NumPy."""

    def __init__(
        self, working: WorkingProblem, addable: np.ndarray, near: SparsityForDegree | None
    ) -> None:
        self.working, self.addable = working, addable
        self.dual = {} if near is None else near.dual

    def at(self, sparsity: float) -> tuple[float, float]:
        """Return the weight and the degree it gives."""
        solution = solve_dual(self.working.shifted(-sparsity), self.dual, tol=SEARCH_TOL)
        self.dual = solution.dual
        added = solution.values[self.addable]
        self.largest = 2 * self.working.curvature * self.working.largest(added)
        n_added = self.working.peers.all_reduce(float(np.count_nonzero(added)))
        return sparsity, 2.0 * n_added / self.working.pairs.n_nodes


def _between(
    low: tuple[float, float], high: tuple[float, float], target: float | int, *, halve: bool
) -> float:
    """Interpolate the logarithm of the degree, away from both ends; or halve the bracket."""
    if halve or low[1] <= high[1]:
        return (low[0] + high[0]) / 2
    top, bottom, wanted = (float(np.log1p(d)) for d in (low[1], high[1], target))
    share = (top - wanted) / (top - bottom)
    return low[0] + (high[0] - low[0]) * min(0.95, max(0.05, share))
