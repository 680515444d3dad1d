"""``learn_graph``: the exact minimiser of the graph objective."""

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice, check_integer, check_number
from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.solver.candidates import nearest
from glnn.solver.certificate import certify
from glnn.solver.degree import DegreeGoal, added_degree, solve_for_degree
from glnn.solver.implicit import BLOCK_BYTES
from glnn.solver.inputs import GraphInputs
from glnn.solver.learned import LearnedGraph
from glnn.solver.new_nodes import RowProblem
from glnn.solver.pairs import Pairs
from glnn.solver.problem import Problem, TaskTerm, build_problem
from glnn.solver.working_set import Solved, SolveSettings, solve_problem

SUPPORTS = ("all", "candidates")
_DEFAULT_NEIGHBORS = 10


def learn_graph(
    X: Any,
    graph: Any = None,
    *,
    n_neighbors: float | int | None = None,
    weights: Weights | None = None,
    reading: str = "trace",
    signal: str = "l2",
    column_weights: Any = None,
    predictions: Any = None,
    prediction_weight: float | int = 3.0,
    prior: str = "renormalized",
    support: str = "all",
    n_candidates: int = 20,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
    task: TaskTerm | None = None,
    proximal: tuple[float | int, sp.csr_matrix] | None = None,
    loops: bool = True,
    tol: float = 1e-8,
    max_iter: int = 100,
    search: str = "auto",
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
    start: LearnedGraph | None = None,
) -> LearnedGraph:
    r"""Learn the graph that minimises the objective over symmetric :math:`A \ge 0`, exactly.

    .. math:: \lambda_0 GLR(A) + \lambda_1\|A\|_1 + \lambda_3\|A1-1\|^2
              + \lambda_4 \operatorname{tr}(A)^2 + \alpha\|A-G\|^2 + \beta\|A\|^2
              + \langle C, A\rangle

    Parameters
    ----------
    X
        Features, nodes x columns, dense or sparse.
    graph
        A given graph (see :func:`glnn.graph.as_adjacency`), or ``None``.
    n_neighbors
        Wanted mean degree of the edges that the prior graph lacks; sets :math:`\lambda_1`.
        Default: 10 if there is neither a graph nor weights, otherwise the weights decide.
    weights
        Weights of the terms. Default: the paper's with a graph, ``Weights.without_prior()``
        without one. Without a graph ``closeness`` plays no part.
    reading
        ``trace``, ``channel`` or ``frobenius``.
    signal
        How features become signals: ``l2``, ``idf``, ``standardized`` or ``raw``.
    column_weights
        Weights of a metric over the columns of ``X``; ``None``: all count alike.
    predictions, prediction_weight
        Class probabilities of every node that join the signals, and their weight.
    prior
        How the prior graph is made from the given one: ``binary``, ``symmetric``,
        ``renormalized`` or ``pagerank``.
    support
        ``all``: any pair may become an edge, and every pair is checked. ``candidates``: only
        given edges, loops and the ``n_candidates`` most similar rows of each node.
    n_candidates, candidates, search
        Size of the feature search, its pairs if they are known already, and its method.
    task
        The linear term C of a task, of low rank.
    proximal
        A weight and an earlier adjacency matrix to stay close to.
    loops
        Whether nodes may have loops.
    tol, max_iter
        Accuracy of the entries, and the most Newton steps of one solve.
    block_bytes, device
        Memory for one block of pairs, and where dense blocks are computed.
    start
        An earlier answer to start from; changes the time, not the result.

    Examples
    --------
    >>> learned = learn_graph(np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]]), n_neighbors=1)
    >>> learned.certificate.converged
    True
    """
    settings = SolveSettings(tol, max_iter, block_bytes, device)
    check_choice("support", support, SUPPORTS)
    inputs = GraphInputs.read(
        X,
        graph,
        signal=signal,
        column_weights=column_weights,
        prior=prior,
        predictions=None if predictions is None else (predictions, prediction_weight),
    )
    weights, target = _resolved(weights, n_neighbors, inputs.prior)
    problem = build_problem(
        inputs.signals,
        inputs.prior,
        weights,
        reading,
        task=task,
        proximal=proximal,
        loops=loops,
        device=device,
    )
    if candidates is None:
        width = _search_width(n_candidates, target, support)
        candidates = nearest(
            inputs.base, width, search=search, block_bytes=block_bytes, device=device
        )
    pairs = starting_pairs(problem, candidates)
    if support == "candidates":
        problem = dataclasses.replace(problem, support=pairs)
    warm = None if start is None else start.dual
    notes: tuple[str, ...] = ()
    if target is None:
        solved = solve_problem(problem, pairs, settings, warm)
    else:
        free = problem.shifted(weights.sparsity)
        goal = DegreeGoal(target, inputs.prior)
        found, solved, notes = solve_for_degree(free, pairs, goal, settings, warm)
        weights, problem = weights.replace(sparsity=found), free.shifted(-found)
    certified = (problem, weights, notes, candidates, n_candidates)
    return _learned(inputs, solved, settings, *certified)


