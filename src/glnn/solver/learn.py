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
import torch
from torch import Tensor

from glnn._utils import ReprMixin, check_choice, check_features, check_integer, check_number
from glnn.distributed import SINGLE_PROCESS, Partition, Peers
from glnn.exceptions import InputError, ProblemError
from glnn.graph import as_adjacency, prior_graph
from glnn.graph.convert import as_adjacency_rows
from glnn.graph.pairs import (
    Pairs,
    PairValues,
    ShardedRows,
    exchange,
    pair_keys,
    pair_owners,
    sort_unique,
)
from glnn.graph.prior import PRIORS, PriorKind
from glnn.graph.rows import BLOCK_BYTES, DenseRows, as_row_matrix, to_device
from glnn.objective import READINGS, Objective, Reading, Term, Weights
from glnn.objective.objective import check_terms
from glnn.objective.terms import Proximal, TaskCost
from glnn.solver.candidates import SEARCHES, Ends, Search, nearest_pairs
from glnn.solver.certificate import Certificate, certify
from glnn.solver.new_rows import NewLinks, NewRowProblem
from glnn.solver.problem import Problem, WorkingProblem
from glnn.solver.signals import (
    SIGNALS,
    FeatureSignal,
    Matrix,
    PriorRows,
    SignalKind,
    append_columns,
    prediction_signal,
)
from glnn.solver.working_set import (
    DegreeGoal,
    SolveSettings,
    WorkingSetSolution,
    mean_added_degree,
    solve_for_degree,
    solve_problem,
)

# Inputs


@dataclass(frozen=True, eq=False)
class GivenGraph:
    """The prior graph of a given graph, prepared once for many solves."""

    prior: sp.csr_matrix  # the rows of this process
    prior_rows: PriorRows  # computes the prior graph's row of a new node

    @classmethod
    def of(cls, graph: Any, partition: Partition, kind: PriorKind) -> "GivenGraph":
        """Check a graph (or this process's rows of it) and compute its prior graph."""
        if partition.peers.size == 1:
            return cls.from_adjacency(as_adjacency(graph, partition.n_nodes), kind)
        return cls.from_adjacency(as_adjacency_rows(graph, partition), kind, partition.peers)

    @classmethod
    def from_adjacency(
        cls, links: sp.csr_matrix, kind: PriorKind, peers: Peers = SINGLE_PROCESS
    ) -> "GivenGraph":
        """Compute the prior graph of an adjacency matrix that has been checked already.

        With several processes each one passes its own rows.
        """
        prior = prior_graph(links, kind, peers)
        partition = Partition(links.shape[1], peers)
        degrees = partition.all_gather_rows(np.asarray(links.sum(1), dtype=np.float64).ravel())
        return cls(prior, PriorRows(kind, degrees, prior))


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """Checked inputs of a graph problem."""

    transform: FeatureSignal  # turns features into signals
    base: Matrix  # signals of the features, used to find candidates
    signals: Matrix  # base, followed by the columns of the predictions if there are any
    partition: Partition  # which rows are in this process
    prior: sp.csr_matrix | None  # the prior graph; None without a given graph
    prior_rows: PriorRows | None  # computes the prior graph's row of a new node

    @classmethod
    def prepare(
        cls,
        features: Any,
        graph: Any,
        *,
        signal: SignalKind = "l2",
        column_weights: Any = None,
        prior: PriorKind = "renormalized",
        predictions: tuple[Any, float | int] | None = None,
        peers: Peers = SINGLE_PROCESS,
    ) -> "GraphInputs":
        """Check the arguments of :func:`learn_graph` and compute signals and prior graph.

        ``predictions`` is a pair of probabilities and their weight; ``graph`` may be a
        :class:`GivenGraph`.
        """
        features = check_features("X", features)
        partition = make_partition(features.shape[0], peers)
        if partition.n_nodes < 2:
            raise ProblemError("X must have at least two rows to learn a graph, got 1.")
        transform = FeatureSignal.fit(signal, features, column_weights, peers)
        base = signals = transform.transform(features)
        if predictions is not None:
            signals = append_columns(base, prediction_signal(*predictions, partition.n_rows))
        if graph is None:
            return cls(transform, base, signals, partition, None, None)
        given = graph if isinstance(graph, GivenGraph) else GivenGraph.of(graph, partition, prior)
        return cls(transform, base, signals, partition, given.prior, given.prior_rows)


