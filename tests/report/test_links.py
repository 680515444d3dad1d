import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn import GLNNClassifier, learn_graph
from glnn.data.node_data import extract_links
from glnn.report.links import (
    ADDED,
    DROPPED,
    KEPT,
    GraphFacts,
    find_top_columns,
    link_terms,
    merge_links,
    metric_columns,
)
from glnn.solver.attribution import link_shares


def random_graph(seed, n=30, share=0.15):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < share), 1)
    return sp.csr_matrix(upper + upper.T + np.diag(np.arange(n) % 2))


def test_fates_are_the_sets_of_a_venn_diagram():
    learned, given = random_graph(0), random_graph(1)
    links = merge_links(learned, given)
    dense = learned.toarray() > 0, given.toarray() > 0
    for fate, members in (
        (KEPT, dense[0] & dense[1]),
        (ADDED, dense[0] & ~dense[1]),
        (DROPPED, ~dense[0] & dense[1]),
    ):
        found = np.zeros_like(members)
        chosen = links.pick(links.fate == fate)
        found[chosen.source, chosen.target] = True
        np.testing.assert_array_equal(found, np.triu(members, 1))
    np.testing.assert_allclose(links.weight, learned.toarray()[links.source, links.target])
    assert set(merge_links(learned, None).fate) == {ADDED}


def test_counts_agree_with_the_dense_matrix():
    graph, labels = random_graph(0), np.arange(30) % 3
    labels[::5] = -1
    facts = GraphFacts.of(graph, labels, given=random_graph(1))
    linked = graph.toarray() != 0
    off = linked & ~np.eye(30, dtype=bool)
    known = off & (labels[:, None] >= 0) & (labels[None] >= 0)
    given = (random_graph(1).toarray() != 0) & ~np.eye(30, dtype=bool)
    ends = np.repeat(labels, known.sum(1))  # a node as often as it has counted edges
    assert facts.n_edges == off.sum() / 2
    assert facts.n_loops == np.diag(linked).sum()
    assert facts.mean_degree == off.sum(1).mean()
    assert facts.n_isolated == (off.sum(1) == 0).sum()
    assert facts.n_labelled_edges == known.sum() / 2
    assert facts.equal_labels == (labels[:, None] == labels[None])[known].mean()
    assert np.isclose(facts.equal_by_chance, (ends[:, None] == ends[None]).mean())
    assert facts.n_given == given.sum() / 2
    assert facts.n_kept == (given & off).sum() / 2
    assert facts.n_added == (off & ~given).sum() / 2


def test_a_graph_without_edges_has_no_shares():
    facts = GraphFacts.of(sp.csr_matrix((3, 3)), np.array([0, 1, -1]))
    assert (facts.n_edges, facts.n_isolated, facts.n_components) == (0, 3, 3)
    assert facts.equal_labels is None and facts.equal_by_chance is None


# Terms behind each link


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 5)) + 3 * (np.arange(40) % 2)[:, None]


def test_shares_of_a_link_sum_to_its_weight_and_columns_come_by_weight(features):
    model = GLNNClassifier(
        n_epochs=5, n_rounds=2, random_state=0, calibrate=None, tracks=["features"]
    )
    nodes = model.fit(features, np.arange(40) % 2).fitted_nodes(list("abcde"))
    terms = link_terms(nodes)
    np.testing.assert_allclose(terms.shares.sum(1), extract_links(model.graph_).data, atol=1e-6)
    assert "similarity" in terms.names
    assert terms.column_names == tuple("abcde")
    weights = [weight for _, weight in metric_columns(nodes)]
    assert weights == sorted(weights, reverse=True)
    unsolved = dataclasses.replace(nodes, shares=None)
    assert link_terms(unsolved) is None and metric_columns(unsolved) == ()


def test_named_columns_are_the_largest_of_the_dense_products(features):
    graph = learn_graph(features, n_neighbors=4)
    shares, links = link_shares(graph), extract_links(graph.adjacency)
    columns, parts = find_top_columns(shares, features, links.row, links.col)
    for k in range(0, links.nnz, 7):
        given = shares.column_shares(features[links.row[k]], features[[links.col[k]]])[0]
        positive = np.maximum(given, 0)
        assert columns[k, 0] == positive.argmax()
        np.testing.assert_allclose(parts[k, 0], positive.max() / positive.sum())
