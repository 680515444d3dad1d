import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.quality.explain import Explanation, LabelEffect, Link
from glnn.report.explained import (
    NodeExplanation,
    explain_node,
    link_table,
)


@pytest.fixture
def node():
    terms = {"closeness": 0.5, "smoothness": 0.25, "sparsity": -0.125, "row_sums": -0.25}
    links = (
        Link(1, 0.375, "cook", "cook", 0.9, terms, {"age": 0.2}),
        Link(2, 0.25, None, "pilot", 0.6, {"smoothness": 0.25}, {}),
    )
    voices = (LabelEffect(1, "cook", 0.4, {"cook": 0.4, "pilot": -0.4}),)
    found = Explanation(0, None, "pilot", 0.75, links, voices, {"age": 0.2})
    return NodeExplanation(found, np.array(["ann", "bob", "eve"]))


def cells(table):
    return [list(column.cells) for column in table.columns]


def test_answers_without_the_label_are_those_of_the_predictions(judged_run):
    run, results = judged_run[0], judged_run[0].results
    for node in np.flatnonzero(results.held_out)[:2]:
        found = explain_node(run.folder, str(results.ids[node]))
        assert found.explanation.node == node
        predicted = results.class_names[results.predictions[node]]
        assert found.held_out == (predicted, results.probabilities[node].max())
    unlabelled = int(np.flatnonzero(~results.held_out)[0])
    assert explain_node(run.folder, str(results.ids[unlabelled])).held_out is None
    with pytest.raises(InputError, match="unknown name"):
        explain_node(run.folder, "7")


def test_nodes_without_ids_are_found_by_their_number(tested_run):
    found = explain_node(tested_run[0].folder, "17")
    assert found.explanation.node == 17 and found.name(17) == "17"


def test_links_are_named_and_predictions_marked_as_such(node):
    columns = cells(link_table(node))
    assert columns[0] == ["bob", "eve"]
    assert columns[1] == ["cook", "pilot ?"]
    assert columns[2] == ["0.375", "0.250"]
    assert columns[3] == ["given graph; similar in age", "similarity"]
