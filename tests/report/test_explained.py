import dataclasses

import numpy as np
import pytest

from glnn import GLNNClassifier, learn_graph
from glnn.quality.explain import Explanation, LabelEffect, Link
from glnn.report.explained import (
    HeldOutPrediction,
    NodeExplanation,
    find_top_columns,
    group_terms,
    heading,
    held_out_prediction,
    link_table,
    link_terms,
    metric_columns,
    name_terms,
)
from glnn.report.page.page_data import extract_links
from glnn.report.results import merge_held_out
from glnn.solver.attribution import link_shares

# One node


@pytest.fixture
def node():
    terms = {"closeness": 0.5, "smoothness": 0.25, "sparsity": -0.125, "row_sums": -0.25}
    links = (
        Link(1, 0.375, "cook", "cook", 0.9, terms, {"age": 0.2}),
        Link(2, 0.25, None, "pilot", 0.6, {"smoothness": 0.25}, {}),
    )
    effects = (LabelEffect(1, "cook", 0.4, {"cook": 0.4, "pilot": -0.4}),)
    found = Explanation(0, None, "pilot", 0.75, links, effects, {"age": 0.2})
    return NodeExplanation(found, np.array(["ann", "bob", "eve"]))


def cells(table):
    return [list(column.cells) for column in table.columns]


def test_grouped_terms_have_the_sum_of_all_terms(node):
    for link in node.explanation.links:
        assert sum(group_terms(link.terms).values()) == pytest.approx(sum(link.terms.values()))


def test_a_term_without_a_word_of_its_own_is_a_penalty():
    assert group_terms({"toy": -1.0, "task": 0.5}) == {"task": 0.5, "penalties": -1.0}


def test_the_answer_is_one_line_with_names(node):
    assert heading(node) == "ann: predicted pilot (75.0 %); no label was given."


def test_a_given_label_is_said_to_be_known_or_hidden(node):
    found = dataclasses.replace(node.explanation, label="cook")
    known = dataclasses.replace(node, explanation=found)
    assert heading(known) == (
        "ann: predicted pilot (75.0 %) by a fit trained on its label; given label cook."
    )
    both = dataclasses.replace(known, held_out=HeldOutPrediction("cook", 0.6))
    assert heading(both).startswith("ann: predicted cook (60.0 %) without its label; ")
    assert heading(both).endswith("with its label, as explained here, predicted pilot (75.0 %).")
    assert both.to_dict()["without_its_label"] == {"predicted": "cook", "probability": 0.6}


def test_answers_without_the_label_are_those_of_the_predictions(judged_run):
    _, after, model, _, _ = judged_run
    shown, held_out = merge_held_out(after)
    for node in np.flatnonzero(held_out)[:5]:
        found = held_out_prediction(model, int(node))
        assert found.probability == shown[node].max()
        assert str(found.predicted) == after.class_names[shown[node].argmax()]
    assert held_out_prediction(model, int(np.flatnonzero(~held_out)[0])) is None


def test_links_are_named_and_predictions_marked_as_such(node):
    columns = cells(link_table(node))
    assert columns[0] == ["bob", "eve"]
    assert columns[1] == ["cook", "pilot ?"]
    assert columns[-2] == ["-0.375", "+0.000"]  # penalties


def test_ids_stand_beside_row_numbers(node):
    page = node.to_dict()
    assert page["id"] == "ann"
    assert [link["id"] for link in page["links"]] == ["bob", "eve"]
    assert page["label_effects"][0]["id"] == "bob"


# All links


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
    np.testing.assert_allclose(terms.shares.sum(1), extract_links(model.graph_).data, atol=1e-6)
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
    shares, links = link_shares(graph), extract_links(graph.adjacency)
    columns, parts = find_top_columns(shares, features, links.row, links.col)
    for k in range(0, links.nnz, 7):
        given = shares.column_shares(features[links.row[k]], features[[links.col[k]]])[0]
        positive = np.maximum(given, 0)
        assert columns[k, 0] == positive.argmax()
        np.testing.assert_allclose(parts[k, 0], positive.max() / positive.sum())


def test_terms_without_a_word_of_their_own_are_penalties():
    names, values = name_terms(["task", "ridge", "loops"], np.ones((2, 3)))
    assert names == ("task", "penalties")
    np.testing.assert_array_equal(values, [[1, 2], [1, 2]])
