"""Solve on a working set, look at all other pairs, let the wrong ones in, and repeat."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn._validation import check_integer, check_number
from glnn.exceptions import InputError
from glnn.graph.implicit import Implicit, Tile
from glnn.graph.pairs import Pairs, pair_keys, sorted_distinct
from glnn.graph.row_base import BLOCK_BYTES
from glnn.graph.spread import pair_owners, sent
from glnn.solver.dual import WorkingProblem
from glnn.solver.newton import DualSolution, solve_dual
from glnn.solver.problem import Dual, Problem

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