def make_partition(n_rows: int, peers: Peers) -> Partition:
    """Return the partition of all rows; raise unless each process has its share of them."""
    partition = Partition(int(peers.all_reduce(float(n_rows))), peers)
    if int(peers.all_reduce(float(n_rows != partition.n_rows))):
        raise InputError(
            f"process {peers.rank} must have rows {partition.start} to {partition.stop} of "
            f"{partition.n_nodes}, got {n_rows} rows. "
            "Split them as glnn.distributed.Partition does."
        )
    return partition


# Terms


@dataclass(frozen=True, eq=False)
class TaskTerm:
    r"""A linear term :math:`\langle C, A\rangle` that a task adds to the objective, of low rank.

    .. math:: c_{ij} = \tfrac12 (u_i \cdot v_j + u_j \cdot v_i) + o_{ij}

    Parameters
    ----------
    left, right
        The rows :math:`u_i` and :math:`v_i`, dense; with several processes, those of this one.
    offset
        A symmetric CSR matrix :math:`o` of further costs on single pairs; with several processes,
        the rows of this one.
    """

    left: np.ndarray
    right: np.ndarray
    offset: sp.csr_matrix | None = None

    def to_term(self, partition: Partition, device: str = "cpu") -> TaskCost:
        """Check the factors and return the term of the objective."""
        left, right = np.shape(self.left), np.shape(self.right)
        if left != right or len(left) != 2 or left[0] != partition.n_rows:
            raise InputError(
                f"task must have two factors with {partition.n_rows} rows and equal widths, "
                f"got shapes {left} and {right}."
            )
        if not (np.isfinite(self.left).all() and np.isfinite(self.right).all()):
            raise InputError("task must have finite factors, got NaN or infinity.")
        sides = [
            ShardedRows(DenseRows(to_device(np.hstack(both).astype(np.float64), device)), partition)
            for both in ((self.left, self.right), (self.right, self.left))
        ]
        offset = None
        if self.offset is not None:
            offset = PairValues.from_rows(
                partition, check_finite_matrix("task", self.offset), device
            )
        return TaskCost(sides[0], sides[1], offset)


def check_finite_matrix(name: str, value: Any) -> sp.csr_matrix:
    """Return a matrix as CSR; raise if an entry is not finite."""
    matrix = sp.csr_matrix(value)
    if not np.isfinite(matrix.data).all():
        raise InputError(f"{name} must have a finite matrix, got NaN or infinity.")
    return matrix


# Setup of the problem


@dataclass(frozen=True, eq=False)
class Setup:
    """The problem on the device, with the inputs it was made from."""

    inputs: GraphInputs
    base: ShardedRows
    problem: Problem  # its support is set later
    prior_pairs: Pairs | None  # pairs of the prior graph

    @classmethod
    def of(
        cls,
        inputs: GraphInputs,
        weights: Weights,
        reading: Reading,
        more: list[Term],
        *,
        loops: bool,
        device: str,
    ) -> "Setup":
        """Move signals and prior graph to the device and build the problem."""
        partition = inputs.partition
        base = signals = _move_signal(inputs.base, partition, device)
        if inputs.signals is not inputs.base:
            signals = _move_signal(inputs.signals, partition, device)
        prior, prior_pairs = None, None
        if inputs.prior is not None:
            known = PairValues.from_rows(partition, inputs.prior, device)
            prior, prior_pairs = known.pairs.to_adjacency(known.values), known.pairs
        objective = Objective.of(weights, signals, prior, reading=reading, more=more)
        problem = Problem(objective, partition, loops, None, device)
        assert problem.curvature > 0  # raises here, before anything expensive is computed
        return cls(inputs, base, problem, prior_pairs)


