"""``learn_graph``: the exact minimiser of the graph objective."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn._validation import check_choice, check_integer, check_number
from glnn.graph.prior import PRIORS, PriorKind
from glnn.graph.row_base import BLOCK_BYTES
from glnn.objective import READINGS, Reading, Term, Weights
from glnn.objective.objective import checked_terms
from glnn.peers import ALONE, Peers
from glnn.solver.candidates import SEARCHES, Ends, Search, nearest_pairs
from glnn.solver.certificate import Certificate, certify
from glnn.solver.degree import DegreeGoal, added_degree, solve_for_degree
from glnn.solver.dual import WorkingProblem
from glnn.solver.inputs import GraphInputs
from glnn.solver.learned import LearnedGraph
from glnn.solver.new_rows import NewRowProblem
from glnn.solver.problem import Problem
from glnn.solver.signals import SIGNALS, SignalKind
from glnn.solver.stage import Stage, checked_candidates, given_terms, own_pairs
from glnn.solver.task_term import TaskTerm
from glnn.solver.working_set import Solved, SolveSettings, solve_problem

Support = Literal["all", "candidates"]
"""Which pairs may become edges."""

SUPPORTS: tuple[Support, ...] = get_args(Support)
_DEFAULT_NEIGHBORS = 10
_ROUNDING = (
    "rounding: a penalty is very strong beside the curvature. Scale the signals (signal='l2'), "
    "or weigh smoothness less"
)


def learn_graph(
    X: Any,
    graph: Any = None,
    *,
    n_neighbors: float | int | None = None,
    weights: Weights | None = None,
    reading: Reading = "trace",
    signal: SignalKind = "l2",
    column_weights: Any = None,
    predictions: Any = None,
    prediction_weight: float | int = 3.0,
    prior: PriorKind = "renormalized",
    support: Support = "all",
    n_candidates: int = 20,
    candidates: Ends | None = None,
    task: TaskTerm | None = None,
    proximal: tuple[float | int, sp.csr_matrix] | None = None,
    terms: Sequence[Term] = (),
    loops: bool = True,
    tol: float = 1e-8,
    max_iter: int = 100,
    search: Search = "auto",
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
    start: LearnedGraph | None = None,
    peers: Peers = ALONE,
) -> LearnedGraph:
    r"""Learn the graph that minimises the objective over symmetric :math:`A \ge 0`, exactly.

    .. math:: \lambda_0 GLR(A) + \lambda_1\|A\|_1 + \lambda_3\|A1-1\|^2
              + \lambda_4 \operatorname{tr}(A)^2 + \alpha\|A-G\|^2 + \beta\|A\|^2
              + \langle C, A\rangle

    Parameters
    ----------
    X
        Features, nodes x columns, dense or sparse. Over several processes each gives its block of
        rows, as :class:`glnn.peers.Partition` cuts them.
    graph
        A given graph (see :func:`glnn.graph.as_adjacency`), or ``None``. One that many calls
        share may be prepared: :class:`glnn.solver.inputs.GivenGraph`, which has its ``prior``.
        Over several processes, this one's rows of the matrix (CSR).
    n_neighbors
        Wanted mean degree of the edges that the prior graph lacks, above 0; sets
        :math:`\lambda_1`. Default: 10 if there is neither a graph nor weights, otherwise the
        weights decide.
    weights
        Weights of the terms. Default: the paper's with a graph, ``Weights.without_prior()``
        without one. Without a graph ``closeness`` plays no part.
    reading
        ``trace`` (default), ``channel`` or ``frobenius``.
    signal
        How features become signals: ``l2`` (default), ``idf``, ``standardized`` or ``raw``.
    column_weights
        Weights of a metric over the columns of ``X``, at least 0; ``None``: all count alike.
    predictions, prediction_weight
        Class probabilities of every node that join the signals, and their weight (default 3).
    prior
        How the prior graph is made from the given one: ``binary``, ``symmetric``,
        ``renormalized`` (default) or ``pagerank``.
    support
        ``all`` (default): any pair may become an edge, and every pair is checked. ``candidates``:
        only given edges, loops and the ``n_candidates`` most similar rows of each node.
    n_candidates, candidates, search
        Size of the feature search (default 20), its pairs if they are known already, and its
        method (see :func:`nearest`).
    task
        The linear term C of a task, of low rank.
    proximal
        A weight and an earlier adjacency matrix to stay close to.
    terms
        Further terms of the objective.
    loops
        Whether nodes may have loops.
    tol, max_iter
        Accuracy of the entries (1e-8), and the most Newton steps of one solve (100).
    block_bytes, device
        Memory for one block of pairs on the host, and where everything is computed.
    start
        An earlier answer to start from; changes the time, not the result.
    peers
        The processes of one fit. Rows and pairs are spread over them, and the graph is the same
        for any number of them.

    Examples
    --------
    >>> learned = learn_graph(np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]]), n_neighbors=1)
    >>> learned.certificate.converged
    True
    """
    settings = SolveSettings(tol, max_iter, block_bytes, device)
    check_choice("reading", reading, READINGS)
    check_choice("signal", signal, SIGNALS)
    check_choice("prior", prior, PRIORS)
    check_choice("support", support, SUPPORTS)
    check_choice("search", search, SEARCHES)
    inputs = GraphInputs.read(
        X,
        graph,
        signal=signal,
        column_weights=column_weights,
        prior=prior,
        predictions=None if predictions is None else (predictions, prediction_weight),
        peers=peers,
    )
    weights, target = _resolved(weights, n_neighbors, inputs.prior)
    more = [*checked_terms(terms), *given_terms(inputs.partition, device, task, proximal)]
    stage = Stage.of(inputs, weights, reading, more, loops=loops, device=device)
    if candidates is None:
        width = _search_width(n_candidates, target, support)
        found = nearest_pairs(stage.base, width, search=search, block_bytes=block_bytes)
    else:
        found = checked_candidates(candidates, inputs.partition.n_nodes, device)
    asked = _Asked(support, n_candidates, target, weights, reading)
    warm = (
        None
        if start is None
        else {k: torch.from_numpy(v).to(device) for k, v in start.dual.items()}
    )
    return _solved(stage, asked, own_pairs(inputs.partition, found), settings, warm)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What the caller wants besides the problem."""

    support: Support
    n_candidates: int
    target: float | int | None
    weights: Weights
    reading: Reading


