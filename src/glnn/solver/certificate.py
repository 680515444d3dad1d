"""What is proven about a learned graph, computed from the graph alone."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.solver.implicit import BLOCK_BYTES, Implicit
from glnn.solver.pairs import pair_keys, upper_entries
from glnn.solver.problem import Problem

_ACCEPTED = 1e-6  # largest violation of a graph that is called converged, its entries about one


@dataclass(frozen=True)
class Certificate:
    r"""How far a graph is from the optimum of its problem.

    Parameters
    ----------
    max_violation
        The largest :math:`|a_{ij} - \max(0, b_{ij} - \sum_m T_m^*(y_m)_{ij})/(2\gamma)|` with
        :math:`y_m = 2 w_m (T_m(A)-\tau_m)` over the support; zero at the optimum and only there.
        Asymmetry, negative entries and entries outside the support count as violations.
    gap, relative_gap
        Objective minus a proven lower bound; the same over the size of the objective.
    objective
        The value of the objective, up to a constant.
    pairs_checked, n_pairs_checked
        The share and the number of all :math:`N(N+1)/2` pairs that were looked at.
    support
        ``all`` pairs may become edges, or only the ``candidates``.
    converged
        Whether the violation is at most 1e-6 (of the largest entry, if that is above one).
    reading
        The reading of the graph Laplacian regulariser.
    iterations, rounds
        Newton steps, and solves with a grown working set, where the caller knows them.
    notes
        What a user should know about this solve.
    """

    max_violation: float
    gap: float
    relative_gap: float
    objective: float
    pairs_checked: float
    n_pairs_checked: int
    support: str
    converged: bool
    reading: str
    iterations: int = 0
    rounds: int = 0
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        return {**dataclasses.asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Certificate":
        """Return the certificate that ``to_dict`` wrote."""
        return cls(**{**fields, "notes": tuple(fields.get("notes", ()))})

    def __str__(self) -> str:
        state = "optimal" if self.converged else "NOT optimal"
        return (
            f"{state}: largest violation {self.max_violation:.1e}, relative gap "
            f"{self.relative_gap:.1e} over {self.n_pairs_checked:,} pairs "
            f"({self.pairs_checked:.1%}, support {self.support!r}), {self.reading} reading, "
            f"{self.iterations} Newton steps in {self.rounds} rounds"
        )


def certify(
    problem: Problem,
    adjacency: sp.csr_matrix,
    *,
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
) -> Certificate:
    """Check a graph against every pair of the problem's support, trusting nothing of its making.

    Parameters
    ----------
    problem
        The problem the graph should solve.
    adjacency
        The graph, CSR.
    """
    adjacency = sp.csr_matrix(adjacency, dtype=np.float64)
    adjacency.sum_duplicates()
    dual = problem.dual_of(adjacency)
    numerator = problem.numerator(dual)
    if problem.support is None:
        residual, squares = _check_all(problem, numerator, adjacency, block_bytes, device)
        n_checked = problem.n_nodes * (problem.n_nodes + 1) // 2
    else:
        residual, squares = _check_support(problem, numerator, adjacency)
        n_checked = len(problem.support)
    return judged(
        problem,
        violation=max(residual, _malformed(adjacency)),
        primal=problem.primal_value(adjacency),
        bound=problem.dual_value(dual, squares),
        n_checked=n_checked,
        largest=float(np.abs(adjacency.data).max(initial=1.0)),
    )


def judged(
    problem: Problem,
    *,
    violation: float,
    primal: float,
    bound: float,
    n_checked: int,
    largest: float,
) -> Certificate:
    """Return the certificate of what was measured; ``largest`` is that entry, or one."""
    n_nodes = problem.n_nodes
    return Certificate(
        max_violation=violation,
        gap=primal - bound,
        relative_gap=(primal - bound) / max(1.0, abs(primal)),
        objective=primal,
        pairs_checked=n_checked / (n_nodes * (n_nodes + 1) / 2),
        n_pairs_checked=n_checked,
        support="all" if problem.support is None else "candidates",
        converged=violation <= _ACCEPTED * largest,
        reading=problem.reading,
    )


def _check_all(
    problem: Problem,
    numerator: Implicit,
    adjacency: sp.csr_matrix,
    block_bytes: int,
    device: str,
) -> tuple[float, float]:
    """Return the largest residual and the implied graph's sum of squares, tile by tile."""
    worst, squares = 0.0, 0.0
    for tile in numerator.tiles(block_bytes=block_bytes, device=device):
        implied = tile.values.clamp_(min=0).div_(2 * problem.curvature)
        if tile.on_diagonal and not problem.loops:
            implied.fill_diagonal_(0)
        flat = implied.view(-1)
        squares += float(flat @ flat) * (1 if tile.on_diagonal else 2)
        tile.add_sparse(adjacency, scale=-1.0)
        worst = max(worst, float(flat.max()), -float(flat.min()))
    return worst, squares


def _check_support(
    problem: Problem, numerator: Implicit, adjacency: sp.csr_matrix
) -> tuple[float, float]:
    """Return the same over the candidate pairs; an entry elsewhere is a violation by its size."""
    support = problem.support
    assert support is not None  # the caller has looked
    implied = np.maximum(numerator.on_pairs(support), 0.0) / (2 * problem.curvature)
    residual = np.abs(support.values_of(adjacency) - implied).max(initial=0.0)
    rows, columns, data = upper_entries(adjacency)
    outside = ~support.contains(pair_keys(problem.n_nodes, rows, columns))
    worst = max(float(residual), float(np.abs(data[outside]).max(initial=0.0)))
    return worst, float((support.counts * implied) @ implied)


def _malformed(adjacency: sp.csr_matrix) -> float:
    """Return the largest asymmetry or negative entry."""
    uneven = np.abs((adjacency - adjacency.T).data).max(initial=0.0)
    return float(max(uneven, -adjacency.data.min(initial=0.0)))
