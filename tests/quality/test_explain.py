import dataclasses
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from glnn.exceptions import InputError
from glnn.quality.explain import explain
from glnn.quality.influence import label_influence, network_kernel


def test_terms_of_every_link_sum_to_its_weight(fitted_nodes):
    for node in range(fitted_nodes.n_nodes):
        for link in explain(fitted_nodes, node).links:
            assert_allclose(sum(link.terms.values()), link.weight, atol=1e-6)


def test_links_are_the_heaviest_of_the_row_without_its_loop(fitted_nodes):
    found = explain(fitted_nodes, 3, n_links=4)
    row = fitted_nodes.adjacency[[3]].toarray().ravel()
    row[3] = 0
    expected = np.sort(row)[::-1][:4]
    assert_allclose([link.weight for link in found.links], expected)
    assert [row[link.node] for link in found.links] == [link.weight for link in found.links]


def test_columns_of_all_links_are_the_similarity_shares_summed(fitted_nodes):
    found = explain(fitted_nodes, 5, n_links=1000)
    similar = sum(link.terms["smoothness"] for link in found.links)
    ends = np.array([link.node for link in found.links])
    assert_allclose(fitted_nodes.column_shares(5, ends).sum(), similar, atol=1e-9)
    assert set(found.columns) <= set(fitted_nodes.column_names)


def test_the_named_columns_are_the_largest_of_the_link(fitted_nodes):
    link = explain(fitted_nodes, 2).links[0]
    shares = fitted_nodes.column_shares(2, np.array([link.node]))[0]
    assert_allclose(list(link.columns.values()), np.sort(shares[shares > 0])[::-1][:3])


def test_labels_speak_as_much_as_their_influence_says(fitted_nodes):
    found = explain(fitted_nodes, 1, n_labels=1000)
    nodes = fitted_nodes
    classes = nodes.labels[nodes.trained]
    effects = label_influence(nodes.rows(), nodes.trained, classes, 2).at(1)
    for voice in found.voices:
        place = int(np.flatnonzero(nodes.trained == voice.node)[0])
        assert_allclose(list(voice.effects.values()), effects[place])
        assert voice.effect == voice.effects[voice.label]
    sizes = [abs(voice.effect) for voice in found.voices]
    assert sizes == sorted(sizes, reverse=True)


def test_what_is_shown_of_an_explanation_is_short_and_plain(fitted_nodes):
    found = explain(fitted_nodes, 1)
    assert len(repr(found)) < 200
    assert repr(found).startswith("Explanation(node 1, ")
    assert "<table>" in found._repr_html_()
    assert type(found.predicted) is type(fitted_nodes.classes.tolist()[0])


def test_of_many_labels_those_most_alike_to_the_node_speak(fitted_nodes, monkeypatch):
    monkeypatch.setattr("glnn.quality.explain._MOST_SCORES", 6)
    rows = fitted_nodes.rows()
    alike = network_kernel(rows[[20]], rows[fitted_nodes.trained])[0]
    expected = fitted_nodes.trained[np.argsort(-alike)[:3]]
    voices = explain(fitted_nodes, 20).voices
    assert sorted(voice.node for voice in voices) == sorted(expected.tolist())


def test_a_labelled_node_does_not_speak_for_itself(fitted_nodes):
    node = int(fitted_nodes.trained[0])
    found = explain(fitted_nodes, node, n_labels=1000)
    assert found.label is not None
    assert node not in [voice.node for voice in found.voices]
    assert len(found.voices) == len(fitted_nodes.trained) - 1


def test_a_model_that_does_not_know_its_terms_still_names_links_and_labels(fitted_nodes):
    found = explain(dataclasses.replace(fitted_nodes, shares=None), 0)
    assert found.links and found.voices
    assert all(link.terms == {} and link.columns == {} for link in found.links)


def test_an_explanation_survives_json(fitted_nodes):
    found = explain(fitted_nodes, 4)
    page = json.loads(json.dumps(found.to_dict()))
    assert page["node"] == 4 and page["predicted"] == found.predicted
    assert_allclose(page["links"][0]["weight"], found.links[0].weight)
    assert page["voices"][0]["effects"].keys() == {str(c) for c in fitted_nodes.classes}


def test_the_table_has_a_line_for_each_link_and_a_column_for_each_term(fitted_nodes):
    found = explain(fitted_nodes, 4)
    frame = found.to_frame()
    assert len(frame) == len(found.links)
    assert_allclose(frame[list(found.links[0].terms)].sum(axis=1), frame["weight"], atol=1e-6)


@pytest.mark.parametrize("node", [-1, 30])
def test_a_row_that_is_not_there_is_refused(fitted_nodes, node):
    with pytest.raises(InputError, match="node must be"):
        explain(fitted_nodes, node)


def test_no_links_may_be_asked_for(fitted_nodes):
    assert explain(fitted_nodes, 3, n_links=0).links == ()
    with pytest.raises(InputError, match="n_links must be at least 0"):
        explain(fitted_nodes, 3, n_links=-1)