def _move_signal(signal: Matrix, partition: Partition, device: str) -> ShardedRows:
    """Return signal rows on the device, dense if at least half of the entries are stored."""
    return ShardedRows(as_row_matrix(signal, device=device), partition).densify(0.5)


def build_terms(
    partition: Partition,
    device: str,
    task: TaskTerm | None,
    proximal: tuple[float | int, sp.csr_matrix] | None,
) -> list[Term]:
    """Return the terms of the arguments ``task`` and ``proximal``."""
    terms: list[Term] = []
    if task is not None:
        terms.append(task.to_term(partition, device))
    if proximal is not None:
        weight, previous = proximal
        shape = (partition.n_rows, partition.n_nodes)
        if np.shape(previous) != shape:
            raise InputError(
                f"proximal must hold a weight and a {shape[0]} x {shape[1]} matrix, "
                f"got shape {np.shape(previous)}."
            )
        check_number("the weight of proximal", weight, low=0)
        known = PairValues.from_rows(partition, check_finite_matrix("proximal", previous), device)
        terms.append(Proximal(weight, known.pairs.to_adjacency(known.values), partition))
    return terms


def check_candidates(candidates: Ends, n_nodes: int, device: str) -> tuple[Tensor, Tensor]:
    """Return candidate pairs on the device; raise if an end is not a node number."""
    first, second = (np.asarray(ends, dtype=np.int64) for ends in candidates)
    for ends in (first, second):
        if ends.size and (ends.min() < 0 or ends.max() >= n_nodes):
            raise InputError(
                f"candidates must hold node numbers in [0, {n_nodes}), "
                f"got {ends.min()} to {ends.max()}."
            )
    return to_device(first, device), to_device(second, device)


