import numpy as np
import scipy.sparse as sp

from glnn.report.facts import GraphFacts, edges_of


def random_graph(n=30, seed=0):
    upper = sp.triu(sp.random(n, n, 0.15, random_state=seed), k=0)
    return sp.csr_matrix(upper + sp.triu(upper, k=1).T)


def test_edges_are_listed_once_and_rebuild_the_graph():
    graph = random_graph()
    i, j = edges_of(graph)
    assert (i < j).all()
    rebuilt = np.zeros(graph.shape)
    rebuilt[i, j] = rebuilt[j, i] = 1
    np.fill_diagonal(rebuilt, graph.diagonal() != 0)
    np.testing.assert_array_equal(rebuilt, graph.toarray() != 0)


def test_counts_agree_with_the_dense_matrix():
    graph = random_graph()
    labels = np.arange(30) % 3
    labels[::5] = -1
    facts = GraphFacts.of(graph, labels, given=random_graph(seed=1))
    linked = graph.toarray() != 0
    off = linked & ~np.eye(30, dtype=bool)
    known = off & (labels[:, None] >= 0) & (labels[None] >= 0)
    given = (random_graph(seed=1).toarray() != 0) & ~np.eye(30, dtype=bool)
    assert facts.n_edges == off.sum() / 2
    assert facts.n_loops == np.diag(linked).sum()
    assert facts.mean_degree == off.sum(1).mean()
    assert facts.n_isolated == (off.sum(1) == 0).sum()
    assert facts.n_labelled_edges == known.sum() / 2
    assert facts.equal_labels == (labels[:, None] == labels[None])[known].mean()
    ends = np.repeat(labels, known.sum(1))  # a node as often as it has counted edges
    pairs = ends[:, None] == ends[None]
    assert np.isclose(facts.equal_by_chance, pairs.mean())
    assert facts.n_given == given.sum() / 2
    assert facts.n_kept == (given & off).sum() / 2
    assert facts.n_added == (off & ~given).sum() / 2


def test_a_graph_without_edges_has_no_shares():
    facts = GraphFacts.of(sp.csr_matrix((3, 3)), np.array([0, 1, -1]))
    assert (facts.n_edges, facts.n_isolated, facts.n_components) == (0, 3, 3)
    assert facts.equal_labels is None
    assert facts.equal_by_chance is None
    assert facts.to_dict()["n_labelled_edges"] == 0
