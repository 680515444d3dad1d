import numpy as np
import pytest
import scipy.sparse as sp

from glnn.objective import Weights
from glnn.peers import ALONE, Partition
from glnn.solver import TaskTerm, learn_graph

READINGS = ["trace", "channel", "frobenius"]
WEIGHTS = Weights(smoothness=0.3, sparsity=0.1, row_sums=0.1, loops=0.001, closeness=2.0)
NONE = np.empty(0, dtype=np.int64)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("support", ["all", "candidates"])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_graph_is_the_same_for_any_number_of_processes(
    size, reading, support, sparse, together, rng, make_graph, make_features
):
    n = 90
    x, graph = make_features(n, 6, rng, sparse=sparse), make_graph(n, rng)
    p, (u, v) = rng.dirichlet(np.ones(3), n), rng.standard_normal((2, n, 2)) / 3
    offset, previous = make_graph(n, rng), make_graph(n, rng)
    common = {"weights": WEIGHTS, "reading": reading, "support": support, "n_candidates": 5}

    def learned_by(peers):
        rows = Partition(n, peers).rows
        return learn_graph(
            x[rows],
            graph[rows],
            predictions=p[rows],
            task=TaskTerm(u[rows], v[rows], offset[rows]),
            proximal=(0.2, previous[rows]),
            column_weights=np.arange(1.0, 7.0),
            peers=peers,
            **common,
        )

    alone, parts = learned_by(ALONE), together(size, learned_by)
    whole = sp.vstack([part.adjacency for part in parts])
    assert np.abs((whole - alone.adjacency).toarray()).max() < 1e-6
    for part in parts:
        assert part.certificate.converged
        assert part.certificate.objective == pytest.approx(alone.certificate.objective, rel=1e-9)
        assert part.certificate.n_pairs_checked == alone.certificate.n_pairs_checked
        assert np.allclose(part.row_sums, alone.row_sums, atol=1e-6)
        assert part.mean_added_degree == alone.mean_added_degree


@pytest.mark.parametrize("search", ["exact", "clusters"])
def test_a_wanted_degree_is_reached_alike_by_any_number_of_processes(
    search, together, rng, make_features
):
    x = make_features(400, 6, rng)
    common = {"n_neighbors": 6, "support": "candidates", "search": search}
    alone = learn_graph(x, **common)
    parts = together(
        3, lambda peers: learn_graph(x[Partition(400, peers).rows], peers=peers, **common)
    )
    whole = sp.vstack([part.adjacency for part in parts])
    assert np.abs((whole - alone.adjacency).toarray()).max() < 1e-6
    assert parts[0].weights.sparsity == pytest.approx(alone.weights.sparsity, rel=1e-6)
    again = together(
        2,
        lambda peers: learn_graph(
            x[Partition(400, peers).rows],
            peers=peers,
            n_neighbors=6,
            support="candidates",
            candidates=alone.candidates if peers.rank == 0 else (NONE, NONE),
        ),
    )
    assert np.abs((sp.vstack([p.adjacency for p in again]) - whole).toarray()).max() < 1e-6
