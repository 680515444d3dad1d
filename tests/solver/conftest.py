"""An independent dense solver, written directly from the objective, and random problems."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
import torch

from glnn.distributed import Partition
from glnn.graph import SparseAdjacency
from glnn.graph.pairs import Pairs, as_sharded_rows
from glnn.graph.rows import as_row_matrix
from glnn.objective import Objective, Weights
from glnn.solver.problem import Problem


@dataclass
class DenseProblem:
    """The objective as written, over all n x n entries."""

    signal: np.ndarray
    weights: Weights
    reading: str = "trace"
    prior: np.ndarray | None = None
    cost: np.ndarray | None = None
    allowed: np.ndarray | None = None

    def value(self, a):
        w, s, n = self.weights, self.signal, len(a)
        rest = s.T @ (np.eye(n) - a) @ s
        glr = {
            "trace": np.trace(rest),
            "channel": (np.diag(rest) ** 2).sum(),
            "frobenius": (rest**2).sum(),
        }[self.reading]
        total = w.smoothness * glr + w.sparsity * np.abs(a).sum()
        total += w.row_sums * ((a.sum(1) - 1) ** 2).sum() + w.loops * np.trace(a) ** 2
        total += w.ridge * (a**2).sum()
        if self.prior is not None:
            total += w.closeness * ((a - self.prior) ** 2).sum()
        if self.cost is not None:
            total += (self.cost * a).sum()
        return total

    def gradient(self, a):
        w, s, n = self.weights, self.signal, len(a)
        rest = s.T @ (np.eye(n) - a) @ s
        inner = {
            "trace": np.eye(s.shape[1]),
            "channel": 2 * np.diag(np.diag(rest)),
            "frobenius": 2 * rest,
        }[self.reading]
        total = -w.smoothness * s @ inner @ s.T + w.sparsity
        off = 2 * w.row_sums * (a.sum(1) - 1)
        total += (off[:, None] + off[None]) / 2 + 2 * w.loops * np.trace(a) * np.eye(n)
        total += 2 * w.ridge * a
        if self.prior is not None:
            total += 2 * w.closeness * (a - self.prior)
        if self.cost is not None:
            total += self.cost
        return total

    def smoothness_constant(self):
        w, s, n = self.weights, self.signal, len(self.signal)
        total = 2 * w.ridge + 2 * w.row_sums * n + 2 * w.loops * n
        total += 2 * w.closeness if self.prior is not None else 0.0
        if self.reading == "channel":
            total += 2 * w.smoothness * np.linalg.norm((s.T @ s) ** 2, 2)
        if self.reading == "frobenius":
            total += 2 * w.smoothness * np.linalg.norm(s, 2) ** 4
        return total

    def solve(self, steps=200_000, tol=1e-10):
        """Projected gradient with momentum and restarts."""
        n, step = len(self.signal), 1.0 / self.smoothness_constant()
        allowed = np.ones((n, n)) if self.allowed is None else self.allowed
        a = ahead = np.zeros((n, n))
        t = 1.0
        for _ in range(steps):
            new = np.maximum(ahead - step * self.gradient(ahead), 0.0) * allowed
            if ((ahead - new) * (new - a)).sum() > 0:
                t, ahead = 1.0, a
                continue
            t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
            ahead = new + (t - 1) / t_new * (new - a)
            a, t = new, t_new
            if self.residual(a) <= tol:
                break
        assert self.residual(a) <= 1e-8
        return a

    def solve_pairs(self):
        """The same optimum by non-negative least squares over the pairs, however ill scaled."""
        n = len(self.signal)
        allowed = np.ones((n, n)) if self.allowed is None else self.allowed
        i, j = np.nonzero(np.triu(allowed))
        counts = np.where(i == j, 1.0, 2.0)
        start = self.gradient(np.zeros((n, n)))
        hessian = np.empty((len(i), len(i)))
        for place, (row, column) in enumerate(zip(i, j)):
            unit = np.zeros((n, n))
            unit[row, column] = unit[column, row] = 1.0
            hessian[place] = counts * (self.gradient(unit) - start)[i, j]
        scale = np.diag(hessian) ** -0.5
        factor = np.linalg.cholesky(scale[:, None] * (hessian + hessian.T) / 2 * scale)
        wanted = np.linalg.solve(factor, -scale * counts * start[i, j])
        values = scale * scipy.optimize.nnls(factor.T, wanted, maxiter=100 * len(i))[0]
        a = np.zeros((n, n))
        a[i, j] = a[j, i] = values
        return a

    def residual(self, a):
        """Distance to a projected gradient step of length 1 / (2 (α+β))."""
        w = self.weights
        curvature = w.ridge + (w.closeness if self.prior is not None else 0.0)
        allowed = np.ones_like(a) if self.allowed is None else self.allowed
        moved = np.maximum(a - self.gradient(a) / (2 * curvature), 0.0) * allowed
        return np.abs(a - moved).max()


def best_new_row(problem, learned):
    """Return the optimal links and loop of one more node, and the value of any such row.

    ``problem`` is the dense problem with that node; the learned graph of all others is fixed.
    """
    n = learned.n_nodes
    base = np.zeros((n + 1, n + 1))
    base[:n, :n] = learned.adjacency.toarray()

    def with_row(row):
        a = base.copy()
        a[n, :], a[:, n] = row, row
        return a

    def slope(row):
        gradient = problem.gradient(with_row(row))
        return np.append(2 * gradient[n, :n], gradient[n, n])

    def value(row):
        return problem.value(with_row(row))

    how = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000}
    bounds = [(0, None)] * (n + 1)
    start = np.zeros(n + 1)
    best = scipy.optimize.minimize(
        value, start, jac=slope, bounds=bounds, method="L-BFGS-B", options=how
    )
    return best.x, value


def random_graph(n, rng, mean_degree=4.0):
    upper = np.triu(rng.random((n, n)) < mean_degree / n, 1)
    return sp.csr_matrix((upper | upper.T).astype(float))


def random_features(n, d, rng, *, sparse=False):
    x = rng.standard_normal((n, d)) + 2 * rng.standard_normal((4, d))[rng.integers(0, 4, n)]
    if not sparse:
        return x
    x = np.abs(x) * (rng.random((n, d)) < 0.3)
    return sp.csr_matrix(x)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def dense_problem():
    return DenseProblem


@pytest.fixture
def find_new_row():
    return best_new_row


@pytest.fixture
def make_graph():
    return random_graph


@pytest.fixture
def make_features():
    return random_features


@pytest.fixture
def load_npz():
    """Return a loader of the published data sets, or skip where they are not."""
    folder = os.environ.get("GLNN_DATA")
    if not folder:
        pytest.skip("GLNN_DATA is not set: the published data sets are needed")

    def load(name):
        with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as z:
            parts = (z["features_data"], z["features_indices"], z["features_indptr"])
            return sp.csr_matrix(parts, shape=tuple(z["features_shape"])), z["edge_index"]

    return load


def every_pair(n):
    """All pairs of n nodes, in one process."""
    ends = torch.from_numpy(np.stack(np.triu_indices(n)))
    return Pairs.union(Partition(n), [(ends[0], ends[1])])


@pytest.fixture
def all_pairs():
    return every_pair


@pytest.fixture
def make_problem():
    """Return a maker of problems from arrays, in one process."""

    def make(signal, weights, reading="trace", *, prior=None, more=()):
        rows = as_sharded_rows(as_row_matrix(signal, dtype=torch.float64))
        given = None if prior is None else SparseAdjacency.from_scipy(prior)
        objective = Objective.of(weights, rows, given, reading=reading, more=more)
        return Problem(objective, rows)

    return make
