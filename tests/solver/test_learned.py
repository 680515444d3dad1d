import dataclasses

import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.peers import Partition
from glnn.solver import learn_graph


def test_its_numbers_are_those_of_its_adjacency(rng, make_graph, make_features):
    learned = learn_graph(make_features(40, 4, rng), make_graph(40, rng), n_neighbors=3)
    a = learned.adjacency.toarray()
    assert np.allclose(learned.row_sums, a.sum(1))
    assert learned.n_edges == np.count_nonzero(np.triu(a, 1))


def test_candidates_can_be_used_again(rng, make_graph, make_features):
    x, graph = make_features(40, 4, rng), make_graph(40, rng)
    first = learn_graph(x, graph, support="candidates", n_candidates=4)
    again = learn_graph(x, graph, support="candidates", candidates=first.candidates)
    assert (first.adjacency != again.adjacency).nnz == 0


def test_parts_of_processes_are_collected_in_the_first(together, rng, make_graph, make_features):
    x, graph = make_features(50, 4, rng), make_graph(50, rng)
    whole = learn_graph(x, graph, support="candidates", n_candidates=4)
    new = make_features(3, 4, rng)

    def work(peers):
        rows = Partition(50, peers).rows
        part = learn_graph(x[rows], graph[rows], support="candidates", n_candidates=4, peers=peers)
        with pytest.raises(InputError, match="collected"):
            part.connect(new)
        return part, part.collected()

    found = together(3, work)
    assert [collected is None for _, collected in found] == [False, True, True]
    collected = found[0][1]
    assert np.allclose(collected.adjacency.toarray(), whole.adjacency.toarray(), atol=1e-9)
    assert np.allclose(collected.prior.toarray(), whole.prior.toarray())
    assert collected.n_edges == whole.n_edges
    assert np.allclose(collected.connect(new).links.toarray(), whole.connect(new).links.toarray())
    for part, _ in found:
        assert np.allclose(part.row_sums, whole.row_sums)
        assert part.n_nodes == 50


def test_loops_of_a_part_are_no_edges(together, rng, make_graph, make_features):
    x, graph = make_features(30, 4, rng), make_graph(30, rng)
    weights = Weights(loops=0.0, sparsity=0.0, row_sums=1.0, ridge=0.1)

    def work(peers):
        rows = Partition(30, peers).rows
        return learn_graph(x[rows], graph[rows], weights=weights, peers=peers), rows

    for part, rows in together(2, work):
        n_loops = np.count_nonzero(part.adjacency.toarray()[:, rows].diagonal())
        assert n_loops > 0
        assert part.n_edges == (part.adjacency.nnz - n_loops) // 2


def test_its_representation_is_a_few_words(rng, make_features):
    assert len(repr(learn_graph(make_features(40, 4, rng)))) < 300


def test_it_says_optimal_only_where_that_is_proven(rng, make_features):
    proven = learn_graph(make_features(40, 4, rng))
    assert proven.certificate.converged
    assert "NOT" not in repr(proven) and "optimal" in repr(proven)
    worse = dataclasses.replace(proven.certificate, converged=False)
    assert "NOT optimal" in repr(dataclasses.replace(proven, certificate=worse))
