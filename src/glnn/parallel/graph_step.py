"""The graph step over several processes: each solves for its pairs, all share the dual point."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glnn.engine.settings import GraphSettings
from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.parallel.linear import KnownLinear
from glnn.parallel.pairs import Ends, dots, nearest_rows, own_pairs, rows_of
from glnn.parallel.penalties import Shared
from glnn.peers import Partition
from glnn.solver import FeatureSignal, TaskTerm
from glnn.solver.certificate import Certificate, judged
from glnn.solver.degree import DegreeGoal, solve_for_degree
from glnn.solver.implicit import Matrix
from glnn.solver.new_nodes import RowProblem
from glnn.solver.pairs import Pairs, upper_entries
from glnn.solver.penalties import Loops, Penalty, RowSums
from glnn.solver.problem import Problem, checked_curvature
from glnn.solver.signals import joined, prediction_signal
from glnn.solver.working_set import Solved, SolveSettings, solve_problem


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """What a process gives to the graph step: its rows.

    Parameters
    ----------
    features
        Features of its rows.
    prior
        Its rows of the prior graph (CSR, rows x N), or ``None``.
    predictions, task, column_weights
        What the last classifier adds; see :func:`glnn.learn_graph`.
    candidates
        This process's pairs of an earlier search, or ``None``.
    """

    features: Matrix
    prior: sp.csr_matrix | None = None
    predictions: np.ndarray | None = None
    task: TaskTerm | None = None
    column_weights: np.ndarray | None = None
    candidates: Ends | None = None


@dataclass(frozen=True, eq=False)
class LearnedRows:
    """The answer of :func:`learn_rows`: this process's rows of it.

    ``rows`` is the one-row problem of new nodes with the signals of this process's rows alone;
    its prior graph is filled in when the parts are collected.
    """

    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    certificate: Certificate
    candidates: Ends
    rows: RowProblem


def learn_rows(partition: Partition, inputs: GraphInputs, settings: GraphSettings) -> LearnedRows:
    """Learn the graph as :func:`glnn.learn_graph` does, rows and pairs spread over processes."""
    _refuse(settings)
    transform = FeatureSignal.fit(
        settings.signal, inputs.features, inputs.column_weights, partition.peers
    )
    base = signals = transform.transform(inputs.features)
    if inputs.predictions is not None:
        weight = settings.prediction_weight
        signals = joined(base, prediction_signal(inputs.predictions, weight, partition.n_rows))
    candidates = inputs.candidates
    if candidates is None:
        width = min(settings.n_candidates, partition.n_nodes - 1)
        found = own_pairs(partition, [nearest_rows(partition, base, width)])
        candidates = (found.i, found.j)
    own_prior = None if inputs.prior is None else partition.own_pairs(inputs.prior)
    pairs = _support(partition, candidates, own_prior)
    problem = _problem(partition, inputs, signals, own_prior, pairs, settings.weights)
    weights, solved, notes = _solved(problem, pairs, own_prior, settings)
    problem = problem.shifted(settings.weights.sparsity - weights.sparsity)
    certificate = dataclasses.replace(
        certified(problem, pairs, solved.solution.values),
        iterations=solved.iterations,
        rounds=solved.rounds,
        notes=notes,
    )
    adjacency = rows_of(partition, pairs, solved.solution.values)
    rows = RowProblem(
        transform=transform,
        signal=signals,
        metric=np.array(weights.smoothness),
        row_sums=partition.everyone(np.asarray(adjacency.sum(1)).ravel()),
        trace=partition.peers.all_reduce(float(adjacency.diagonal(partition.start).sum())),
        weights=weights,
        has_loops=True,
        n_candidates=min(settings.n_candidates, partition.n_nodes - 1),
    )
    return LearnedRows(adjacency, inputs.prior, certificate, candidates, rows)


def _refuse(settings: GraphSettings) -> None:
    if settings.reading != "trace" or settings.support != "candidates":
        raise InputError(
            "a fit over several processes must have reading='trace' and support='candidates', "
            f"got {settings.reading!r} and {settings.support!r}. Start one process instead."
        )


def _support(partition: Partition, candidates: Ends, prior: sp.csr_matrix | None) -> Pairs:
    """Return this process's pairs that may become edges: candidates, loops, given edges."""
    loops = np.arange(partition.start, partition.stop)
    parts = [candidates, (loops, loops)]
    if prior is not None:
        parts.append(upper_entries(prior)[:2])
    return Pairs.union(partition.n_nodes, parts)


