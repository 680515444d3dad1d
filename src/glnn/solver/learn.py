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

from glnn._utils import Shown, check_choice, check_features, check_integer, check_number
from glnn.distributed import ALONE, Partition, Peers
from glnn.exceptions import InputError, ProblemError
from glnn.graph import as_adjacency, prior_graph
from glnn.graph.convert import as_adjacency_rows
from glnn.graph.pairs import (
    Pairs,
    PairValues,
    SpreadRows,
    pair_keys,
    pair_owners,
    sent,
    sorted_distinct,
)
from glnn.graph.prior import PRIORS, PriorKind
from glnn.graph.rows import BLOCK_BYTES, DenseRows, row_matrix, to_device
from glnn.objective import READINGS, Objective, Reading, Term, Weights
from glnn.objective.objective import checked_terms
from glnn.objective.terms import Proximal, Task
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
    joined,
    prediction_signal,
)
from glnn.solver.working_set import (
    DegreeGoal,
    Solved,
    SolveSettings,
    added_degree,
    solve_for_degree,
    solve_problem,
)

# --- inputs: From what the user gives to signals and a prior graph


@dataclass(frozen=True, eq=False)
class GivenGraph:
    """A given graph that was checked, and the prior graph made from it: one for many solves.

    Parameters
    ----------
    prior, prior_rows
        The prior graph, and how a new node's row of it is made; over several processes, this
        one's rows of it.
    """

    prior: sp.csr_matrix
    prior_rows: PriorRows

    @classmethod
    def of(cls, graph: Any, partition: Partition, kind: PriorKind) -> "GivenGraph":
        """Check a graph, or this process's rows of one, and make the prior graph of a kind."""
        if partition.peers.size == 1:
            return cls.checked(as_adjacency(graph, partition.n_nodes), kind)
        return cls.checked(as_adjacency_rows(graph, partition), kind, partition.peers)

    @classmethod
    def checked(cls, links: sp.csr_matrix, kind: PriorKind, peers: Peers = ALONE) -> "GivenGraph":
        """Make the prior graph of one that :func:`glnn.graph.as_adjacency` has returned.

        Over several processes each gives its rows.
        """
        prior = prior_graph(links, kind, peers)
        partition = Partition(links.shape[1], peers)
        degrees = partition.everyone(np.asarray(links.sum(1), dtype=np.float64).ravel())
        return cls(prior, PriorRows(kind, degrees, prior))


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """Checked inputs of a graph problem.

    Parameters
    ----------
    transform
        How features become signals.
    base
        The signal rows of the features, by which candidates are found.
    signals
        ``base``, joined by predictions where there are any.
    partition
        Which rows are in this process.
    prior, prior_rows
        The prior graph, and how a new node's row of it is made; ``None`` without a given graph.
    """

    transform: FeatureSignal
    base: Matrix
    signals: Matrix
    partition: Partition
    prior: sp.csr_matrix | None
    prior_rows: PriorRows | None

    @classmethod
    def read(
        cls,
        features: Any,
        graph: Any,
        *,
        signal: SignalKind = "l2",
        column_weights: Any = None,
        prior: PriorKind = "renormalized",
        predictions: tuple[Any, float | int] | None = None,
        peers: Peers = ALONE,
    ) -> "GraphInputs":
        """Check and prepare; ``predictions`` come with their weight, ``graph`` may be prepared.

        The names in the errors are those of :func:`learn_graph`.
        """
        features = check_features("X", features)
        partition = partition_of(features.shape[0], peers)
        if partition.n_nodes < 2:
            raise ProblemError("X must have at least two rows to learn a graph, got 1.")
        transform = FeatureSignal.fit(signal, features, column_weights, peers)
        base = signals = transform.transform(features)
        if predictions is not None:
            signals = joined(base, prediction_signal(*predictions, partition.n_rows))
        if graph is None:
            return cls(transform, base, signals, partition, None, None)
        given = graph if isinstance(graph, GivenGraph) else GivenGraph.of(graph, partition, prior)
        return cls(transform, base, signals, partition, given.prior, given.prior_rows)


