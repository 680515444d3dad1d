"""Working-set method: solve on some pairs, check all others, add violating pairs, repeat.

The second part finds the sparsity weight for a wanted mean degree.
"""

import dataclasses
import math

import torch
from torch import Tensor

from glnn.graph.pairs import Pairs, pair_keys
from glnn.solver.newton import TOL, Solution, solve_dual
from glnn.solver.problem import Problem, WorkingProblem

_MAX_JOINING = 4_000_000  # pairs added per round
_MAX_ROUNDS = 100


def solve_problem(
    problem: Problem, working: WorkingProblem, start: Tensor | None = None
) -> Solution:
    """Solve on the pairs of ``working``; with support ``all``, add pairs until none is violated.

    Each round lowers the objective and only pairs without weight leave the working set, so no
    working set occurs twice.
    """
    core, iterations, rounds, dual = working.pairs, 0, 0, start
    while True:
        pairs = working.pairs
        solution = solve_dual(working, dual)
        dual = working.complete_dual(solution.dual, solution.values)
        iterations, rounds = iterations + solution.iterations, rounds + 1
        if problem.support is not None or rounds >= _MAX_ROUNDS:
            break
        threshold = 2 * problem.curvature * TOL * working.violation_scale(solution.values)
        joining = find_violating_pairs(problem, dual, pairs, threshold)
        if not problem.signal.layout.sum(float(len(joining))):
            break
        used = pairs.keys[solution.values > 0]
        grown = Pairs.from_keys(problem.signal.layout, core.keys, used, joining)
        working = WorkingProblem.of(problem, grown)
    return dataclasses.replace(solution, dual=dual, iterations=iterations, rounds=rounds)


def find_violating_pairs(problem: Problem, dual: Tensor, pairs: Pairs, threshold: float) -> Tensor:
    r"""Return keys of pairs outside ``pairs`` with a numerator :math:`b - T^*(y)` > threshold.

    At most ``_MAX_JOINING`` are returned, those with the largest numerators.
    """
    layout, n_nodes = problem.signal.layout, problem.n_nodes
    numerator = problem.linear + problem.correction(dual)
    sparse = Pairs.from_keys(layout, pairs.keys[:0])  # pairs of the sparse part, which tiles lack
    if numerator.sparse is not None:
        listed = numerator.sparse.pairs
        sparse = listed.select(~pairs.contains(listed.keys))
    sparse_sizes = numerator.on_pairs(sparse)
    keys, sizes = pairs.keys[:0], torch.empty(0, dtype=torch.float64, device=pairs.keys.device)
    for first_row, first_column, values in numerator.tiles(sparse, -torch.inf):
        wanted = values > threshold
        if first_row == first_column:
            wanted = wanted.triu_()
        row, column = torch.nonzero(wanted, as_tuple=True)
        found = pair_keys(n_nodes, row + first_row, column + first_column)
        size = values[row, column]
        if not layout.is_split:  # with several processes, only the owner of a pair can check this
            new = ~pairs.contains(found)
            found, size = found[new], size[new]
        keys, sizes = torch.cat([keys, found]), torch.cat([sizes, size])
        if len(keys) > 2 * _MAX_JOINING:
            keys, sizes = _keep_largest(keys, sizes)
    i = torch.div(keys, n_nodes, rounding_mode="floor")
    keys, sizes = layout.exchange_pairs(i, keys - i * n_nodes, keys, sizes)
    new, large = ~pairs.contains(keys), sparse_sizes > threshold
    keys = torch.cat([keys[new], sparse.keys[large]])
    return _keep_largest(keys, torch.cat([sizes[new], sparse_sizes[large]]))[0]