def _solved(
    stage: Stage,
    asked: _Asked,
    candidates: tuple[Tensor, Tensor],
    settings: SolveSettings,
    warm: dict[str, Tensor] | None,
) -> LearnedGraph:
    """Solve, check the solution on its own, and put everything known about it together."""
    problem, weights = stage.problem, asked.weights
    pairs = problem.starting_pairs(candidates)
    if asked.support == "candidates":
        problem = dataclasses.replace(problem, support=pairs)
    notes: tuple[str, ...] = ()
    if asked.target is None:
        solved = solve_problem(problem, WorkingProblem.of(problem, pairs), settings, warm)
    else:
        goal = DegreeGoal(asked.target, stage.given)
        sparsity, solved, notes = solve_for_degree(problem, pairs, goal, settings, warm)
        weights = weights.replace(sparsity=sparsity)
        problem = problem.for_degree(sparsity)
    adjacency = solved.pairs.to_csr(solved.solution.values)
    certificate = _certified(problem, adjacency, solved, notes, asked, settings)
    dual = solved.solution.dual
    partition = stage.inputs.partition
    return LearnedGraph(
        adjacency=adjacency,
        prior=stage.inputs.prior,
        certificate=certificate,
        weights=weights,
        reading=asked.reading,
        row_sums=partition.everyone(np.asarray(adjacency.sum(1)).ravel()),
        mean_added_degree=added_degree(solved.pairs, solved.solution.values, stage.given),
        dual={name: part.cpu().numpy() for name, part in dual.items()},
        candidates=(candidates[0].cpu().numpy(), candidates[1].cpu().numpy()),
        problem=problem,
        new_rows=NewRowProblem(
            transform=stage.inputs.transform,
            signal=stage.inputs.signals,
            share=problem.new_row(dual),
            prior=stage.inputs.prior_rows,
            has_loops=problem.loops,
            n_candidates=None if problem.support is None else asked.n_candidates,
        ),
    )


def _certified(
    problem: Problem,
    adjacency: sp.csr_matrix,
    solved: Solved,
    notes: tuple[str, ...],
    asked: _Asked,
    settings: SolveSettings,
) -> Certificate:
    """Return what is proven of the solution, and why if it is not optimal."""
    checked = certify(problem, adjacency, block_bytes=settings.block_bytes)
    if not checked.converged:
        notes = (*notes, f"not optimal: {solved.solution.reason or _ROUNDING}")
    return dataclasses.replace(
        checked,
        iterations=solved.iterations,
        rounds=solved.rounds,
        notes=notes,
        reading=asked.reading,
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


def _search_width(n_candidates: int, target: float | int | None, support: Support) -> int:
    """Return how many similar rows to find; to begin with, enough for the wanted degree."""
    width = check_integer("n_candidates", n_candidates, low=0)
    if support == "all" and target is not None:
        return max(width, math.ceil(1.5 * target))
    return width
