"""What is proven about a learned graph, computed from the graph alone."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.exceptions import InputError
from glnn.graph.pairs import Implicit, Pairs, pair_keys, pair_owners, sent, sorted_distinct
from glnn.graph.rows import BLOCK_BYTES, to_device
from glnn.solver.problem import Dual, Problem, largest, unit

_ACCEPTED = 1e-6  # largest violation of a graph that is called converged, in its own unit
_MOST_ROUNDING = 1e-4  # ... where rounding makes more, up to this
_EPSILON = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Certificate:
    r"""How far a graph is from the optimum of its problem.

    Parameters
    ----------
    max_violation
        The largest :math:`|a_{ij} - \max(0, b_{ij} - \sum_m T_m^*(y_m)_{ij})/(2\gamma)|` with
        :math:`y_m = 2 w_m (T_m(A)-\tau_m)` over the support; zero at the optimum and only there.
        Asymmetry, negative entries and entries outside the support count as violations, and an
        entry that is not finite as an infinite one.
    gap, relative_gap
        Objective minus a proven lower bound; the same over the size of the objective.
    objective
        The value of the objective, up to a constant.
    pairs_checked, n_pairs_checked
        The share and the number of all :math:`N(N+1)/2` pairs that were looked at.
    support
        ``all`` pairs may become edges, or only the ``candidates``.
    converged
        Whether the violation is at most 1e-6 (of the largest entry, if that is above one; of a
        hundred times that entry, if it is below 0.01). Where a penalty is so strong that rounding
        alone makes more, as much as that, but at most 1e-4.
    reading
        The reading of the graph Laplacian regulariser: ``trace``, ``channel`` or ``frobenius``.
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
    reading: str = "trace"
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
            f"Newton steps: {self.iterations}, rounds: {self.rounds}"
        )


def certify(
    problem: Problem, adjacency: sp.csr_matrix, *, block_bytes: int = BLOCK_BYTES
) -> Certificate:
    """Check a graph against every pair of the problem's support, trusting nothing of its making.

    Parameters
    ----------
    problem
        The problem the graph should solve.
    adjacency
        The graph, CSR; over several processes, this one's rows of it.
    block_bytes
        Memory for one block of pairs.
    """
    peers, support = problem.partition.peers, problem.support
    stored = _Stored.of(problem, adjacency)
    if not stored.is_finite:
        return _judged(problem, math.inf, math.nan, math.nan, measure=1.0)
    images = problem.images(stored.pairs, stored.values)
    dual = problem.dual_of(images)
    correction = problem.correction(dual)
    whole = problem.linear + correction
    known = _known_pairs(problem, stored.pairs, whole)
    gains, place = problem.linear.on_pairs(known), known.places(stored.pairs.keys)[0]
    numerator = gains + correction.on_pairs(known)
    implied = numerator.clamp_(min=0).div_(2 * problem.curvature).mul_(_allowed(problem, known))
    residual = implied.index_add(0, place, stored.values, alpha=-1)
    # a negative entry is further from the implied one, which is not, than from zero
    worst = max(largest(residual.abs()), stored.uneven)
    squares = float((known.counts * implied).dot(implied))
    if problem.support is None:
        beyond, more = _swept(problem, whole, known, block_bytes)
        worst, squares = max(worst, beyond), squares + more
    return _judged(
        problem,
        peers.all_reduce(worst, "max"),
        problem.primal_value(stored.pairs, stored.values, images, gains.index_select(0, place)),
        problem.dual_value(dual, peers.all_reduce(squares)),
        measure=unit(
            peers.all_reduce(max(largest(stored.values.abs()), largest(implied)), "max"),
            peers.all_reduce(largest(gains.abs()), "max") / (2 * problem.curvature),
        ),
        rounding=_rounding(problem, images, known),
        n_checked=None if support is None else int(peers.all_reduce(float(len(support)))),
    )


