"""Solve on a working set, look at all other pairs, let the wrong ones in, and repeat."""

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn._utils import check_integer, check_number
from glnn.exceptions import InputError
from glnn.graph.pairs import Implicit, Pairs, Tile, pair_keys, pair_owners, sent, sorted_distinct
from glnn.graph.rows import BLOCK_BYTES
from glnn.solver.newton import DualSolution, solve_dual
from glnn.solver.problem import Dual, Problem, WorkingProblem

# --- working_set: Solve on a working set, look at all other pairs, let the wrong ones in, and repe

_MOST_JOINING = 4_000_000
_MAX_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Solved:
    """The last working set and its solution, with what the rounds cost together."""

    pairs: Pairs
    solution: DualSolution
    iterations: int
    rounds: int


@dataclass(frozen=True)
class SolveSettings:
    """Accuracy and memory of a solve, and where it runs."""

    tol: float | int = 1e-8
    max_iter: int = 100
    block_bytes: int = BLOCK_BYTES
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_number("tol", self.tol, low=0, open_low=True)
        check_integer("max_iter", self.max_iter, low=1)
        check_integer("block_bytes", self.block_bytes, low=1024)
        known = self.device == "cpu" or self.device.split(":")[0] == "cuda"
        if not known or (self.device != "cpu" and not torch.cuda.is_available()):
            raise InputError(
                f"device must be 'cpu', or 'cuda' where torch finds a GPU; got {self.device!r}."
            )


def solve_problem(
    problem: Problem, working: WorkingProblem, settings: SolveSettings, start: Dual | None = None
) -> Solved:
    """Solve on the pairs of ``working``; with support ``all``, grow them until no other wants in.

    Each round lowers the objective, and only pairs without weight leave the working set, so no
    working set comes twice.
    """
    core, iterations, rounds, dual = working.pairs, 0, 0, start
    while True:
        pairs = working.pairs
        solution = solve_dual(working, dual, tol=settings.tol, max_iter=settings.max_iter)
        dual = working.completed(solution.dual, solution.values)
        solution = dataclasses.replace(solution, dual=dual)
        iterations, rounds = iterations + solution.iterations, rounds + 1
        if problem.support is not None or rounds >= _MAX_ROUNDS:
            break
        threshold = 2 * problem.curvature * settings.tol * working.unit(solution.values)
        joining = missing_pairs(problem, dual, pairs, threshold, settings)
        if not problem.partition.peers.all_reduce(float(len(joining))):
            break
        used = pairs.keys[solution.values > 0]
        keys = sorted_distinct(torch.cat([core.keys, used, joining]))
        working = WorkingProblem.of(problem, Pairs.from_keys(problem.partition, keys))
    return Solved(pairs, solution, iterations, rounds)


def missing_pairs(
    problem: Problem, dual: Dual, pairs: Pairs, threshold: float, settings: SolveSettings
) -> Tensor:
    r"""Return keys of pairs outside ``pairs`` whose numerator :math:`b - T^*(y)` is large enough.

    At most a few million come, those with the largest numerators.
    """
    part, numerator = problem.partition, problem.numerator(dual)
    named, named_sizes = _named(numerator, pairs, problem)
    met = named.where_swept()
    keys, sizes = pairs.keys[:0], torch.empty(0, dtype=torch.float64, device=pairs.keys.device)
    for tile in numerator.tiles(part, problem.device, block_bytes=settings.block_bytes):
        tile.fill(met, -torch.inf)  # of which it shows a part only
        found, size = _above(tile, threshold, problem)
        if part.peers.size == 1:  # elsewhere others know which pairs are there already
            new = ~pairs.contains(found)
            found, size = found[new], size[new]
        keys, sizes = torch.cat([keys, found]), torch.cat([sizes, size])
        if len(keys) > 2 * _MOST_JOINING:
            keys, sizes = _largest(keys, sizes)
    i = torch.div(keys, problem.n_nodes, rounding_mode="floor")
    owner = pair_owners(part, i, keys - i * problem.n_nodes)
    keys, sizes = sent(part, owner, keys, sizes)
    new, large = ~pairs.contains(keys), named_sizes > threshold
    keys = torch.cat([keys[new], named.keys[large]])
    return _largest(keys, torch.cat([sizes[new], named_sizes[large]]))[0]