def _learned(
    inputs: GraphInputs,
    solved: Solved,
    settings: SolveSettings,
    problem: Problem,
    weights: Weights,
    notes: tuple[str, ...],
    candidates: tuple[np.ndarray, np.ndarray],
    n_candidates: int,
) -> LearnedGraph:
    """Check the solution on its own, and put everything known about it together."""
    adjacency = solved.pairs.to_csr(solved.solution.values)
    checked = certify(problem, adjacency, block_bytes=settings.block_bytes, device=settings.device)
    certificate = dataclasses.replace(
        checked, iterations=solved.iterations, rounds=solved.rounds, notes=notes
    )
    row_sums = np.asarray(adjacency.sum(1)).ravel()
    rows = RowProblem(
        transform=inputs.transform,
        signal=inputs.signals,
        metric=problem.metric(solved.solution.dual, weights.smoothness),
        row_sums=row_sums,
        trace=float(adjacency.diagonal().sum()),
        weights=weights,
        prior=inputs.prior_rows,
        has_loops=problem.loops,
        n_candidates=None if problem.support is None else n_candidates,
    )
    return LearnedGraph(
        adjacency=adjacency,
        prior=inputs.prior,
        certificate=certificate,
        weights=weights,
        reading=problem.reading,
        row_sums=row_sums,
        mean_added_degree=added_degree(solved.pairs, solved.solution.values, inputs.prior),
        dual=solved.solution.dual,
        candidates=candidates,
        problem=problem,
        rows=rows,
    )


def starting_pairs(problem: Problem, candidates: tuple[np.ndarray, np.ndarray]) -> Pairs:
    """Return the pairs of the sparse linear term, the loops and the candidates."""
    every = np.arange(problem.n_nodes)
    first, second = np.asarray(candidates[0]), np.asarray(candidates[1])
    for ends in (first, second):
        if ends.size and (ends.min() < 0 or ends.max() >= problem.n_nodes):
            raise InputError(
                f"candidates must hold node numbers in [0, {problem.n_nodes}), "
                f"got {ends.min()} to {ends.max()}."
            )
    parts = [(first, second), (every, every)]
    if problem.linear.sparse is not None:
        parts.append(problem.linear.sparse.nonzero())
    pairs = Pairs.union(problem.n_nodes, parts)
    return pairs if problem.loops else pairs.select(pairs.i != pairs.j)


def _resolved(
    weights: Weights | None, n_neighbors: float | int | None, prior: sp.csr_matrix | None
) -> tuple[Weights, float | int | None]:
    """Return the weights and the wanted degree, defaults filled in."""
    if n_neighbors is not None:
        check_number("n_neighbors", n_neighbors, low=0, open_low=True)
    if weights is None and prior is None:
        return Weights.without_prior(), n_neighbors or _DEFAULT_NEIGHBORS
    return weights or Weights.paper(), n_neighbors


def _search_width(n_candidates: int, target: float | int | None, support: str) -> int:
    """Return how many similar rows to find; to begin with, enough for the wanted degree."""
    width = check_integer("n_candidates", n_candidates, low=0)
    if support == "all" and target is not None:
        return max(width, math.ceil(1.5 * target))
    return width