def _keep_largest(keys: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pairs with the largest numerators, at most ``_MAX_JOINING``."""
    if len(keys) > _MAX_JOINING:
        sizes, kept = torch.topk(sizes, _MAX_JOINING)
        keys = keys[kept]
    return keys, sizes


# Sparsity weight for a wanted degree

_Found = tuple[float, float]  # a weight and the degree of its solution

_MAX_SOLVES = 40
_SEARCH_TOL = 1e-5  # enough to count the edges
_CLOSE = 0.005  # relative error of the degree that ends a search on one working set
_MAX_SEARCHES = 6
_ACCEPTED = 0.02  # relative error of the degree that ends the search over all pairs


def solve_for_degree(
    problem: Problem, pairs: Pairs, target: float | int, prior_pairs: Pairs | None
) -> tuple[float, Solution, tuple[str, ...]]:
    r"""Find :math:`\lambda_1` on the working set, solve, and repeat with the pairs that were added.

    ``target`` is the wanted mean degree over edges that are not in the prior graph. Returns the
    weight, the solution, and a note if the wanted degree was not reached.
    """
    iterations, rounds, sparsity, dual = 0, 0, 0.0, None
    for _ in range(_MAX_SEARCHES):
        free = WorkingProblem.of(problem.with_degree_weight(0.0), pairs)
        search = _SparsitySearch(free, _addable_mask(pairs, prior_pairs), dual)
        sparsity, dual = search.find(target, sparsity), search.dual
        sparse = problem.with_degree_weight(sparsity)
        solved = solve_problem(sparse, free.shift_offsets(-sparsity), dual)
        iterations, rounds = iterations + solved.iterations, rounds + solved.rounds
        degree = mean_added_degree(solved.pairs, solved.values, prior_pairs)
        reached = abs(degree - target) <= _ACCEPTED * target or (sparsity == 0 and degree <= target)
        if problem.support is not None or reached:
            break
        pairs = Pairs.from_keys(problem.signal.layout, pairs.keys, solved.pairs.keys)
    notes: tuple[str, ...] = ()
    if abs(degree - target) > 0.1 * target:
        notes = (
            f"the mean number of added neighbours should be {target:g}, but {degree:.3g} was "
            f"reached, with a sparsity weight of {sparsity:.3g}",
        )
    return sparsity, dataclasses.replace(solved, iterations=iterations, rounds=rounds), notes


def mean_added_degree(pairs: Pairs, values: Tensor, prior_pairs: Pairs | None) -> float:
    """Return the mean number of neighbours over edges that are not in the prior graph."""
    return _mean_degree(pairs, values * _addable_mask(pairs, prior_pairs))


def _mean_degree(pairs: Pairs, values: Tensor) -> float:
    return 2.0 * pairs.layout.sum(float(torch.count_nonzero(values))) / pairs.n_nodes


def _addable_mask(pairs: Pairs, prior_pairs: Pairs | None) -> Tensor:
    """Return which pairs are neither loops nor in the prior graph."""
    addable = pairs.i != pairs.j
    return addable if prior_pairs is None else addable & ~prior_pairs.contains(pairs.keys)


class _SparsitySearch:
    r"""Finds :math:`\lambda_1 \ge 0` for which the added edges have the wanted mean degree.

    ``free`` is the problem with :math:`\lambda_1 = 0`. It is solved for a sequence of weights, each
    from the last dual point. ``cutoff`` estimates how much more weight removes all added edges of
    the last graph (with its row sums unchanged).
    """

    def __init__(self, free: WorkingProblem, addable: Tensor, dual: Tensor | None) -> None:
        self.free, self.addable, self.dual = free, addable, dual
        self.cutoff = 0.0

    def find(self, target: float | int, near: float) -> float:
        """Return the weight, 0 if even that gives too few edges; ``near`` is an earlier one.

        The degree decreases with the weight. A bracket is narrowed by interpolation and bisection.
        """
        low, high = self.bracket(target, near)
        best = min(low, high, key=lambda end: abs(end[1] - target))
        for solve in range(_MAX_SOLVES):
            close = abs(best[1] - target) <= max(_CLOSE * target, 1.0 / self.free.pairs.n_nodes)
            if close or high[0] - low[0] <= 1e-9 * high[0]:
                break
            found = self.degree_at(_next_sparsity(low, high, target, halve=solve % 3 == 2))
            best = min(best, found, key=lambda end: abs(end[1] - target))
            low, high = (found, high) if found[1] > target else (low, found)
        return best[0]

    def degree_at(self, sparsity: float) -> _Found:
        """Return the weight and the degree of its solution."""
        solution = solve_dual(self.free.shift_offsets(-sparsity), self.dual, tol=_SEARCH_TOL)
        self.dual = solution.dual
        added = solution.values * self.addable
        self.cutoff = 2 * self.free.problem.curvature * self.free.global_max(added)
        return sparsity, _mean_degree(self.free.pairs, added)

    def bracket(self, target: float | int, near: float) -> tuple[_Found, _Found]:
        """Return weights with a degree above and at most the target; twice 0 if none is above."""
        if near > 0:
            low, high = self.degree_at(near / 1.1), self.degree_at(near * 1.1)
        else:
            low = high = self.degree_at(0.0)
        if low[1] <= target and low[0] > 0:
            low = self.degree_at(0.0)
        if low[1] <= target:
            return low, low
        size = max(high[0], self.cutoff, 1e-9)
        while high[1] > target:
            low, high = high, self.degree_at(high[0] + size)
            size *= 2
        return low, high


def _next_sparsity(low: _Found, high: _Found, target: float | int, *, halve: bool) -> float:
    """Interpolate the logarithm of the degree, kept away from both ends, or bisect."""
    if halve or low[1] <= high[1]:
        return (low[0] + high[0]) / 2
    top, bottom, wanted = (math.log1p(degree) for degree in (low[1], high[1], target))
    share = (top - wanted) / (top - bottom)
    return low[0] + (high[0] - low[0]) * min(0.95, max(0.05, share))