def _problem(
    partition: Partition,
    inputs: GraphInputs,
    signals: Matrix,
    prior: sp.csr_matrix | None,
    pairs: Pairs,
    weights: Weights,
) -> Problem:
    r"""Return the problem on this process's pairs; see :func:`glnn.solver.problem.build_problem`.

    .. math:: b_{ij} = 2\alpha g_{ij} - \lambda_1 - c_{ij} + \lambda_0\, s_i \cdot s_j
    """
    n_nodes, peers = partition.n_nodes, partition.peers
    known = np.zeros(len(pairs))
    if prior is not None:
        known += 2 * weights.closeness * pairs.values_of(prior)
    if inputs.task is not None:
        factor = inputs.task.factor()
        known += dots(partition, factor.left, factor.right, pairs)
    if weights.smoothness > 0:
        known += dots(partition, signals * weights.smoothness, signals, pairs)
    every: list[Penalty] = [RowSums(n_nodes, weights.row_sums), Loops(n_nodes, weights.loops)]
    return Problem(
        KnownLinear(np.zeros(n_nodes), constant=-weights.sparsity, pairs=pairs, known=known),
        checked_curvature((0.0 if prior is None else weights.closeness) + weights.ridge),
        tuple(Shared(penalty, peers) for penalty in every if penalty.weight > 0),
        "trace",
        support=pairs,
        peers=peers,
    )


def _solved(
    problem: Problem, pairs: Pairs, prior: sp.csr_matrix | None, settings: GraphSettings
) -> tuple[Weights, Solved, tuple[str, ...]]:
    """Return the weights with the sparsity that was found, the solution and what to know of it."""
    weights, target = settings.weights, settings.n_neighbors
    if target is None:
        return weights, solve_problem(problem, pairs, SolveSettings()), ()
    free = problem.shifted(weights.sparsity)
    goal = DegreeGoal(target, prior)
    sparsity, solved, notes = solve_for_degree(free, pairs, goal, SolveSettings())
    return weights.replace(sparsity=sparsity), solved, notes


def certified(problem: Problem, pairs: Pairs, values: np.ndarray) -> Certificate:
    """Check the graph on every pair of the support, from its values alone."""
    peers = problem.peers
    maps = {penalty.name: penalty.on(pairs).apply(values) for penalty in problem.penalties}
    misfits = {p.name: maps[p.name] - p.target for p in problem.penalties}
    dual = {p.name: 2 * p.weight * misfits[p.name] for p in problem.penalties}
    implied = np.maximum(problem.numerator(dual).on_pairs(pairs), 0.0) / (2 * problem.curvature)
    residual = float(np.abs(values - implied).max(initial=0.0))
    violation = peers.all_reduce(max(residual, -float(values.min(initial=0.0))), "max")
    gains = problem.linear.on_pairs(pairs)
    own = (pairs.counts * values * (problem.curvature * values - gains)).sum()
    primal = peers.all_reduce(float(own))
    primal += sum(p.weight * float(misfits[p.name] @ misfits[p.name]) for p in problem.penalties)
    squares = peers.all_reduce(float((pairs.counts * implied) @ implied))
    return judged(
        problem,
        violation=violation,
        primal=primal,
        bound=problem.dual_value(dual, squares),
        n_checked=int(peers.all_reduce(float(len(pairs)))),
        largest=max(1.0, peers.all_reduce(float(values.max(initial=0.0)), "max")),
    )
