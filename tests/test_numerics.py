"""Odd data: an answer without NaN or infinity, or one clear line."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from glnn import GLNNClassifier

RNG = np.random.default_rng(0)
CLASSES = np.arange(40) % 2
PLAIN = RNG.normal(size=(40, 4)) + 4 * CLASSES[:, None]
QUICK = {"n_epochs": 5, "n_rounds": 2, "random_state": 0, "calibrate": None}


def with_column(column):
    return np.column_stack([PLAIN, np.broadcast_to(column, 40)])


def with_rows(rows, value):
    x = PLAIN.copy()
    x[rows] = value
    return x


def ring(n_nodes):
    k = np.arange(n_nodes)
    graph = sp.csr_matrix((np.ones(n_nodes), (k, (k + 1) % n_nodes)), shape=(n_nodes, n_nodes))
    return graph.maximum(graph.T).tocsr()


FEATURES = {
    "constant columns": with_column(7.0),
    "only constant columns": np.ones((40, 3)),
    "huge scales": PLAIN * 1e30,
    "tiny scales": PLAIN * 1e-30,
    "mixed scales": PLAIN * np.array([1e-20, 1.0, 1e20, 1e10]),
    "zero rows": with_rows([1, 5, 30], 0.0),
    "zeros": np.zeros((40, 3)),
    "duplicates": np.repeat(PLAIN[:10], 4, axis=0)[np.argsort(np.tile(np.arange(4), 10))],
    "one outlier": with_rows([3], 1e12),
    "float16": PLAIN.astype(np.float16),
    "integers": (PLAIN * 10).astype(np.int64),
    "booleans": PLAIN > 2,
    "one column": PLAIN[:, :1],
    "sparse": sp.csr_matrix(np.where(PLAIN > 3, PLAIN, 0)),
}
GRAPHS = {
    "none": None,
    "no edges": sp.csr_matrix((40, 40)),
    "disconnected": sp.block_diag([ring(10), ring(10), sp.csr_matrix((20, 20))]).tocsr(),
    "complete": sp.csr_matrix(np.ones((40, 40)) - np.eye(40)),
    "star": sp.csr_matrix(np.outer(np.arange(40) == 0, np.arange(40) > 0).astype(float)),
    "huge weights": ring(40) * 1e12,
    "tiny weights": ring(40) * 1e-12,
}


def check(model, x):
    """Everything that a user sees is finite, and probabilities are some."""
    shown = {
        "answers": model.label_distributions_,
        "answers to known rows": model.predict_proba(x),
        "answers to new rows": model.predict_proba(x[:3] * 1.01),
        "graph": model.graph_.data,
        "mixture": list(model.mixture_.values()),
    }
    for name, numbers in shown.items():
        assert np.isfinite(numbers).all(), name
    assert np.allclose(model.label_distributions_.sum(1), 1)
    assert (model.graph_.data >= 0).all()
    assert min(model.mixture_.values()) >= 0
    assert np.isclose(sum(model.mixture_.values()), 1)


def fitted(x, graph=None, y=None, **changes):
    y = np.where(np.arange(40) < 16, CLASSES, -1) if y is None else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loops and one-way edges are repaired and told elsewhere
        model = GLNNClassifier(**(QUICK | changes)).fit(x, y, graph, folds=2)
        check(model, x)
    return model


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("name", FEATURES)
def test_odd_features_give_finite_answers(name, preset):
    fitted(FEATURES[name], preset=preset)


@pytest.mark.parametrize("name", GRAPHS)
def test_odd_graphs_give_finite_answers(name):
    fitted(PLAIN, GRAPHS[name])


def test_a_class_of_one_node_is_a_class():
    y = np.where(np.arange(40) < 16, CLASSES, -1)
    y[39] = 2
    assert fitted(PLAIN, y=y).classes_.tolist() == [0, 1, 2]


def test_one_label_of_each_class_leaves_nothing_to_weigh_tracks_by():
    y = np.where(np.arange(40) < 2, CLASSES, -1)
    mixture = fitted(PLAIN, ring(40), y).mixture_
    tracks = ("learned", "features", "linear", "hops")
    assert mixture == pytest.approx(dict.fromkeys(tracks, 0.25))


@pytest.mark.parametrize("n_labels", [3, 4, 40])
def test_few_labels_and_labels_for_all_give_finite_answers(n_labels):
    fitted(PLAIN, ring(40), np.where(np.arange(40) < n_labels, CLASSES, -1))


def test_labels_without_weight_give_finite_answers():
    y = np.where(np.arange(40) < 16, CLASSES, -1)
    weights = 1.0 * (np.arange(40) < 4)
    model = GLNNClassifier(**QUICK).fit(PLAIN, y, ring(40), sample_weight=weights)
    check(model, PLAIN)


def test_the_scale_of_all_features_does_not_change_the_answer():
    one, other = fitted(PLAIN), fitted(PLAIN * 2.0**-10)
    np.testing.assert_array_equal(one.predict(PLAIN), other.predict(PLAIN * 2.0**-10))


@pytest.mark.slow
def test_a_star_with_many_leaves_is_fitted():
    n_nodes = 100_001
    leaves = np.arange(1, n_nodes)
    star = sp.csr_matrix((np.ones(n_nodes - 1), (np.zeros(n_nodes - 1, int), leaves)))
    star.resize(n_nodes, n_nodes)
    x = np.random.default_rng(0).normal(size=(n_nodes, 3))
    y = np.full(n_nodes, -1)
    y[:40] = np.arange(40) % 2
    model = GLNNClassifier(preset="paper", **QUICK).fit(x, y, star.maximum(star.T).tocsr())
    assert np.isfinite(model.label_distributions_).all()
