"""A penalty whose adjoint is a list of pairs, which tiles of similarities do not show."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

from glnn.objective import READINGS, Weights
from glnn.peers import ALONE, Partition
from glnn.solver import certify, learn_graph

WEIGHTS = Weights(smoothness=0.5, sparsity=0.05, row_sums=0.3, closeness=0.0, ridge=1.0)
N, WEIGHT, TOTAL = 30, 2.0, 6.0


@pytest.fixture(scope="module")
def term_class():
    path = Path(__file__).with_name("listed_term.py")
    spec = importlib.util.spec_from_file_location("listed_term", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ListedWeight


@pytest.fixture
def features(rng, make_features):
    return make_features(N, 4, rng)


@pytest.fixture
def ends(features):
    """Return the pairs that are least alike, which no search for candidates finds."""
    x = normalize(features)
    i, j = np.triu_indices(N, 1)
    least = np.sort(np.argsort((x[i] * x[j]).sum(1))[:8])
    return torch.from_numpy(i[least]), torch.from_numpy(j[least])


@pytest.fixture
def oracle_of(dense_problem, ends):
    i, j = (part.numpy() for part in ends)

    class WithList(dense_problem):
        def misfit(self, a):
            return a[i, j].sum() - TOTAL

        def value(self, a):
            return super().value(a) + WEIGHT * self.misfit((a + a.T) / 2) ** 2

        def gradient(self, a):
            slope = np.zeros_like(a)
            slope[i, j] = slope[j, i] = WEIGHT * self.misfit((a + a.T) / 2)
            return super().gradient(a) + slope

        def smoothness_constant(self):
            return super().smoothness_constant() + 2 * WEIGHT * len(i)

    return WithList


@pytest.mark.parametrize("reading", READINGS)
def test_pairs_that_only_a_penalty_names_become_edges(
    reading, term_class, features, ends, oracle_of
):
    term = term_class(WEIGHT, ends, TOTAL, Partition(N, ALONE))
    how = {"weights": WEIGHTS, "reading": reading, "n_candidates": 3}
    learned = learn_graph(features, terms=[term], **how)
    best = oracle_of(normalize(features), WEIGHTS, reading).solve()
    assert np.abs(learned.adjacency.toarray() - best).max() < 1e-6
    assert best[ends[0], ends[1]].min() > 0.1
    assert learned.certificate.converged
    without = learn_graph(features, **how)
    assert not certify(learned.problem, without.adjacency).converged


def test_two_processes_see_the_list_as_one_does(term_class, features, ends, together):
    def work(peers):
        part = Partition(N, peers)
        term = term_class(WEIGHT, ends, TOTAL, part)
        return learn_graph(
            features[part.rows], weights=WEIGHTS, terms=[term], n_candidates=3, peers=peers
        )

    (alone,), parts = together(1, work), together(2, work)
    whole = sp.vstack([part.adjacency for part in parts])
    assert np.abs((whole - alone.adjacency).toarray()).max() < 1e-6
    assert all(part.certificate.converged for part in parts)
