"""The convex graph problem in its standard form, and its two values."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice, check_number
from glnn.exceptions import InputError, ProblemError
from glnn.objective import READINGS, Weights
from glnn.peers import ALONE, Peers
from glnn.solver.energies import ChannelEnergy, FrobeniusEnergy
from glnn.solver.implicit import Factor, Implicit, Matrix
from glnn.solver.pairs import Pairs, upper_entries
from glnn.solver.penalties import Loops, Penalty, RowSums


@dataclass(frozen=True, eq=False)
class TaskTerm:
    r"""The linear term :math:`\langle C, A\rangle` that a task adds, of low rank.

    .. math:: c_{ij} = \tfrac12 (u_i \cdot v_j + u_j \cdot v_i) + o_{ij}

    Parameters
    ----------
    left, right
        The rows :math:`u_i` and :math:`v_i`, dense.
    offset
        A symmetric CSR matrix :math:`o` of further costs on single pairs.
    """

    left: np.ndarray
    right: np.ndarray
    offset: sp.csr_matrix | None = None

    def check(self, n_nodes: int) -> None:
        """Refuse factors that do not fit the nodes or are not finite."""
        left, right = np.shape(self.left), np.shape(self.right)
        if left != right or len(left) != 2 or left[0] != n_nodes:
            raise InputError(
                f"task must have two factors with {n_nodes} rows and equal widths, "
                f"got shapes {left} and {right}."
            )
        if not (np.isfinite(self.left).all() and np.isfinite(self.right).all()):
            raise InputError("task must have finite factors, got NaN or infinity.")

    def factor(self) -> Factor:
        """Return :math:`-C` without its offset, as one factor."""
        left = np.asarray(self.left, dtype=np.float64)
        right = np.asarray(self.right, dtype=np.float64)
        return Factor(np.hstack([left, right]) * -0.5, np.hstack([right, left]))


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Minimise over symmetric :math:`A \ge 0` on the support.

    .. math:: \gamma\|A\|^2 - \langle B, A\rangle + \sum_m w_m \|T_m(A) - \tau_m\|^2 .

    Parameters
    ----------
    linear
        The matrix :math:`B`, never formed.
    curvature
        :math:`\gamma`, the sum of closeness, ridge and proximal weight.
    penalties
        The quadratic penalties of positive weight.
    reading
        The reading of the graph Laplacian regulariser.
    loops
        Whether the diagonal belongs to the support.
    support
        The pairs that may become edges; ``None`` for all pairs.
    peers
        The processes over which the pairs are spread; each holds its own.
    """

    linear: Implicit
    curvature: float
    penalties: tuple[Penalty, ...]
    reading: str
    loops: bool = True
    support: Pairs | None = None
    peers: Peers = ALONE

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.linear.nodes)

    def shifted(self, constant: float) -> "Problem":
        """Return the problem with ``constant`` added to every entry of ``B``."""
        linear = dataclasses.replace(self.linear, constant=self.linear.constant + constant)
        return dataclasses.replace(self, linear=linear)

    def numerator(self, dual: dict[str, np.ndarray]) -> Implicit:
        r"""Return :math:`B - \sum_m T_m^*(y_m)`; its positive part over :math:`2\gamma` is A."""
        total = self.linear
        for penalty in self.penalties:
            total = total + penalty.adjoint(-dual[penalty.name])
        return total

    def dual_of(self, adjacency: sp.csr_matrix) -> dict[str, np.ndarray]:
        r"""Return :math:`y_m = 2 w_m (T_m(A) - \tau_m)`, the dual point a graph implies."""
        return {p.name: 2 * p.weight * (p.of_matrix(adjacency) - p.target) for p in self.penalties}

    def metric(self, dual: dict[str, np.ndarray], smoothness: float) -> np.ndarray:
        r"""Return M of the similarity :math:`s_i^\top M s_j` that the dual point implies.

        A number in the trace reading, one weight a channel, or a matrix.
        """
        for penalty in self.penalties:
            if isinstance(penalty, ChannelEnergy | FrobeniusEnergy):
                return penalty.metric(-dual[penalty.name])
        return np.array(smoothness if self.reading == "trace" else 0.0)

    def primal_value(self, adjacency: sp.csr_matrix) -> float:
        """Return the objective of a symmetric graph with sorted rows, up to its constant."""
        rows, columns, values = upper_entries(adjacency)
        stored = Pairs(self.n_nodes, rows, columns)
        gains = self.linear.on_pairs(stored)
        value = float((stored.counts * values * (self.curvature * values - gains)).sum())
        for penalty in self.penalties:
            misfit = penalty.of_matrix(adjacency) - penalty.target
            value += penalty.weight * float(misfit @ misfit)
        return value

    def dual_value(self, dual: dict[str, np.ndarray], squares: float) -> float:
        r"""Return :math:`-\gamma\|A(y)\|^2 - \sum_m \|y_m\|^2/(4 w_m) + \langle y_m,\tau_m\rangle`.

        ``squares`` is :math:`\|A(y)\|^2` over the whole support.
        """
        value = -self.curvature * squares
        for penalty in self.penalties:
            y = dual[penalty.name]
            value -= y @ y / (4 * penalty.weight) + y @ penalty.target
        return float(value)