@dataclass(frozen=True, eq=False)
class _Stored:
    """A graph as it is handed over: the pairs with an entry, their weights, and faults.

    Parameters
    ----------
    pairs, values
        This process's pairs, and the entries of the upper triangle there.
    uneven
        The largest asymmetry.
    is_finite
        Whether all entries of all processes are.
    """

    pairs: Pairs
    values: Tensor
    uneven: float
    is_finite: bool

    @classmethod
    def of(cls, problem: Problem, adjacency: sp.csr_matrix) -> "_Stored":
        part, shape = problem.partition, (problem.partition.n_rows, problem.n_nodes)
        if np.shape(adjacency) != shape:
            raise InputError(
                f"adjacency must have {shape[0]} rows and {shape[1]} columns, "
                f"got shape {np.shape(adjacency)}."
            )
        coo = sp.coo_matrix(adjacency, dtype=np.float64)
        rows, columns = (
            to_device(index.astype(np.int64), problem.device) for index in (coo.row, coo.col)
        )
        values = to_device(coo.data, problem.device)
        is_bad = 0.0 if bool(torch.isfinite(values).all()) else 1.0
        is_finite = part.peers.all_reduce(is_bad, "max") == 0
        rows = rows + part.start
        rows, columns, values = sent(part, pair_owners(part, rows, columns), rows, columns, values)
        keys = pair_keys(problem.n_nodes, rows, columns)
        pairs = Pairs.from_keys(part, sorted_distinct(keys))
        triangles = values.new_zeros(2, len(pairs))
        triangles.index_put_(((rows > columns).long(), pairs.places(keys)[0]), values, True)
        uneven = torch.where(pairs.i == pairs.j, 0.0, triangles[0] - triangles[1]).abs()
        return cls(pairs, triangles[0], largest(uneven), is_finite)


def _rounding(problem: Problem, images: Dual, known: Pairs) -> float:
    r"""Return what the last bits of :math:`T(A)` and :math:`\tau` alone make of a violation.

    A penalty that is very strong beside the curvature turns them into much larger numbers.
    """
    errors = {
        p.name: 2 * p.weight * _EPSILON * (images[p.name].abs() + p.target.abs())
        for p in problem.penalties
    }
    own = largest(problem.correction(errors).on_pairs(known).abs())
    return problem.partition.peers.all_reduce(own, "max") / (2 * problem.curvature)


def _known_pairs(problem: Problem, stored: Pairs, numerator: Implicit) -> Pairs:
    """Return the pairs with an entry and those of the support that are listed.

    Where all pairs may be edges, those that a term names are listed, and the rest is swept over.
    """
    keys, sparse = [stored.keys], numerator.sparse
    if problem.support is not None:
        if bool(problem.support.contains(stored.keys).all()):
            return problem.support
        keys.append(problem.support.keys)
    elif sparse is not None:
        keys.append(sparse.pairs.keys)
    return Pairs.from_keys(problem.partition, sorted_distinct(torch.cat(keys)))


def _allowed(problem: Problem, pairs: Pairs) -> Tensor:
    """Say which pairs are in the support."""
    if problem.support is pairs:
        return torch.ones_like(pairs.counts)
    allowed = torch.ones_like(pairs.i, dtype=torch.bool) if problem.loops else pairs.i != pairs.j
    if problem.support is not None:
        allowed &= problem.support.contains(pairs.keys)
    return allowed.double()


def _swept(
    problem: Problem, numerator: Implicit, known: Pairs, block_bytes: int
) -> tuple[float, float]:
    """Return the largest entry of the implied graph beyond the known pairs, and all squares."""
    part, worst, squares = problem.partition, 0.0, 0.0
    met = known.where_swept()
    for tile in numerator.tiles(part, problem.device, block_bytes=block_bytes):
        tile.fill(met, 0.0)
        implied = tile.values.clamp_(min=0).div_(2 * problem.curvature)
        if tile.on_diagonal and not problem.loops:
            implied.fill_diagonal_(0)
        flat = implied.view(-1)
        squares += float(flat.dot(flat)) * (1 if tile.on_diagonal else 2)
        worst = max(worst, largest(flat))
    return worst, squares


def _judged(
    problem: Problem,
    violation: float,
    primal: float,
    bound: float,
    *,
    measure: float,
    rounding: float = 0.0,
    n_checked: int | None = None,
) -> Certificate:
    """Return the certificate of what was found; ``measure`` is what violations are held against."""
    accepted = min(max(_ACCEPTED * measure, rounding), _MOST_ROUNDING * measure)
    n_pairs = problem.n_nodes * (problem.n_nodes + 1) // 2
    n_checked = n_pairs if n_checked is None else n_checked
    return Certificate(
        max_violation=violation,
        gap=primal - bound,
        relative_gap=(primal - bound) / max(1.0, abs(primal)),
        objective=primal,
        pairs_checked=n_checked / n_pairs,
        n_pairs_checked=n_checked,
        support="all" if problem.support is None else "candidates",
        converged=violation <= accepted and math.isfinite(primal - bound),
    )
