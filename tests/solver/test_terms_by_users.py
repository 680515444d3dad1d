"""Terms written by users work everywhere without further changes."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch import Tensor

from glnn.distributed import Partition
from glnn.graph import Adjacency, SparseAdjacency
from glnn.graph.pairs import ImplicitMatrix
from glnn.objective import READINGS, QuadraticTerm, Weights
from glnn.objective.base import Coupling, RowCoefficients
from glnn.solver import certify, learn_graph
from glnn.solver.learn import GraphRequest, solve_graph

# A term without listed pairs

WEIGHTS = Weights(smoothness=0.5, sparsity=0.05, row_sums=0.3, closeness=0.0, ridge=1.0)
N, WEIGHT, TOTAL = 36, 2.0, 30.0
GROUP = (np.arange(N) % 3 == 0).astype(float)


@dataclass(frozen=True, eq=False)
class GroupWeight(QuadraticTerm):
    r""":math:`(\sum_{i \in S} r_i - c)^2` with the row sums :math:`r`: ``group`` marks S."""

    weight: float
    group: Tensor
    total: float
    name: str = "group_weight"

    @property
    def target(self) -> Tensor:
        return torch.tensor([self.total], dtype=torch.float64)

    def image(self, adj: Adjacency) -> Tensor:
        return (self.group * adj.row_sums()).sum()[None]

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        return ImplicitMatrix(nodes=self.group * y[0] / 2)

    def new_row(self, dual: Tensor) -> RowCoefficients:
        missing = -float(dual[0]) / (2 * self.weight)
        return RowCoefficients(couplings=(Coupling(self.weight, self.group, 0.0, missing),))


@pytest.fixture
def toy():
    return GroupWeight(WEIGHT, torch.from_numpy(GROUP), TOTAL)


@pytest.fixture
def features(rng, make_features):
    return make_features(N + 1, 4, rng)


@pytest.fixture
def oracle_of(dense_problem):
    """Return the dense oracle with the toy term added by hand."""

    class WithToy(dense_problem):
        def misfit(self, a):
            return GROUP @ a.sum(1)[:N] - TOTAL

        def value(self, a):
            return super().value(a) + WEIGHT * self.misfit(a) ** 2

        def gradient(self, a):
            group = np.append(GROUP, np.zeros(len(a) - N))
            slope = 2 * WEIGHT * self.misfit(a) * (group[:, None] + group[None]) / 2
            return super().gradient(a) + slope

        def smoothness_constant(self):
            return super().smoothness_constant() + 2 * WEIGHT * N * GROUP.sum()

    return WithToy


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("support", ["all", "candidates"])
def test_it_is_in_the_value_the_optimum_and_the_certificate(
    reading, support, toy, features, oracle_of
):
    x = features[:N]
    arguments = {"weights": WEIGHTS, "reading": reading, "support": support, "n_candidates": 6}
    learned = learn_graph(x, terms=[toy], **arguments)
    allowed = None
    if support == "candidates":
        i, j = learned.candidates
        allowed = np.eye(N)
        allowed[i, j] = allowed[j, i] = 1
    oracle = oracle_of(normalize(x), WEIGHTS, reading, allowed=allowed)
    best = oracle.solve()
    assert np.abs(learned.adjacency.toarray() - best).max() < 1e-6
    value = learned.problem.objective(SparseAdjacency.from_scipy(learned.adjacency))
    assert float(value) == pytest.approx(oracle.value(best), rel=1e-9)
    assert learned.certificate.converged
    without = learn_graph(x, **arguments)
    assert np.abs((learned.adjacency - without.adjacency).toarray()).max() > 1e-2
    assert not certify(learned.problem, without.adjacency).converged
    assert not certify(without.problem, learned.adjacency).converged


def test_it_is_in_the_links_of_a_new_node(toy, features, oracle_of, find_new_row):
    learned = learn_graph(features[:N], weights=WEIGHTS, terms=[toy])
    found = learned.connect(features[N:])
    best, _ = find_new_row(oracle_of(normalize(features), WEIGHTS), learned)
    assert np.abs(np.append(found.links.toarray()[0], found.loops[0]) - best).max() < 1e-6
    share = learn_graph(features[:N], weights=WEIGHTS).new_rows.share
    without = dataclasses.replace(learned.new_rows, share=share).connect(features[N:])
    assert np.abs((found.links - without.links).toarray()).max() > 1e-3


# A term with listed pairs
N_ROWS, PULL, SUM = 30, 2.0, 6.0


@dataclass(frozen=True, eq=False)
class ListedWeight(QuadraticTerm):
    r""":math:`(\sum_{(i,j) \in E} a_{ij} - c)^2` with a sorted list E of pairs i < j."""

    weight: float
    ends: tuple[Tensor, Tensor]
    total: float
    layout: Partition
    name: str = "listed_weight"

    @property
    def target(self) -> Tensor:
        return torch.tensor([self.total])  # single precision, which a user may well write

    def image(self, adj: Adjacency) -> Tensor:
        return adj.entries(*self.ends).sum()[None]

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        i, j = self.ends
        ends = np.stack([i.numpy(), j.numpy()])
        rows, columns = np.hstack([ends, ends[::-1]])
        values = (np.full(len(rows), float(y[0] / 2)), (rows, columns))
        block = sp.csr_matrix(values, shape=(N_ROWS, N_ROWS))[self.layout.rows]
        return ImplicitMatrix(sparse=SparseAdjacency.from_rows(self.layout, block))

    def new_row(self, dual: Tensor) -> RowCoefficients:
        return RowCoefficients()  # no pair of a new node is on the list


@pytest.fixture
def table(rng, make_features):
    return make_features(N_ROWS, 4, rng)


@pytest.fixture
def ends(table):
    """Return the pairs that are least alike, which no search for candidates finds."""
    x = normalize(table)
    i, j = np.triu_indices(N_ROWS, 1)
    least = np.sort(np.argsort((x[i] * x[j]).sum(1))[:8])
    return torch.from_numpy(i[least]), torch.from_numpy(j[least])


@pytest.fixture
def listed_oracle(dense_problem, ends):
    i, j = (part.numpy() for part in ends)

    class WithList(dense_problem):
        def misfit(self, a):
            return a[i, j].sum() - SUM

        def value(self, a):
            return super().value(a) + PULL * self.misfit((a + a.T) / 2) ** 2

        def gradient(self, a):
            slope = np.zeros_like(a)
            slope[i, j] = slope[j, i] = PULL * self.misfit((a + a.T) / 2)
            return super().gradient(a) + slope

        def smoothness_constant(self):
            return super().smoothness_constant() + 2 * PULL * len(i)

    return WithList


@pytest.mark.parametrize("reading", READINGS)
def test_pairs_that_only_a_penalty_names_become_edges(reading, table, ends, listed_oracle):
    term = ListedWeight(PULL, ends, SUM, Partition(N_ROWS))
    how = {"weights": WEIGHTS, "reading": reading, "n_candidates": 3}
    learned = learn_graph(table, terms=[term], **how)
    best = listed_oracle(normalize(table), WEIGHTS, reading).solve()
    assert np.abs(learned.adjacency.toarray() - best).max() < 1e-6
    assert best[ends[0], ends[1]].min() > 0.1
    assert learned.certificate.converged
    without = learn_graph(table, **how)
    assert not certify(learned.problem, without.adjacency).converged


def test_two_processes_see_the_list_as_one_does(table, ends, together):
    def work(peers):
        part = Partition(N_ROWS, peers)
        term = ListedWeight(PULL, ends, SUM, part)
        how = {"weights": WEIGHTS, "terms": [term], "n_candidates": 3}
        return solve_graph(GraphRequest(table[part.rows], layout=part, **how))

    (alone,), parts = together(1, work), together(2, work)
    whole = sp.vstack([part.adjacency for part in parts])
    assert np.abs((whole - alone.adjacency).toarray()).max() < 1e-6
    assert all(part.certificate.converged for part in parts)
