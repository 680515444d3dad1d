import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.exceptions import InputError
from glnn.quality.explain import (
    _N_OVERSAMPLES,
    can_refit_quickly,
    center_and_normalize,
    embed_nodes,
    explain,
    leave_one_out_effects,
)
from glnn.quality.influence import estimate_influence, network_kernel

# Explanations


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
    effects = estimate_influence(nodes.embedding(), nodes.trained, classes, 2).at(1)
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
    monkeypatch.setattr("glnn.quality.explain._MAX_SCORES", 6)
    rows = fitted_nodes.embedding()
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


# Fitted nodes


def test_labels_are_those_given_and_none_elsewhere(fitted_nodes):
    for node in range(fitted_nodes.n_nodes):
        number = fitted_nodes.labels[node]
        expected = None if number < 0 else fitted_nodes.classes[number]
        assert fitted_nodes.label_of(node) == expected


def test_rows_are_features_spread_over_the_graph(fitted_nodes):
    assert_allclose(fitted_nodes.embedding(), fitted_nodes.propagate(fitted_nodes.features))


def test_columns_count_the_same_for_sparse_features(fitted_nodes):
    ends = np.array([1, 2, 7])
    sparse = dataclasses.replace(fitted_nodes, features=sp.csr_matrix(fitted_nodes.features))
    assert_allclose(sparse.column_shares(0, ends), fitted_nodes.column_shares(0, ends))


# Embedding


@pytest.fixture
def propagate():
    rng = np.random.default_rng(0)
    matrix = rng.random((40, 40))
    symmetric = (matrix + matrix.T) / 80
    return lambda signals: symmetric @ signals


def low_rank(rng, n_rows=40, n_columns=200, rank=5):
    return rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))


def test_few_columns_are_kept_as_they_are(propagate):
    features = np.random.default_rng(1).standard_normal((40, 6))
    assert_allclose(embed_nodes(features, propagate), propagate(features))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_products_of_rows_are_those_of_the_spread_features_if_their_rank_is_kept(make, propagate):
    features = low_rank(np.random.default_rng(2))
    rows = embed_nodes(make(features), propagate, n_columns=8)
    whole = propagate(features)
    assert_allclose(rows @ rows.T, whole @ whole.T, rtol=1e-8, atol=1e-8)


def test_the_seed_of_the_random_start_does_not_change_what_is_alike(propagate):
    features = low_rank(np.random.default_rng(3), rank=150)
    first, second = (embed_nodes(features, propagate, n_columns=20, seed=s) for s in (0, 1))
    size = np.square(first).sum(1).max()
    assert np.abs(first @ first.T - second @ second.T).max() < 1e-2 * size


def test_rows_have_length_one_and_equal_rows_none():
    rows = center_and_normalize(np.array([[1.0, 2.0], [3.0, 2.0]]))
    assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert_allclose(center_and_normalize(np.ones((3, 2))), 0.0)


def test_up_to_a_few_columns_more_than_asked_for_nothing_is_lost(rng):
    x = rng.normal(size=(40, 3 + _N_OVERSAMPLES))
    rows = embed_nodes(x, lambda v: v, n_columns=3)
    np.testing.assert_allclose(rows @ rows.T, x @ x.T)


# Leave-one-out effects

LABELLED, CLASSES = np.array([0, 2, 5, 9]), np.array([0, 1, 2, 1])


def linear(rows):
    """A fit whose answer to leaving a label out is known in closed form."""
    wide = np.hstack([rows, np.ones((len(rows), 1))])

    def refit(hidden, seed):
        kept = ~np.isin(LABELLED, hidden)
        known, targets = wide[LABELLED[kept]], np.eye(3)[CLASSES[kept]] - 1 / 3
        inner = known.T @ known + np.eye(wide.shape[1])
        return wide @ np.linalg.solve(inner, known.T @ targets) + seed  # all seeds move alike

    return refit


def test_refits_of_a_linear_classifier_find_its_closed_form():
    rows = np.random.default_rng(0).standard_normal((12, 3))
    found = leave_one_out_effects(linear(rows), LABELLED, seeds=(0, 1, 2))
    wide = np.hstack([rows, np.ones((12, 1))])
    known, targets = wide[LABELLED], np.eye(3)[CLASSES] - 1 / 3
    reach = wide @ np.linalg.inv(known.T @ known + np.eye(4)) @ known.T
    wrong = (targets - reach[LABELLED] @ targets) / (1 - np.diag(reach[LABELLED]))[:, None]
    assert_allclose(found, reach.T[:, :, None] * wrong[:, None, :], atol=1e-12)


def test_every_seed_is_compared_with_itself_and_counts_alike():
    calls = []

    def refit(hidden, seed):
        calls.append((len(hidden), seed))
        return np.full((2, 2), 10.0 * seed + (0 if len(hidden) else seed))

    found = leave_one_out_effects(refit, np.array([4]), seeds=(1, 3))
    assert_allclose(found, np.full((1, 2, 2), 2.0))  # the mean of 1 and 3
    assert calls == [(0, 1), (1, 1), (0, 3), (1, 3)]


@pytest.mark.parametrize(
    ("n_fits", "shape", "wanted"),
    [
        (80, (1000, 100), True),
        (81, (150, 4), False),
        (6, (1001, 4), False),
        (6, (1000, 101), False),
    ],
)
def test_labels_are_left_out_while_fits_are_few_and_small(n_fits, shape, wanted):
    assert can_refit_quickly(n_fits, shape) == wanted
