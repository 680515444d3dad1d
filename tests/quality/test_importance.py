import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.exceptions import InputError
from glnn.quality.importance import column_importance, metric_weights
from glnn.solver.attribution import LinkShares
from glnn.solver.signals import FeatureSignal

NAMES = ("a", "b", "c")


def second_column_decides(features):
    dense = features.toarray() if sp.issparse(features) else features
    return np.stack([dense[:, 1] <= 0, dense[:, 1] > 0], 1).astype(float)


@pytest.fixture
def judged():
    features = np.random.default_rng(0).standard_normal((200, 3))
    return features, (features[:, 1] > 0).astype(int)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_only_the_column_that_decides_costs_accuracy(judged, make):
    features, classes = judged
    found = column_importance(
        second_column_decides, make(features), classes, weights=np.ones(3), names=NAMES
    )
    assert found.names[0] == "b" and found.accuracy == 1.0
    assert 0.4 < found.loss[0] < 0.6  # a shuffled sign is right half of the time
    assert_allclose(found.loss[1:], 0)


def test_dense_and_sparse_rows_are_shuffled_alike(judged):
    features, classes = judged
    options = {"weights": np.ones(3), "names": NAMES, "seed": 7}
    first, second = (
        column_importance(second_column_decides, make(features), classes, **options)
        for make in (np.asarray, sp.csr_matrix)
    )
    assert_allclose(first.loss, second.loss)


def test_only_the_heaviest_columns_are_tried(judged):
    found = column_importance(
        second_column_decides, *judged, weights=np.array([1.0, 0.1, 2.0]), names=NAMES, n_columns=2
    )
    assert set(found.names) == {"a", "c"}


def test_the_table_has_a_row_for_each_column(judged):
    frame = column_importance(
        second_column_decides, *judged, weights=np.ones(3), names=NAMES
    ).to_frame()
    assert frame.index[0] == "b" and list(frame.columns) == ["weight", "loss", "deviation"]


def test_a_single_row_cannot_be_shuffled(judged):
    features, classes = judged
    with pytest.raises(InputError, match="at least two rows"):
        column_importance(
            second_column_decides, features[:1], classes[:1], weights=np.ones(3), names=NAMES
        )


def shares_with(metric, scale=None):
    return LinkShares((), np.zeros((0, 0)), FeatureSignal("l2", 3, scale), metric)


@pytest.mark.parametrize("metric", [np.array(0.5), np.full(3, 0.5), 0.5 * np.eye(3)])
def test_weights_are_those_of_the_scaled_columns_in_every_form_of_the_metric(metric):
    found = metric_weights(shares_with(metric, np.array([1.0, 2.0, 0.0])), 3)
    assert_allclose(found, np.array([1.0, 4.0, 0.0]) * 3 / 5)


def test_weights_are_equal_where_nothing_is_compared():
    assert_allclose(metric_weights(None, 3), 1.0)
    assert_allclose(metric_weights(shares_with(None), 3), 1.0)
