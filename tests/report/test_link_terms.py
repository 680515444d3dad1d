import dataclasses

import numpy as np
import pytest

from glnn import GLNNClassifier, learn_graph
from glnn.report.link_terms import in_words, link_terms, metric_columns, named_columns
from glnn.report.page.links import upper_links
from glnn.solver.shares import link_shares


@pytest.fixture
def learned():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 5)) + 3 * (np.arange(40) % 2)[:, None]
    return learn_graph(features, n_neighbors=4), features


def test_shares_of_a_link_sum_to_its_weight(learned):
    _, features = learned
    model = GLNNClassifier(n_epochs=5, n_rounds=1, random_state=0, calibrate=None)
    nodes = model.fit(features, np.arange(40) % 2).fitted_nodes(list("abcde"))
    terms = link_terms(nodes)
    np.testing.assert_allclose(terms.shares.sum(1), upper_links(model.graph_).data, atol=1e-6)
    assert "similarity" in terms.names
    assert terms.column_names == tuple("abcde")
    assert link_terms(dataclasses.replace(nodes, shares=None)) is None


def test_columns_that_all_count_alike_are_not_named_and_others_by_weight(learned):
    _, features = learned
    model = GLNNClassifier(n_epochs=5, n_rounds=2, random_state=0, calibrate=None)
    nodes = model.fit(features, np.arange(40) % 2).fitted_nodes(list("abcde"))
    weights = [weight for _, weight in metric_columns(nodes)]
    assert weights == sorted(weights, reverse=True)
    assert metric_columns(dataclasses.replace(nodes, shares=None)) == ()


def test_named_columns_are_the_largest_of_the_dense_products(learned):
    graph, features = learned
    shares, links = link_shares(graph), upper_links(graph.adjacency)
    columns, parts = named_columns(shares, features, links.row, links.col)
    for k in range(0, links.nnz, 7):
        given = shares.column_shares(features[links.row[k]], features[[links.col[k]]])[0]
        positive = np.maximum(given, 0)
        assert columns[k, 0] == positive.argmax()
        np.testing.assert_allclose(parts[k, 0], positive.max() / positive.sum())


def test_terms_without_a_word_of_their_own_are_penalties():
    names, values = in_words(["task", "ridge", "loops"], np.ones((2, 3)))
    assert names == ("task", "penalties")
    np.testing.assert_array_equal(values, [[1, 2], [1, 2]])
