import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from glnn.distributed import Partition
from glnn.engine.inputs import (
    Scaling,
    make_generator,
)

# Scaling


def words():
    return sp.csr_matrix(np.eye(6, dtype=np.float32) * 3)


@pytest.mark.parametrize(
    ("features", "kind"),
    [
        (words(), "rows"),
        (words().toarray(), "rows"),
        (load_digits().data, "unit"),
        (load_wine().data, "columns"),
        (load_breast_cancer().data, "columns"),
    ],
    ids=["sparse words", "dense words", "pixels", "wine", "cancer"],
)
def test_the_natural_scaling_is_found(features, kind):
    assert Scaling.fit(features).kind == kind


def test_rows_sum_to_one_dense_and_sparse_alike_and_empty_rows_stay_empty():
    x = np.array([[1.0, 3.0], [0.0, 0.0]], dtype=np.float32)
    scaling = Scaling.fit(x, "rows")
    np.testing.assert_allclose(scaling.apply(x), [[0.25, 0.75], [0, 0]])
    np.testing.assert_allclose(scaling.apply(sp.csr_matrix(x)).toarray(), [[0.25, 0.75], [0, 0]])


def test_columns_get_mean_zero_and_variance_one_and_constant_columns_become_zero():
    x = np.random.default_rng(0).normal(5, 3, (50, 3))
    x[:, 1] = 7.0
    scaled = Scaling.fit(x, "columns").apply(x)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(0), [1, 0, 1], atol=1e-5)


def test_one_unit_keeps_the_ratio_of_the_columns_deviations():
    x = np.random.default_rng(0).normal(0, [1, 2], (500, 2))
    scaled = Scaling.fit(x, "unit").apply(x)
    assert scaled.std(0)[1] / scaled.std(0)[0] == pytest.approx(x.std(0)[1] / x.std(0)[0], rel=1e-4)
    assert np.mean(scaled.std(0) ** 2) == pytest.approx(1, rel=1e-4)


def test_a_table_that_hardly_varies_is_said_to_count_as_constant():
    tiny = 1e-14 * np.random.default_rng(0).normal(size=(20, 3))
    with pytest.warns(UserWarning, match="counts as constant"):
        Scaling.fit(tiny, "columns")
    Scaling.fit(np.ones((20, 3)), "columns")  # a constant table is one


@pytest.mark.parametrize(
    "features",
    [words(), load_digits().data[:50], load_wine().data, load_breast_cancer().data],
    ids=["words", "pixels", "wine", "cancer"],
)
def test_several_processes_find_the_scaling_of_one(features, together):
    whole = Scaling.fit(features)

    def work(peers):
        return Scaling.fit(features[Partition(features.shape[0], peers).rows], peers=peers)

    for found in together(3, work):
        assert found.kind == whole.kind
        np.testing.assert_allclose(found.center, whole.center, rtol=1e-12)
        np.testing.assert_allclose(found.scale, whole.scale, rtol=1e-10)


def test_trimmed_columns_are_those_with_far_entries_brought_near():
    x = np.random.default_rng(0).normal(size=(200, 3))
    x[7, 1] = 80.0
    columns = Scaling.fit(x, "columns").apply(x)
    trimmed = Scaling.fit(x, trims=True)
    assert trimmed.kind == "trimmed"
    assert columns.max() > 5
    np.testing.assert_array_equal(trimmed.apply(x), np.clip(columns, -5, 5))
    assert Scaling.fit(x).kind == "columns"


# Generators and devices


def draws(generator):
    return torch.rand(1000, generator=generator, dtype=torch.float64)


def test_every_seed_and_every_stream_is_its_own():
    keys = [(0,), (1,), (0, 1), (0, 2), (1, 2), (2, 1), (0, 1, 2), (0, 12)]
    rows = torch.stack([draws(make_generator(*key)) for key in keys])
    correlation = torch.corrcoef(rows) - torch.eye(len(keys), dtype=torch.float64)
    assert correlation.abs().max() < 0.2


def test_the_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = draws(make_generator(0))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(draws(make_generator(0)), first)