def partition_of(n_rows: int, peers: Peers) -> Partition:
    """Return who has which rows, of which this process has this many."""
    partition = Partition(int(peers.all_reduce(float(n_rows))), peers)
    if int(peers.all_reduce(float(n_rows != partition.n_rows))):
        raise InputError(
            f"process {peers.rank} must have rows {partition.start} to {partition.stop} of "
            f"{partition.n_nodes}, got {n_rows} rows. Cut them as glnn.distributed.Partition does."
        )
    return partition


# --- task_term: What a task gives to the graph problem: the cost of every edge, of low rank


@dataclass(frozen=True, eq=False)
class TaskTerm:
    r"""The linear term :math:`\langle C, A\rangle` that a task adds, of low rank.

    .. math:: c_{ij} = \tfrac12 (u_i \cdot v_j + u_j \cdot v_i) + o_{ij}

    Parameters
    ----------
    left, right
        The rows :math:`u_i` and :math:`v_i`, dense; over several processes, this one's.
    offset
        A symmetric CSR matrix :math:`o` of further costs on single pairs, or its rows.
    """

    left: np.ndarray
    right: np.ndarray
    offset: sp.csr_matrix | None = None

    def term(self, partition: Partition, device: str = "cpu") -> Task:
        """Return the same as a term of the objective; factors that do not fit are refused."""
        left, right = np.shape(self.left), np.shape(self.right)
        if left != right or len(left) != 2 or left[0] != partition.n_rows:
            raise InputError(
                f"task must have two factors with {partition.n_rows} rows and equal widths, "
                f"got shapes {left} and {right}."
            )
        if not (np.isfinite(self.left).all() and np.isfinite(self.right).all()):
            raise InputError("task must have finite factors, got NaN or infinity.")
        sides = [
            SpreadRows(DenseRows(to_device(np.hstack(both).astype(np.float64), device)), partition)
            for both in ((self.left, self.right), (self.right, self.left))
        ]
        offset = None
        if self.offset is not None:
            offset = PairValues.of_rows(partition, finite_matrix("task", self.offset), device)
        return Task(sides[0], sides[1], offset)


def finite_matrix(name: str, given: Any) -> sp.csr_matrix:
    """Return a matrix as CSR; one with an entry that is not finite is refused."""
    matrix = sp.csr_matrix(given)
    if not np.isfinite(matrix.data).all():
        raise InputError(f"{name} must have a finite matrix, got NaN or infinity.")
    return matrix


# --- stage: From checked inputs to a problem on a device, and to the pairs it begins with


@dataclass(frozen=True, eq=False)
class Stage:
    """The inputs, their signals on the device, and the problem made of them."""

    inputs: GraphInputs
    base: SpreadRows
    problem: Problem
    given: Pairs | None

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
    ) -> "Stage":
        """Put everything on the device; the problem has its support later."""
        partition = inputs.partition
        base = signals = _on_device(inputs.base, partition, device)
        if inputs.signals is not inputs.base:
            signals = _on_device(inputs.signals, partition, device)
        prior, given = None, None
        if inputs.prior is not None:
            known = PairValues.of_rows(partition, inputs.prior, device)
            prior, given = known.pairs.adjacency(known.values), known.pairs
        objective = Objective.of(weights, signals, prior, reading=reading, more=more)
        problem = Problem(objective, partition, loops, None, device)
        assert problem.curvature > 0  # refused before anything is computed
        return cls(inputs, base, problem, given)


def _on_device(signal: Matrix, partition: Partition, device: str) -> SpreadRows:
    """Return signal rows on the device, dense where storing entries would take more room."""
    return SpreadRows(row_matrix(signal, device=device), partition).dense_from(0.5)


def given_terms(
    partition: Partition,
    device: str,
    task: TaskTerm | None,
    proximal: tuple[float | int, sp.csr_matrix] | None,
) -> list[Term]:
    """Return the terms of a task and of an earlier graph."""
    found: list[Term] = []
    if task is not None:
        found.append(task.term(partition, device))
    if proximal is not None:
        weight, previous = proximal
        shape = (partition.n_rows, partition.n_nodes)
        if np.shape(previous) != shape:
            raise InputError(
                f"proximal must hold a weight and a {shape[0]} x {shape[1]} matrix, "
                f"got shape {np.shape(previous)}."
            )
        check_number("the weight of proximal", weight, low=0)
        known = PairValues.of_rows(partition, finite_matrix("proximal", previous), device)
        found.append(Proximal(weight, known.pairs.adjacency(known.values), partition))
    return found


