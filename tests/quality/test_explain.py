import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.exceptions import InputError
from glnn.quality.explain import (
    embed_nodes,
    explain,
    metric_weights,
    nearest_labels,
    sort_label_effects,
)
from glnn.solver.attribution import LinkShares
from glnn.solver.signals import FeatureSignal

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


def test_effects_are_ranked_by_their_size_for_the_class_of_the_label(fitted_nodes):
    effects = np.random.default_rng(0).normal(size=(8, 2))
    ranked = sort_label_effects(fitted_nodes, fitted_nodes.trained, effects)
    for one in ranked:
        assert_allclose(list(one.effects.values()), effects[one.node])
        assert one.effect == one.effects[one.label]
    sizes = [abs(one.effect) for one in ranked]
    assert sizes == sorted(sizes, reverse=True)
    found = explain(fitted_nodes, 1, label_effects=ranked)
    assert found.label_effects == ranked and found.is_measured
    page = json.loads(json.dumps(found.to_dict()))
    assert page["label_effects"][0]["effects"].keys() == {"no", "yes"}
    assert_allclose(page["links"][0]["weight"], found.links[0].weight)
    assert repr(found).startswith("Explanation(node 1, ") and len(repr(found)) < 200


def test_without_shares_and_effects_links_are_named_all_the_same(fitted_nodes):
    found = explain(dataclasses.replace(fitted_nodes, shares=None), 0)
    assert found.links and all(link.terms == link.columns == {} for link in found.links)
    assert found.label_effects == () and not found.is_measured
    with pytest.raises(InputError, match="n_links must be at least 0"):
        explain(fitted_nodes, 3, n_links=-1)


def test_the_nearest_labels_are_those_with_the_highest_cosine(fitted_nodes):
    rows = fitted_nodes.propagate(fitted_nodes.features)
    rows = rows - rows.mean(0)
    cosine = rows @ rows[3] / np.linalg.norm(rows, axis=1)
    order = [node for node in np.argsort(-cosine) if node in fitted_nodes.trained and node != 3]
    assert nearest_labels(fitted_nodes, 3, 4).tolist() == order[:4]
    assert len(nearest_labels(fitted_nodes, 3, 100)) == 7  # its own label is not among them
    only = dataclasses.replace(fitted_nodes, trained=np.array([0, 1, 2, 4]))  # one of class 1
    assert set(nearest_labels(only, 3, 100)) == {0, 2, 4}


# Embedding


@pytest.fixture
def propagate():
    rng = np.random.default_rng(0)
    matrix = rng.random((40, 40))
    symmetric = (matrix + matrix.T) / 80
    return lambda signals: symmetric @ signals


def low_rank(rng, n_rows=40, n_columns=200, rank=5):
    return rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_products_of_rows_are_those_of_the_spread_features_if_their_rank_is_kept(make, propagate):
    features = low_rank(np.random.default_rng(2))
    rows = embed_nodes(make(features), propagate, n_columns=8)
    whole = propagate(features)
    assert_allclose(rows @ rows.T, whole @ whole.T, rtol=1e-8, atol=1e-8)


# Weights of columns


def shares_with(metric, scale=None):
    return LinkShares((), np.zeros((0, 0)), FeatureSignal("l2", 3, scale), metric)


@pytest.mark.parametrize("metric", [np.array(0.5), np.full(3, 0.5), 0.5 * np.eye(3)])
def test_weights_are_those_of_the_scaled_columns_in_every_form_of_the_metric(metric):
    found = metric_weights(shares_with(metric, np.array([1.0, 2.0, 0.0])), 3)
    assert_allclose(found, np.array([1.0, 4.0, 0.0]) * 3 / 5)


def test_weights_are_equal_where_nothing_is_compared():
    assert_allclose(metric_weights(None, 3), 1.0)
    assert_allclose(metric_weights(shares_with(None), 3), 1.0)
