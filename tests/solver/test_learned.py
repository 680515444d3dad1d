import numpy as np

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
