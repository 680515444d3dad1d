"""``learn_graph``: the exact minimiser of the graph objective."""

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice, check_integer, check_number
from glnn.objective import Weights
from glnn.solver.candidates import nearest
from glnn.solver.certificate import certify
from glnn.solver.degree import DegreeGoal, added_degree, solve_for_degree
from glnn.solver.device_solve import can_be_resident, solve_on_device
from glnn.solver.implicit import BLOCK_BYTES
from glnn.solver.inputs import GraphInputs
from glnn.solver.learned import Answer, LearnedGraph
from glnn.solver.new_nodes import RowProblem
from glnn.solver.problem import TaskTerm, build_problem
from glnn.solver.support import SolverTask, starting_pairs
from glnn.solver.working_set import SolveSettings, solve_problem

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
        A given graph (see :func:`glnn.graph.as_adjacency`), or ``None``. One that many calls
        share may be prepared: :class:`glnn.solver.inputs.GivenGraph`, which has its ``prior``.
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
    asked = SolverTask(problem, inputs.prior, candidates, weights, target)
    warm = None if start is None else start.dual
    if support == "candidates" and device != "cpu" and can_be_resident(problem):
        answer = solve_on_device(asked, settings, warm)
    else:
        answer = _solve_on_host(asked, support, settings, warm)
    return _learned(inputs, answer, candidates, n_candidates)


def _solve_on_host(
    asked: SolverTask,
    support: str,
    settings: SolveSettings,
    warm: dict[str, np.ndarray] | None,
) -> Answer:
    """Solve in NumPy, and check the solution on its own."""
    problem, weights = asked.problem, asked.weights
    pairs = starting_pairs(problem, asked.candidates)
    if support == "candidates":
        problem = dataclasses.replace(problem, support=pairs)
    notes: tuple[str, ...] = ()
    if asked.target is None:
        solved = solve_problem(problem, pairs, settings, warm)
    else:
        free = problem.shifted(weights.sparsity)
        goal = DegreeGoal(asked.target, asked.prior)
        found, solved, notes = solve_for_degree(free, pairs, goal, settings, warm)
        weights, problem = weights.replace(sparsity=found), free.shifted(-found)
    adjacency = solved.pairs.to_csr(solved.solution.values)
    checked = certify(problem, adjacency, block_bytes=settings.block_bytes, device=settings.device)
    certificate = dataclasses.replace(
        checked, iterations=solved.iterations, rounds=solved.rounds, notes=notes
    )
    degree = added_degree(solved.pairs, solved.solution.values, asked.prior)
    return Answer(problem, weights, adjacency, certificate, degree, solved.solution.dual)


def _learned(
    inputs: GraphInputs,
    answer: Answer,
    candidates: tuple[np.ndarray, np.ndarray],
    n_candidates: int,
) -> LearnedGraph:
    """Put everything known about the solution together."""
    problem, adjacency = answer.problem, answer.adjacency
    row_sums = np.asarray(adjacency.sum(1)).ravel()
    rows = RowProblem(
        transform=inputs.transform,
        signal=inputs.signals,
        metric=problem.metric(answer.dual, answer.weights.smoothness),
        row_sums=row_sums,
        trace=float(adjacency.diagonal().sum()),
        weights=answer.weights,
        prior=inputs.prior_rows,
        has_loops=problem.loops,
        n_candidates=None if problem.support is None else n_candidates,
    )
    return LearnedGraph(
        adjacency=adjacency,
        prior=inputs.prior,
        certificate=answer.certificate,
        weights=answer.weights,
        reading=problem.reading,
        row_sums=row_sums,
        mean_added_degree=answer.mean_added_degree,
        dual=answer.dual,
        candidates=candidates,
        problem=problem,
        rows=rows,
    )


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
