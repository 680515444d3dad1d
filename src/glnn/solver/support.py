"""What a solver is asked, and the pairs it begins with."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.solver.pairs import Pairs
from glnn.solver.problem import Problem

Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class SolverTask:
    """A problem, what its weights and prior graph are, and where to look.

    Parameters
    ----------
    problem, weights, prior
        The problem in standard form, the weights it was made from, and its prior graph.
    candidates
        The pairs (i, j) of the feature search, in whichever direction.
    target
        Wanted mean degree of the edges that the prior graph lacks; ``None``: the weights decide.
    """

    problem: Problem
    prior: sp.csr_matrix | None
    candidates: Ends
    weights: Weights
    target: float | int | None = None

    def __post_init__(self) -> None:
        n_nodes = self.problem.n_nodes
        for ends in map(np.asarray, self.candidates):
            if ends.size and (ends.min() < 0 or ends.max() >= n_nodes):
                raise InputError(
                    f"candidates must hold node numbers in [0, {n_nodes}), "
                    f"got {ends.min()} to {ends.max()}."
                )


def starting_pairs(problem: Problem, candidates: Ends) -> Pairs:
    """Return the pairs of the sparse linear term, the loops and the candidates."""
    every = np.arange(problem.n_nodes)
    parts = [(np.asarray(candidates[0]), np.asarray(candidates[1])), (every, every)]
    if problem.linear.sparse is not None:
        parts.append(problem.linear.sparse.nonzero())
    pairs = Pairs.union(problem.n_nodes, parts)
    return pairs if problem.loops else pairs.select(pairs.i != pairs.j)
