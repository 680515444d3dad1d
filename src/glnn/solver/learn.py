"""``learn_graph``: the exact minimiser of the graph objective.

The arguments are checked and turned into a problem on a device; the problem is solved on a working
set of pairs (:mod:`glnn.solver.working_set`), and the solution is certified.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from glnn._utils import (
    check_choice,
    check_device,
    check_features,
    check_integer,
    check_number,
)
from glnn.distributed import Partition
from glnn.exceptions import ProblemError
from glnn.graph.pairs import (
    Ends,
    Pairs,
    ShardedRows,
    SparseAdjacency,
    as_adjacency_rows,
    as_sharded_rows,
)
from glnn.graph.prior import PRIORS, PriorGraph, PriorKind, prior_graph
from glnn.graph.rows import to_device
from glnn.objective import READINGS, Objective, Reading, Term, Weights
from glnn.objective.terms import TaskCost
from glnn.solver.candidates import nearest_pairs
from glnn.solver.certificate import Certificate, certify
from glnn.solver.new_rows import NewLinks, NewRowProblem
from glnn.solver.problem import Problem, WorkingProblem
from glnn.solver.signals import (
    SIGNALS,
    FeatureSignal,
    Matrix,
    SignalKind,
    append_columns,
    prediction_signal,
)
from glnn.solver.working_set import mean_added_degree, solve_for_degree, solve_problem

Support = Literal["all", "candidates"]  # which pairs may become edges
SUPPORTS: tuple[Support, ...] = get_args(Support)
_CHOICES = {"reading": READINGS, "signal": SIGNALS, "prior": PRIORS, "support": SUPPORTS}
_DEFAULT_NEIGHBORS = 10
_ROUNDING = (
    "rounding: a penalty is very strong beside the curvature. Scale the signals (signal='l2'), "
    "or give smoothness less weight"
)


@dataclass(frozen=True, eq=False, repr=False)
class LearnedGraph:
    """The result of :func:`learn_graph`; with several processes, the rows of this one.

    Parameters
    ----------
    adjacency
        Symmetric, non-negative CSR matrix in float64, sorted, without stored zeros.
    prior
        The prior graph, or ``None`` without a given graph.
    certificate
        How far the graph is from the optimum.
    weights
        The weights of the terms; the sparsity weight is the one that was used.
    mean_added_degree
        Mean number of neighbours over edges that are not in the prior graph, without loops.
    candidates
        The pairs (i, j) that the feature search found, those of this process.
    problem
        The problem that was solved, for :func:`certify`.
    new_rows
        The problem of one new row, for :meth:`connect`.
    """

    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    certificate: Certificate
    weights: Weights
    mean_added_degree: float
    candidates: tuple[np.ndarray, np.ndarray]
    problem: Problem
    new_rows: NewRowProblem

    def __repr__(self) -> str:
        proof = "optimal" if self.certificate.converged else "NOT optimal"
        sizes = f"{self.adjacency.shape[0]:,} nodes, {self.n_edges:,} edges"
        gap = f"relative gap {self.certificate.relative_gap:.0e}"
        return f"LearnedGraph({self.certificate.reading} reading: {sizes}, {proof}, {gap})"

    @property
    def n_edges(self) -> int:
        """Number of edges without loops."""
        return int(self.adjacency.nnz - np.count_nonzero(self.adjacency.diagonal())) // 2

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[1])

    def connect(self, new_X: Any, links: Any = None) -> NewLinks:
        """Return the optimal edges of new nodes to this graph, which does not change.

        Parameters
        ----------
        new_X
            Features of the new nodes, with the columns of the training features.
        links
            Known edges to the training nodes (new x N, sparse or dense), if there was a graph.

        Returns
        -------
        NewLinks
            ``links``, a CSR matrix (new x N), and ``loops``. Each row depends on its own node
            only. Predictions among the signals are unknown for new nodes and not used.
        """
        return self.new_rows.connect(new_X, links)


def learn_graph(
    X: Any,
    graph: Any = None,
    *,
    n_neighbors: float | int | None = None,
    weights: Weights | None = None,
    reading: Reading = "trace",
    signal: SignalKind = "l2",
    predictions: Any = None,
    prior: PriorKind = "renormalized",
    support: Support = "all",
    n_candidates: int = 20,
    terms: Sequence[Term] = (),
    device: str = "cpu",
) -> LearnedGraph:
    r"""Learn the graph that minimises the objective over symmetric :math:`A \ge 0`, exactly.

    .. math:: \lambda_0 GLR(A) + \lambda_1\|A\|_1 + \lambda_3\|A1-1\|^2
              + \lambda_4 \operatorname{tr}(A)^2 + \alpha\|A-G\|^2 + \beta\|A\|^2

    Parameters
    ----------
    X
        Features, nodes x columns, dense or sparse.
    graph
        A given graph (see :func:`glnn.graph.as_adjacency`), or ``None``.
    n_neighbors
        Wanted mean degree of the edges that are not in the prior graph, above 0; sets
        :math:`\lambda_1`. Default: 10 if there is neither a graph nor weights, otherwise
        :math:`\lambda_1` is taken from the weights.
    weights
        Weights of the terms. Default: the paper's with a graph, ``Weights.without_prior()``
        without one. Without a graph ``closeness`` is not used.
    reading
        ``trace`` (default), ``channel`` or ``frobenius``.
    signal
        How features become signals: ``l2`` (default), ``idf``, ``standardized`` or ``raw``.
    predictions
        Class probabilities of every node, appended to the signals with weight 3.
    prior
        How the prior graph is made from the given one: ``binary``, ``symmetric`` or
        ``renormalized`` (default).
    support
        ``all`` (default): any pair may become an edge, and every pair is checked. ``candidates``:
        only given edges, loops and the ``n_candidates`` most similar rows of each node.
    n_candidates
        Neighbours per node in the search for similar rows (default 20).
    terms
        Further terms of the objective.
    device
        The device of all computations.

    Returns
    -------
    LearnedGraph
        The graph, with a certificate of its optimality.

    Examples
    --------
    >>> learned = learn_graph(np.array([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]]), n_neighbors=1)
    >>> learned.certificate.converged
    True
    """
    return solve_graph(GraphRequest(**locals()))  # every argument by its name


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphRequest:
    """The arguments of :func:`learn_graph`, and those that only the library itself uses."""

    X: Any = dataclasses.field(kw_only=False)  # with several processes, the rows of this one
    graph: Any = dataclasses.field(default=None, kw_only=False)  # may be a PriorGraph
    n_neighbors: float | int | None = None
    weights: Weights | None = None
    reading: Reading = "trace"
    signal: SignalKind = "l2"
    column_weights: Any = None  # of a metric over the columns of X, at least 0; None: equal ones
    predictions: Any = None
    prediction_weight: float | int = 3.0
    prior: PriorKind = "renormalized"
    support: Support = "all"
    n_candidates: int = 20
    candidates: tuple[np.ndarray, np.ndarray] | None = None  # found by an earlier search
    task: tuple[np.ndarray, np.ndarray] | None = None  # the factors u and v of a TaskCost
    terms: Sequence[Term] = ()
    device: str = "cpu"
    layout: Partition | None = None  # which rows are in this process; None: all

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.n_neighbors is not None:
            check_number("n_neighbors", self.n_neighbors, low=0, open_low=True)
        check_device(self.device)


def solve_graph(request: GraphRequest) -> LearnedGraph:
    """Learn the graph of :func:`learn_graph`; all processes of a fit must call it together."""
    features, device = check_features("X", request.X), request.device
    layout = request.layout or Partition(features.shape[0])
    if layout.n_nodes < 2:
        raise ProblemError("X must have at least two rows to learn a graph, got 1.")
    transform = FeatureSignal.fit(request.signal, features, request.column_weights, layout)
    signal: Matrix = transform.transform(features)
    base = signals = as_sharded_rows(signal, layout, device).densify(0.5)
    if request.predictions is not None:
        more = prediction_signal(request.predictions, request.prediction_weight, layout.n_rows)
        signal = append_columns(signal, more)
        signals = as_sharded_rows(signal, layout, device).densify(0.5)
    given = request.graph
    if given is not None and not isinstance(given, PriorGraph):
        rows, kind = as_adjacency_rows(given, layout), request.prior
        degrees = layout.row_sums(rows)
        given = PriorGraph(kind, degrees, prior_graph(rows, kind, degrees, layout.start))
    prior = None if given is None else SparseAdjacency.from_rows(layout, given.prior, device)
    weights, target = request.weights, request.n_neighbors
    if weights is None and given is None:
        weights, target = Weights.without_prior(), target or _DEFAULT_NEIGHBORS
    weights = weights or Weights()
    terms: Any = request.terms
    if request.task is not None:
        both = (request.task, request.task[::-1])
        left, right = (as_sharded_rows(np.hstack(side), layout, device) for side in both)
        terms = [*terms, TaskCost(left, right)]
    objective = Objective.of(weights, signals, prior, reading=request.reading, more=terms)
    problem = Problem(objective, signals)
    assert problem.curvature > 0  # raises here, before anything expensive is computed
    candidates = _find_candidates(request, base, target)
    pairs = problem.starting_pairs(candidates)
    if request.support == "candidates":
        problem = dataclasses.replace(problem, support=pairs)
    notes: tuple[str, ...] = ()
    prior_pairs = None if prior is None else prior.pairs
    if target is None:
        solved = solve_problem(problem, WorkingProblem.of(problem, pairs))
    else:
        sparsity, solved, notes = solve_for_degree(problem, pairs, target, prior_pairs)
        weights = weights.replace(sparsity=sparsity)
        problem = problem.with_degree_weight(sparsity)
    adjacency = solved.pairs.to_scipy(solved.values)
    certificate = certify(problem, adjacency)
    if not certificate.converged:
        notes = (*notes, f"not optimal: {solved.reason or _ROUNDING}")
    how: Any = {"iterations": solved.iterations, "rounds": solved.rounds, "notes": notes}
    n_near = None if problem.support is None else request.n_candidates
    return LearnedGraph(
        adjacency=adjacency,
        prior=None if given is None else given.prior,
        certificate=dataclasses.replace(certificate, **how, reading=request.reading),
        weights=weights,
        mean_added_degree=mean_added_degree(solved.pairs, solved.values, prior_pairs),
        candidates=(candidates[0].cpu().numpy(), candidates[1].cpu().numpy()),
        problem=problem,
        new_rows=NewRowProblem(transform, signal, problem.new_row(solved.dual), given, n_near),
    )


def _find_candidates(request: GraphRequest, base: ShardedRows, target: float | int | None) -> Ends:
    """Return this process's pairs of similar rows: known ones, or enough for the wanted degree."""
    layout, device = base.layout, request.device
    width = check_integer("n_candidates", request.n_candidates, low=0)
    if request.candidates is not None:
        i, j = (to_device(np.asarray(ends), device).long() for ends in request.candidates)
    else:
        if request.support == "all" and target is not None:
            width = max(width, math.ceil(1.5 * target))
        i, j = nearest_pairs(base, width)
    if not layout.is_split:
        return i, j
    found = Pairs.union(layout, [(i, j)])
    own = Pairs.from_keys(layout, *layout.exchange_pairs(found.i, found.j, found.keys))
    return own.i, own.j
