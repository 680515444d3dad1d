import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, normalize

from glnn.graph.rows import to_dense_array
from glnn.solver.signals import (
    SIGNALS,
    FeatureSignal,
    prediction_signal,
)

# Signals


def test_idf_is_that_of_scikit_learn(rng):
    x = rng.integers(0, 3, (20, 6)).astype(float)
    expected = TfidfTransformer().fit_transform(x).toarray()
    assert np.allclose(FeatureSignal.fit("idf", x).transform(x), expected)
    sparse = FeatureSignal.fit("idf", sp.csr_matrix(x)).transform(sp.csr_matrix(x))
    assert np.allclose(sparse.toarray(), expected)


def test_standardized_has_columns_of_mean_zero_and_rows_of_length_one(rng):
    x = np.hstack([rng.standard_normal((20, 3)) * [1, 10, 100] + 5, np.ones((20, 1))])
    expected = normalize(StandardScaler().fit_transform(x))
    assert np.allclose(FeatureSignal.fit("standardized", x).transform(x), expected)


@pytest.mark.parametrize("constant", [0.1, 1.0, 1e8])
def test_a_constant_column_of_sparse_features_counts_as_zero(constant, rng):
    x = np.hstack([rng.random((30, 3)) * (rng.random((30, 3)) < 0.5), np.full((30, 1), constant)])
    sparse = sp.csr_matrix(x)
    found = FeatureSignal.fit("standardized", sparse).transform(sparse).toarray()
    plain = sp.csr_matrix(x[:, :3])
    expected = FeatureSignal.fit("standardized", plain).transform(plain).toarray()
    assert np.allclose(found[:, :3], expected)
    assert not found[:, 3].any()


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_new_row_equal_to_a_training_row_has_its_signal(kind, sparse, rng, make_features):
    x = make_features(15, 6, rng, sparse=sparse)
    signal = FeatureSignal.fit(kind, x)
    whole, part = signal.transform(x), signal.transform(x[4:5])
    whole, part = (m.toarray() if sparse else m for m in (whole, part))
    assert np.allclose(whole[4:5], part)
    assert part.dtype == np.float64


def test_sure_predictions_have_unit_product_and_differing_ones_a_negative_one():
    signal = prediction_signal(np.eye(4), 2.0, 4)
    assert np.allclose(np.diag(signal @ signal.T), 2.0)
    assert np.allclose((signal @ signal.T)[0, 1], -2.0 / 3)


@pytest.mark.parametrize("sparse", [True, False])
def test_column_weights_are_a_metric_on_the_columns(sparse, rng, make_features):
    x, w = make_features(9, 4, rng, sparse=sparse), rng.random(4)
    signal = FeatureSignal.fit("raw", x, w).transform(x)
    signal, plain = (m.toarray() if sparse else m for m in (signal, x))
    assert np.allclose(signal @ signal.T, plain @ np.diag(w) @ plain.T)


@pytest.mark.parametrize("scale", [1e-20, 1e-160, 1e-300])
@pytest.mark.parametrize("kind", ["l2", "idf"])
def test_rows_have_length_one_however_small_they_were(kind, scale, rng):
    x = rng.normal(size=(6, 4))
    small = x * np.array([1, scale, 1, 1, scale, 0])[:, None]
    wanted = FeatureSignal.fit(kind, small != 0).transform(x)
    wanted[5] = 0
    for features in (small, sp.csr_matrix(small)):
        found = FeatureSignal.fit(kind, features).transform(features)
        np.testing.assert_allclose(to_dense_array(found), wanted, rtol=1e-12)
