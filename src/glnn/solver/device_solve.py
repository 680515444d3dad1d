"""The graph step on a device: pairs, offsets, Newton steps, wanted degree and certificate there.

It serves what a fit asks for: the trace reading on candidate pairs, with any prior graph, task and
wanted degree. Everything else is solved in NumPy.
"""

import dataclasses

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.peers import ALONE
from glnn.solver.degree import SEARCH_TOL, DegreeSearch, SparsityForDegree, degree_notes
from glnn.solver.device_certificate import certify_on_device
from glnn.solver.device_newton import DeviceProblem, largest
from glnn.solver.device_pairs import DeviceGraph, DevicePairs, device_keys, to_device
from glnn.solver.learned import Answer
from glnn.solver.penalties import Loops, RowSums
from glnn.solver.problem import Problem
from glnn.solver.support import SolverTask
from glnn.solver.working_set import SolveSettings


def can_be_resident(problem: Problem) -> bool:
    """Say whether the penalties are those that the device knows, all pairs in this process."""
    return problem.peers is ALONE and all(type(p) in (RowSums, Loops) for p in problem.penalties)


def solve_on_device(
    asked: SolverTask, settings: SolveSettings, warm: dict[str, np.ndarray] | None = None
) -> Answer:
    """Solve on the candidate pairs and check the solution, all of it on ``settings.device``."""
    problem, weights = asked.problem, asked.weights
    resident = device_problem(problem, asked.candidates, settings.device)
    addable = _addable(resident.pairs, asked.prior)
    dual, sparsity = warm, weights.sparsity
    if asked.target is not None:
        near = None if warm is None else SparsityForDegree(0.0, 0.0, warm)
        free = resident.shifted(sparsity)
        search = _DeviceSearch(free, addable, near)
        found = search.find(asked.target, problem.n_nodes, near)
        sparsity, dual = found.sparsity, found.dual
        resident, problem = free.shifted(-sparsity), problem.shifted(weights.sparsity - sparsity)
    solution = resident.solve(dual, tol=settings.tol, max_iter=settings.max_iter)
    n_added = int(torch.count_nonzero(solution.values * addable))
    degree = 2.0 * n_added / problem.n_nodes
    notes = () if asked.target is None else degree_notes(asked.target, degree, sparsity)
    graph = resident.pairs.compressed(solution.values)
    problem = dataclasses.replace(problem, support=resident.pairs.to_host())
    checked = certify_on_device(problem, resident, graph)
    return Answer(
        problem=problem,
        weights=weights.replace(sparsity=sparsity),
        adjacency=graph.to_host(),
        certificate=dataclasses.replace(
            checked, iterations=solution.iterations, rounds=1, notes=notes
        ),
        mean_added_degree=degree,
        dual={name: part.cpu().numpy() for name, part in solution.dual.items()},
    )


def device_problem(
    problem: Problem, candidates: tuple[np.ndarray, np.ndarray], device: str
) -> DeviceProblem:
    r"""Return the problem on its given edges, loops and candidates, offsets :math:`b` computed."""
    linear, n_nodes = problem.linear, problem.n_nodes
    first, second = (to_device(np.asarray(ends, dtype=np.int64), device) for ends in candidates)
    parts = [(first, second)] if problem.loops else [_off_diagonal(first, second)]
    if problem.loops:
        every = torch.arange(n_nodes, device=device)
        parts.append((every, every))
    known: tuple[Tensor, Tensor, Tensor] | None = None
    if linear.sparse is not None and linear.sparse.nnz:
        known = DeviceGraph.of(linear.sparse, device).upper()
        named = torch.nonzero(known[2]).view(-1)
        ends = (known[0][named], known[1][named])
        parts.append(ends if problem.loops else _off_diagonal(*ends))
    pairs = DevicePairs.union(n_nodes, parts)
    offsets = torch.full((len(pairs),), linear.constant, dtype=torch.float64, device=device)
    if linear.nodes.any():
        nodes = to_device(linear.nodes, device)
        offsets += nodes[pairs.i] + nodes[pairs.j]
    if linear.loop:
        offsets[pairs.loops] += linear.loop
    if known is not None:
        offsets += pairs.placed(device_keys(n_nodes, known[0], known[1]), known[2])
    for factor in linear.factors:
        offsets += factor.on_ends(pairs.i, pairs.j)
    return DeviceProblem.of(pairs, offsets, problem.curvature, problem.penalties)


def _off_diagonal(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    apart = first != second
    return first[apart], second[apart]


def _addable(pairs: DevicePairs, prior: sp.csr_matrix | None) -> Tensor:
    """Say which pairs are neither loops nor edges of the prior graph."""
    addable = pairs.i != pairs.j
    if prior is None:
        return addable
    given = DeviceGraph.of(prior, addable.device)
    place, known = pairs.places(device_keys(pairs.n_nodes, given.rows(), given.columns))
    marks = torch.ones(len(pairs) + 1, dtype=torch.bool, device=addable.device)
    marks[torch.where(known, place, len(pairs))] = False  # the last place is for edges elsewhere
    return addable & marks[:-1]


class _DeviceSearch(DegreeSearch):
    """The search over pairs on a device."""

    def __init__(
        self, problem: DeviceProblem, addable: Tensor, near: SparsityForDegree | None
    ) -> None:
        self.problem, self.addable = problem, addable
        self.dual = {} if near is None else near.dual

    def at(self, sparsity: float) -> tuple[float, float]:
        """Return the weight and the degree it gives."""
        solution = self.problem.shifted(-sparsity).solve(self.dual, tol=SEARCH_TOL)
        self.dual = solution.dual
        added = solution.values * self.addable
        self.largest = 2 * self.problem.curvature * largest(added)
        return sparsity, 2.0 * int(torch.count_nonzero(added)) / self.problem.pairs.n_nodes