def exchange_pairs(partition: Partition, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Send every pair to the process that owns it; return the pairs of this process."""
    if partition.peers.size == 1:
        return ends
    keys = sort_unique(pair_keys(partition.n_nodes, *ends))
    pairs = Pairs.from_keys(partition, keys)
    (keys,) = exchange(partition, pair_owners(partition, pairs.i, pairs.j), keys)
    own = Pairs.from_keys(partition, sort_unique(keys))
    return own.i, own.j


# The learned graph


@dataclass(frozen=True, eq=False, repr=False)
class LearnedGraph(ReprMixin):
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
    reading
        The reading of the graph Laplacian regulariser.
    row_sums
        Row sums of the whole graph.
    mean_added_degree
        Mean number of neighbours over edges that are not in the prior graph, without loops.
    dual
        The dual point, a warm start for the next solve.
    candidates
        The pairs (i, j) that the feature search found, those of this process. Pass them to the
        next call to skip the search.
    problem
        The problem that was solved, for :func:`certify`.
    new_rows
        The problem of one new row, for :meth:`connect`.
    """

    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    certificate: Certificate
    weights: Weights
    reading: Reading
    row_sums: np.ndarray
    mean_added_degree: float
    dual: dict[str, np.ndarray]
    candidates: tuple[np.ndarray, np.ndarray]
    problem: Problem
    new_rows: NewRowProblem

    def _repr_items(self) -> dict[str, str]:
        n_edges = sp.triu(self.adjacency, k=1).nnz
        proof = "optimal" if self.certificate.converged else "NOT optimal"
        return {
            "reading": f"{self.reading} reading",
            "nodes": f"{self.adjacency.shape[0]:,}",
            "edges": f"{n_edges:,}",
            "graph problem": f"{proof} (relative gap {self.certificate.relative_gap:.0e})",
        }

    @property
    def n_edges(self) -> int:
        """Number of edges without loops; an edge shared with another process counts half."""
        first = self.problem.partition.start if self.adjacency.shape[0] < self.n_nodes else 0
        n_loops = int(np.count_nonzero(self.adjacency.diagonal(first)))
        return (int(self.adjacency.nnz) - n_loops) // 2

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
        if self.adjacency.shape[0] < self.n_nodes:
            raise InputError("new nodes must be connected to a whole graph: use gather() first.")
        return self.new_rows.connect(new_X, links)

    def gather(self) -> "LearnedGraph | None":
        """Return the whole graph in process 0 and ``None`` elsewhere; all processes must call it.

        ``problem`` remains that of all processes, so certify before gathering.
        """
        partition = self.problem.partition
        adjacency = partition.gather(self.adjacency)
        prior = None if self.prior is None else partition.gather(self.prior)
        signal = partition.gather(self.new_rows.signal)
        if partition.peers.rank:
            return None
        rows = self.new_rows.prior
        whole = None if rows is None else dataclasses.replace(rows, prior=prior)
        new_rows = dataclasses.replace(self.new_rows, signal=signal, prior=whole)
        return dataclasses.replace(self, adjacency=adjacency, prior=prior, new_rows=new_rows)


# Solving

Support = Literal["all", "candidates"]  # which pairs may become edges
SUPPORTS: tuple[Support, ...] = get_args(Support)
_DEFAULT_NEIGHBORS = 10
_ROUNDING = (
    "rounding: a penalty is very strong beside the curvature. Scale the signals (signal='l2'), "
    "or give smoothness less weight"
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
    peers: Peers = SINGLE_PROCESS,
) -> LearnedGraph:
    r"""Learn the graph that minimises the objective over symmetric :math:`A \ge 0`, exactly.

    .. math:: \lambda_0 GLR(A) + \lambda_1\|A\|_1 + \lambda_3\|A1-1\|^2
              + \lambda_4 \operatorname{tr}(A)^2 + \alpha\|A-G\|^2 + \beta\|A\|^2
              + \langle C, A\rangle

    Parameters
    ----------
    X
        Features, nodes x columns, dense or sparse. With several processes each one passes its
        block of rows, as :class:`glnn.distributed.Partition` splits them.
    graph
        A given graph (see :func:`glnn.graph.as_adjacency`), or ``None``. For many calls with the
        same graph pass a :class:`glnn.solver.learn.GivenGraph`; its ``prior`` is then used.
        With several processes, this one's rows of the matrix (CSR).
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
    column_weights
        Weights of a metric over the columns of ``X``, at least 0; ``None``: equal weights.
    predictions, prediction_weight
        Class probabilities of every node, appended to the signals, and their weight (default 3).
    prior
        How the prior graph is made from the given one: ``binary``, ``symmetric``,
        ``renormalized`` (default) or ``pagerank``.
    support
        ``all`` (default): any pair may become an edge, and every pair is checked. ``candidates``:
        only given edges, loops and the ``n_candidates`` most similar rows of each node.
    n_candidates, candidates, search
        Neighbours per node in the feature search (default 20), its pairs if they are known from
        an earlier call, and its method (see :func:`nearest`).
    task
        The linear term C of a task, of low rank.
    proximal
        A weight and an earlier adjacency matrix: the term penalises the distance to it.
    terms
        Further terms of the objective.
    loops
        Whether nodes may have loops.
    tol, max_iter
        Accuracy of the entries (1e-8), and the maximum number of Newton steps per solve (100).
    block_bytes, device
        Memory for one block of pairs on the host, and the device of all computations.
    start
        An earlier result as a warm start; it changes the running time only.
    peers
        The processes of one fit. Rows and pairs are distributed over them; the graph does not
        depend on their number.

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
    settings = SolveSettings(tol, max_iter, block_bytes, device)
    check_choice("reading", reading, READINGS)
    check_choice("signal", signal, SIGNALS)
    check_choice("prior", prior, PRIORS)
    check_choice("support", support, SUPPORTS)
    check_choice("search", search, SEARCHES)
    inputs = GraphInputs.prepare(
        X,
        graph,
        signal=signal,
        column_weights=column_weights,
        prior=prior,
        predictions=None if predictions is None else (predictions, prediction_weight),
        peers=peers,
    )
    weights, target = _resolve_weights(weights, n_neighbors, inputs.prior)
    more = [*check_terms(terms), *build_terms(inputs.partition, device, task, proximal)]
    setup = Setup.of(inputs, weights, reading, more, loops=loops, device=device)
    if candidates is None:
        width = _search_width(n_candidates, target, support)
        found = nearest_pairs(setup.base, width, search=search, block_bytes=block_bytes)
    else:
        found = check_candidates(candidates, inputs.partition.n_nodes, device)
    request = _Request(support, n_candidates, target, weights, reading)
    warm = (
        None
        if start is None
        else {k: torch.from_numpy(v).to(device) for k, v in start.dual.items()}
    )
    return _solve(setup, request, exchange_pairs(inputs.partition, found), settings, warm)


@dataclass(frozen=True, eq=False)
class _Request:
    """Options of :func:`learn_graph` that are not part of the problem."""

    support: Support
    n_candidates: int
    target: float | int | None  # wanted degree; None: use the sparsity weight
    weights: Weights
    reading: Reading


def _solve(
    setup: Setup,
    request: _Request,
    candidates: tuple[Tensor, Tensor],
    settings: SolveSettings,
    warm: dict[str, Tensor] | None,
) -> LearnedGraph:
    """Solve the problem, certify the solution and assemble the result."""
    problem, weights = setup.problem, request.weights
    pairs = problem.starting_pairs(candidates)
    if request.support == "candidates":
        problem = dataclasses.replace(problem, support=pairs)
    notes: tuple[str, ...] = ()
    if request.target is None:
        solved = solve_problem(problem, WorkingProblem.of(problem, pairs), settings, warm)
    else:
        goal = DegreeGoal(request.target, setup.prior_pairs)
        sparsity, solved, notes = solve_for_degree(problem, pairs, goal, settings, warm)
        weights = weights.replace(sparsity=sparsity)
        problem = problem.with_degree_weight(sparsity)
    adjacency = solved.pairs.to_scipy(solved.solution.values)
    certificate = _certify(problem, adjacency, solved, notes, request, settings)
    dual = solved.solution.dual
    partition = setup.inputs.partition
    return LearnedGraph(
        adjacency=adjacency,
        prior=setup.inputs.prior,
        certificate=certificate,
        weights=weights,
        reading=request.reading,
        row_sums=partition.all_gather_rows(np.asarray(adjacency.sum(1)).ravel()),
        mean_added_degree=mean_added_degree(
            solved.pairs, solved.solution.values, setup.prior_pairs
        ),
        dual={name: part.cpu().numpy() for name, part in dual.items()},
        candidates=(candidates[0].cpu().numpy(), candidates[1].cpu().numpy()),
        problem=problem,
        new_rows=NewRowProblem(
            transform=setup.inputs.transform,
            signal=setup.inputs.signals,
            share=problem.new_row(dual),
            prior=setup.inputs.prior_rows,
            has_loops=problem.loops,
            n_candidates=None if problem.support is None else request.n_candidates,
        ),
    )


def _certify(
    problem: Problem,
    adjacency: sp.csr_matrix,
    solved: WorkingSetSolution,
    notes: tuple[str, ...],
    request: _Request,
    settings: SolveSettings,
) -> Certificate:
    """Return the certificate; its notes say why a solution is not optimal."""
    checked = certify(problem, adjacency, block_bytes=settings.block_bytes)
    if not checked.converged:
        notes = (*notes, f"not optimal: {solved.solution.reason or _ROUNDING}")
    return dataclasses.replace(
        checked,
        iterations=solved.iterations,
        rounds=solved.rounds,
        notes=notes,
        reading=request.reading,
    )


def _resolve_weights(
    weights: Weights | None, n_neighbors: float | int | None, prior: sp.csr_matrix | None
) -> tuple[Weights, float | int | None]:
    """Return the weights and the wanted degree with defaults filled in."""
    if n_neighbors is not None:
        check_number("n_neighbors", n_neighbors, low=0, open_low=True)
    if weights is None and prior is None:
        return Weights.without_prior(), n_neighbors or _DEFAULT_NEIGHBORS
    return weights or Weights.paper(), n_neighbors


def _search_width(n_candidates: int, target: float | int | None, support: Support) -> int:
    """Return how many similar rows to search for: enough for the wanted degree."""
    width = check_integer("n_candidates", n_candidates, low=0)
    if support == "all" and target is not None:
        return max(width, math.ceil(1.5 * target))
    return width
