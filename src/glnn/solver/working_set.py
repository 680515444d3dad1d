"""Solve on a working set, look at all other pairs, let the wrong ones in, and repeat."""

from dataclasses import dataclass

import numpy as np
import torch

from glnn._validation import check_integer, check_number
from glnn.exceptions import InputError
from glnn.solver.dual_newton import DualSolution, WorkingProblem, solve_dual
from glnn.solver.implicit import BLOCK_BYTES, Implicit, Tile
from glnn.solver.pairs import Pairs, sorted_distinct
from glnn.solver.problem import Problem

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
    """Accuracy and memory of a solve."""

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
    problem: Problem,
    pairs: Pairs,
    settings: SolveSettings,
    start: dict[str, np.ndarray] | None = None,
) -> Solved:
    """Solve on ``pairs``; with support ``all``, grow them until no other pair wants an edge.

    Each round lowers the objective, and only pairs without weight leave the working set, so no
    working set comes twice.
    """
    core, iterations, rounds, dual = pairs, 0, 0, start
    while True:
        working = WorkingProblem.of(problem, pairs)
        solution = solve_dual(working, dual, tol=settings.tol, max_iter=settings.max_iter)
        iterations, rounds, dual = iterations + solution.iterations, rounds + 1, solution.dual
        if problem.support is not None or rounds >= _MAX_ROUNDS:
            break
        joining = missing_pairs(problem, solution, pairs, settings)
        if not joining.size:
            break
        used = pairs.keys[solution.values > 0]
        pairs = Pairs.from_keys(problem.n_nodes, sorted_distinct([core.keys, used, joining]))
    return Solved(working.pairs, solution, iterations, rounds)


def missing_pairs(
    problem: Problem, solution: DualSolution, pairs: Pairs, settings: SolveSettings
) -> np.ndarray:
    r"""Return keys of pairs outside ``pairs`` whose numerator :math:`b - T^*(y)` is positive.

    At most a few million come, those with the largest numerators.
    """
    largest = float(solution.values.max(initial=0.0))
    threshold = 2 * problem.curvature * settings.tol * max(1.0, largest)
    keys, sizes = [np.empty(0, np.int64)], [np.empty(0)]
    n_found = 0
    numerator: Implicit = problem.numerator(solution.dual)
    for tile in numerator.tiles(block_bytes=settings.block_bytes, device=settings.device):
        found, size = _positive(tile, threshold, problem)
        new = ~pairs.contains(found)
        keys.append(found[new])
        sizes.append(size[new])
        n_found += int(new.sum())
        if n_found > 2 * _MOST_JOINING:
            keys, sizes = _largest(keys, sizes)
            n_found = _MOST_JOINING
    keys, sizes = _largest(keys, sizes)
    return keys[0]


def _positive(tile: Tile, threshold: float, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return keys and sizes of the tile's entries above the threshold, each pair once."""
    wanted = tile.values > threshold
    if tile.on_diagonal:
        wanted = wanted.triu_(0 if problem.loops else 1)
    place = torch.nonzero(wanted.view(-1)).view(-1)
    size = tile.values.view(-1)[place].cpu().numpy()
    row, column = np.divmod(place.cpu().numpy(), tile.values.shape[1])
    return (row + tile.first_row) * problem.n_nodes + column + tile.first_column, size


def _largest(
    keys: list[np.ndarray], sizes: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Join the parts and keep the pairs with the largest numerators."""
    key, size = np.concatenate(keys), np.concatenate(sizes)
    if len(key) > _MOST_JOINING:
        kept = np.argpartition(-size, _MOST_JOINING)[:_MOST_JOINING]
        key, size = key[kept], size[kept]
    return [key], [size]