def build_problem(
    signal: Matrix,
    prior: sp.csr_matrix | None,
    weights: Weights,
    reading: str,
    *,
    task: TaskTerm | None = None,
    proximal: tuple[float | int, sp.csr_matrix] | None = None,
    loops: bool = True,
    device: str = "cpu",
) -> Problem:
    r"""Put the objective into standard form; products of rows are taken on ``device``.

    .. math:: b_{ij} = 2\alpha g_{ij} + 2\rho\,a^{prev}_{ij} - \lambda_1 - c_{ij}
              \;(+\,\lambda_0\, s_i \cdot s_j \text{ in the trace reading})
    """
    n_nodes = signal.shape[0]
    check_choice("reading", reading, READINGS)
    closeness = 0.0 if prior is None else weights.closeness
    step, previous = (0.0, None) if proximal is None else _checked_proximal(proximal, n_nodes)
    curvature = checked_curvature(closeness + weights.ridge + step)
    parts = [(2 * closeness, prior), (2 * step, previous)]
    factors: list[Factor] = []
    if task is not None:
        task.check(n_nodes)
        factors.append(dataclasses.replace(task.factor(), device=device))
        parts.append((-1.0, task.offset))
    if reading == "trace" and weights.smoothness > 0:
        factors.append(_similarity(signal, weights.smoothness, device))
    linear = Implicit(
        np.zeros(n_nodes),
        constant=-weights.sparsity,
        sparse=_weighted_sum(parts),
        factors=tuple(factors),
    )
    return Problem(linear, curvature, _penalties(signal, weights, reading), reading, loops)


def _similarity(signal: Matrix, smoothness: float, device: str) -> Factor:
    r"""Return :math:`\lambda_0\, s_i \cdot s_j`; a device takes one copy for both sides."""
    if device == "cpu":
        return Factor(signal * smoothness, signal)
    return Factor(signal, signal, device, smoothness)


def checked_curvature(curvature: float | int) -> float | int:
    """Refuse a problem without a unique minimum."""
    if curvature <= 0:
        raise ProblemError(
            "the graph problem needs weights.closeness > 0 with a given graph, or "
            "weights.ridge > 0: without either it has no unique minimum. "
            "Give a graph, or use Weights.without_prior()."
        )
    return curvature


def _checked_proximal(
    proximal: tuple[float | int, sp.csr_matrix], n_nodes: int
) -> tuple[float | int, sp.csr_matrix]:
    weight, previous = proximal
    if np.shape(previous) != (n_nodes, n_nodes):
        raise InputError(
            f"proximal must hold a weight and a {n_nodes} x {n_nodes} matrix, "
            f"got shape {np.shape(previous)}."
        )
    return check_number("the weight of proximal", weight, low=0), sp.csr_matrix(previous)


def _weighted_sum(parts: list[tuple[float | int, sp.csr_matrix | None]]) -> sp.csr_matrix | None:
    present = [scale * matrix for scale, matrix in parts if matrix is not None and scale != 0]
    if not present:
        return None
    total = sp.csr_matrix(sum(present[1:], start=present[0]))
    total.sum_duplicates()
    return total


def _penalties(signal: Matrix, weights: Weights, reading: str) -> tuple[Penalty, ...]:
    """Return the penalties whose weight is positive."""
    n_nodes = signal.shape[0]
    every: list[Penalty] = [RowSums(n_nodes, weights.row_sums), Loops(n_nodes, weights.loops)]
    if reading == "channel":
        every.append(ChannelEnergy(signal, weights.smoothness))
    if reading == "frobenius":
        every.append(FrobeniusEnergy.of(signal, weights.smoothness))
    return tuple(penalty for penalty in every if penalty.weight > 0)