def checked_candidates(candidates: Ends, n_nodes: int, device: str) -> tuple[Tensor, Tensor]:
    """Return known candidates on the device; numbers that are no nodes are refused."""
    first, second = (np.asarray(ends, dtype=np.int64) for ends in candidates)
    for ends in (first, second):
        if ends.size and (ends.min() < 0 or ends.max() >= n_nodes):
            raise InputError(
                f"candidates must hold node numbers in [0, {n_nodes}), "
                f"got {ends.min()} to {ends.max()}."
            )
    return to_device(first, device), to_device(second, device)


def own_pairs(partition: Partition, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return this process's pairs among those that any process names."""
    if partition.peers.size == 1:
        return ends
    keys = sorted_distinct(pair_keys(partition.n_nodes, *ends))
    pairs = Pairs.from_keys(partition, keys)
    (keys,) = sent(partition, pair_owners(partition, pairs.i, pairs.j), keys)
    own = Pairs.from_keys(partition, sorted_distinct(keys))
    return own.i, own.j


# --- learned: The learned graph and what is known about it


@dataclass(frozen=True, eq=False, repr=False)
class LearnedGraph(Shown):
    """The answer of :func:`learn_graph`; over several processes, this one's rows of it.

    Parameters
    ----------
    adjacency
        Symmetric, non-negative CSR matrix in float64, sorted, without stored zeros; rows of this
        process.
    prior
        The prior graph it was asked to stay close to, or ``None``.
    certificate
        What is proven about it.
    weights
        The weights of the terms, the sparsity weight as it was resolved.
    reading
        The reading of the graph Laplacian regulariser.
    row_sums
        Row sums of the whole graph.
    mean_added_degree
        Mean number of neighbours by edges that the prior graph lacks, loops aside.
    dual
        The dual point, a warm start for the next solve.
    candidates
        The pairs (i, j) of the feature search, to be used again; those of this process.
    problem
        The problem that was solved, for :func:`certify`.
    new_rows
        The one-row problem of new nodes.
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

    def _facts(self) -> dict[str, str]:
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
        """Number of edges, loops aside; half an edge of another process counts half."""
        first = self.problem.partition.start if self.adjacency.shape[0] < self.n_nodes else 0
        n_loops = int(np.count_nonzero(self.adjacency.diagonal(first)))
        return (int(self.adjacency.nnz) - n_loops) // 2

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[1])

    def connect(self, new_X: Any, links: Any = None) -> NewLinks:
        """Return the best edges of new nodes to this graph, which stays as it is.

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
            only. What predictions added to the signals is unknown for new nodes and left out.
        """
        if self.adjacency.shape[0] < self.n_nodes:
            raise InputError("new nodes must be connected to a whole graph: use collected() first.")
        return self.new_rows.connect(new_X, links)

    def collected(self) -> "LearnedGraph | None":
        """Return the whole graph in process 0, ``None`` elsewhere; all processes must call it.

        The problem stays that of the processes: certify there.
        """
        partition = self.problem.partition
        adjacency = partition.collected(self.adjacency)
        prior = None if self.prior is None else partition.collected(self.prior)
        signal = partition.collected(self.new_rows.signal)
        if partition.peers.rank:
            return None
        rows = self.new_rows.prior
        whole = None if rows is None else dataclasses.replace(rows, prior=prior)
        new_rows = dataclasses.replace(self.new_rows, signal=signal, prior=whole)
        return dataclasses.replace(self, adjacency=adjacency, prior=prior, new_rows=new_rows)


# --- solve: ``learn_graph``: the exact minimiser of the graph objective

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
        rows, as :class:`glnn.distributed.Partition` cuts them.
    graph
        A given graph (see :func:`glnn.graph.as_adjacency`), or ``None``. One that many calls
        share may be prepared: :class:`glnn.solver.learn.GivenGraph`, which has its ``prior``.
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