def _named(numerator: Implicit, pairs: Pairs, problem: Problem) -> tuple[Pairs, Tensor]:
    """Return further pairs that the sparse part of the numerator names, and their numerators."""
    named = Pairs.from_keys(problem.partition, pairs.keys[:0])
    if numerator.sparse is not None:
        listed = numerator.sparse.pairs
        is_new = ~pairs.contains(listed.keys)
        named = listed.select(is_new if problem.loops else is_new & (listed.i != listed.j))
    if not problem.partition.peers.all_reduce(float(len(named))):
        return named, named.counts  # no process has one
    return named, numerator.on_pairs(named)


def _above(tile: Tile, threshold: float, problem: Problem) -> tuple[Tensor, Tensor]:
    """Return keys and sizes of the tile's entries above the threshold, each pair once."""
    wanted = tile.values > threshold
    if tile.on_diagonal:
        wanted = wanted.triu_(0 if problem.loops else 1)
    place = torch.nonzero(wanted.view(-1)).view(-1)
    n_columns = tile.values.shape[1]
    row = torch.div(place, n_columns, rounding_mode="floor")
    first, second = row + tile.first_row, place - row * n_columns + tile.first_column
    return pair_keys(problem.n_nodes, first, second), tile.values.view(-1)[place]


def _largest(keys: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Keep the pairs with the largest numerators."""
    if len(keys) > _MOST_JOINING:
        sizes, kept = torch.topk(sizes, _MOST_JOINING)
        keys = keys[kept]
    return keys, sizes


# --- degree: From a wanted number of neighbours to the sparsity weight

_MAX_SOLVES = 40
_SEARCH_TOL = 1e-5  # entries need not be exact to be counted
_CLOSE = 0.005  # relative error of the degree that is good enough
_MAX_SEARCHES = 6
_ACCEPTED = 0.02  # relative error of the degree that ends the search over all pairs


@dataclass(frozen=True, eq=False)
class DegreeGoal:
    """The wanted mean degree of the edges that are new.

    Parameters
    ----------
    target
        The wanted degree.
    given
        This process's pairs that are not new: those of the prior graph, or ``None``.
    """

    target: float | int
    given: Pairs | None


@dataclass(frozen=True, eq=False)
class SparsityForDegree:
    """The sparsity weight found, the degree it gives on the working set, and a warm start."""

    sparsity: float
    degree: float
    dual: Dual


def solve_for_degree(
    problem: Problem,
    pairs: Pairs,
    goal: DegreeGoal,
    settings: SolveSettings,
    start: Dual | None = None,
) -> tuple[float, Solved, tuple[str, ...]]:
    r"""Find :math:`\lambda_1` on the working set, solve, and repeat if pairs joined meanwhile.

    Returns the weight, the solution, and a note if the wanted degree is out of reach.
    """
    iterations, rounds, n_searches, target = 0, 0, 0, goal.target
    found = None if start is None else SparsityForDegree(0.0, 0.0, start)
    while True:
        free = WorkingProblem.of(problem.for_degree(0.0), pairs)
        found = sparsity_for_degree(free, goal, found)
        solved = solve_problem(
            problem.for_degree(found.sparsity),
            free.shifted(-found.sparsity),
            settings,
            found.dual,
        )
        iterations, rounds = iterations + solved.iterations, rounds + solved.rounds
        degree = added_degree(solved.pairs, solved.solution.values, goal.given)
        reached = abs(degree - target) <= _ACCEPTED * target
        n_searches += 1
        if problem.support is not None or reached or n_searches == _MAX_SEARCHES:
            break
        if found.sparsity == 0 and degree <= target:
            break
        keys = sorted_distinct(torch.cat([pairs.keys, solved.pairs.keys]))
        pairs = Pairs.from_keys(problem.partition, keys)
    notes = _notes(target, degree, found.sparsity)
    done = Solved(solved.pairs, solved.solution, iterations, rounds)
    return found.sparsity, done, notes


def _notes(target: float | int, degree: float, sparsity: float) -> tuple[str, ...]:
    """Return what a user should know about a degree that was not reached, or nothing."""
    if abs(degree - target) <= 0.1 * target:
        return ()
    return (
        f"wanted {target:g} added neighbours a node, reached {degree:.3g} "
        f"with a sparsity weight of {sparsity:.3g}",
    )


def added_degree(pairs: Pairs, values: Tensor, given: Pairs | None) -> float:
    """Return the mean number of neighbours a node has by edges that were not given."""
    n_added = float(torch.count_nonzero(values * _addable(pairs, given)))
    return 2.0 * pairs.partition.peers.all_reduce(n_added) / pairs.n_nodes


def _addable(pairs: Pairs, given: Pairs | None) -> Tensor:
    """Say which pairs are neither loops nor given."""
    addable = pairs.i != pairs.j
    return addable if given is None else addable & ~given.contains(pairs.keys)


def sparsity_for_degree(
    free: WorkingProblem, goal: DegreeGoal, near: SparsityForDegree | None = None
) -> SparsityForDegree:
    r"""Find :math:`\lambda_1 \ge 0` for which the added edges give the wanted mean degree.

    The degree falls as :math:`\lambda_1` grows; a bracket is halved, guided by interpolation, with
    warm starts. ``free`` is the problem with :math:`\lambda_1 = 0`; if even that gives too few
    edges, zero is returned. ``near`` is an earlier answer.
    """
    search = _Search(free, _addable(free.pairs, goal.given), {} if near is None else near.dual)
    target, n_nodes = goal.target, free.pairs.n_nodes
    low, high = search.bracket(target, near)
    best = min(low, high, key=lambda end: abs(end[1] - target))
    for solve in range(_MAX_SOLVES):
        close = abs(best[1] - target) <= max(_CLOSE * target, 1.0 / n_nodes)
        if close or high[0] - low[0] <= 1e-9 * high[0]:
            break
        found = search.at(_between(low, high, target, halve=solve % 3 == 2))
        best = min(best, found, key=lambda end: abs(end[1] - target))
        low, high = (found, high) if found[1] > target else (low, found)
    return SparsityForDegree(best[0], best[1], search.dual)


class _Search:
    """Solves one problem for one sparsity weight after the other, each from the last.

    ``largest`` is the weight from which on the last graph would have had no added edge, its
    row sums unchanged.
    """

    def __init__(self, working: WorkingProblem, addable: Tensor, dual: Dual) -> None:
        self.working, self.addable, self.dual = working, addable, dual
        self.largest = 0.0

    def at(self, sparsity: float) -> tuple[float, float]:
        """Return the weight and the degree it gives."""
        solution = solve_dual(self.working.shifted(-sparsity), self.dual, tol=_SEARCH_TOL)
        self.dual = solution.dual
        added = solution.values * self.addable
        self.largest = 2 * self.working.curvature * self.working.largest(added)
        n_added = self.working.peers.all_reduce(float(torch.count_nonzero(added)))
        return sparsity, 2.0 * n_added / self.working.pairs.n_nodes

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


def _between(
    low: tuple[float, float], high: tuple[float, float], target: float | int, *, halve: bool
) -> float:
    """Interpolate the logarithm of the degree, away from both ends; or halve the bracket."""
    if halve or low[1] <= high[1]:
        return (low[0] + high[0]) / 2
    top, bottom, wanted = (math.log1p(degree) for degree in (low[1], high[1], target))
    share = (top - wanted) / (top - bottom)
    return low[0] + (high[0] - low[0]) * min(0.95, max(0.05, share))
