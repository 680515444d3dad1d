"""Checks of user input, work on threads, optional packages."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from glnn import GLNNClassifier
from glnn._utils import (
    check_choice,
    check_device,
    check_features,
    check_indices,
    check_integer,
    check_number,
    import_optional,
    map_row_blocks,
)
from glnn.exceptions import InputError, MissingDependencyError

# Checks of user input


def refused(match):
    return pytest.raises(InputError, match=match)


def test_a_device_that_is_not_there_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for device in ("cuda", "cuda:1", "tpu"):
        with refused(rf"^device must be one of this machine \(cpu\), got '{device}'\.$"):
            check_device(device)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert [check_device(device) for device in ("cpu", "cuda", "cuda:1")] == [
        "cpu",
        "cuda",
        "cuda:1",
    ]
    with refused("cuda:0, cuda:1"):
        check_device("cuda:2")


@pytest.mark.parametrize("value", ["GCN", "gcns", None, 3, ["gcn"]])
def test_anything_but_a_choice_is_refused_with_the_list(value):
    with refused(r"^head must be one of gcn, propagation; got ") as caught:
        check_choice("head", value, ("gcn", "propagation"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.25), np.int64(1)])
def test_a_number_in_its_range_comes_back_in_its_type(value):
    found = check_number("rate", value, low=0, high=1)
    assert type(found) is float
    assert found == value
    if isinstance(value, int | np.integer):
        assert type(check_integer("rate", value, low=0, high=1)) is int


BAD_NUMBERS = [-0.1, 1.1, math.nan, math.inf, -math.inf, 10**400, "1", None, True, [1.0], 1j]


@pytest.mark.parametrize("value", [*BAD_NUMBERS, np.True_], ids=lambda value: str(value)[:9])
def test_a_bad_number_is_refused(value):
    with refused(r"^rate must be (finite, at least 0 and at most 1; got|a number)"):
        check_number("rate", value, low=0, high=1)
    with refused(r"^rate must be (at least 0 and at most 1; got|a whole number)"):
        check_integer("rate", value, low=0, high=1)


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.int64, np.float32),
        (np.uint8, np.float32),
        (bool, np.float32),
        (object, np.float64),
    ],
)
def test_features_keep_their_values_in_a_float_type(dtype, kept):
    given = np.array([[0, 1], [1, 0]], dtype=dtype)
    found = check_features("X", given)
    assert found.dtype == kept
    assert np.array_equal(found, [[0, 1], [1, 0]])


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
def test_sparse_features_stay_sparse(kind, dtype):
    given = kind(np.array([[0, 1], [1, 0]], dtype=dtype))
    found = check_features("X", given)
    assert isinstance(found, sp.csr_matrix)
    assert found.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert found.has_canonical_format
    assert np.array_equal(found.toarray(), [[0, 1], [1, 0]])


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_checking_sparse_features_does_not_change_them(dtype):
    unsorted_and_twice = sp.csr_matrix(
        (np.array([1, 2, 3, 4], dtype=dtype), np.array([2, 0, 1, 1]), np.array([0, 2, 4])),
        shape=(2, 3),
    )
    arrays = (unsorted_and_twice.data, unsorted_and_twice.indices, unsorted_and_twice.indptr)
    before = [array.copy() for array in arrays]
    found = check_features("X", unsorted_and_twice)
    assert found.toarray().tolist() == [[2, 0, 1], [0, 7, 0]]
    after = (unsorted_and_twice.data, unsorted_and_twice.indices, unsorted_and_twice.indptr)
    assert all(map(np.array_equal, before, after))


BAD_FEATURES = [
    ([[1.0, math.nan], [math.inf, 0.0]], "finite, got 2 NaN"),
    (sp.csr_matrix([[1.0, math.nan]]), "finite, got 1 NaN"),
    ([1.0, 2.0], "two dimensions"),
    (sp.coo_array(np.ones(3)), "two dimensions"),
    (np.zeros((0, 3)), "at least one row and one column"),
    (sp.csr_matrix((3, 0)), "at least one row and one column"),
    ([["a", "b"]], "real numbers"),
    (np.array([[1, "b"]], dtype=object), "numbers, got an array of Python objects"),
    (np.ones((1, 1), dtype=complex), "real numbers"),
    ([[1.0], [1.0, 2.0]], "an array whose rows all have the same length"),
    ([[1.0, 1e200]], "values of at most"),
    (sp.csr_matrix([[1.0, -1e200]]), "values of at most"),
]


@pytest.mark.parametrize(("features", "match"), BAD_FEATURES, ids=[m[:30] for _, m in BAD_FEATURES])
def test_bad_features_are_refused_in_one_line_under_the_callers_name(features, match):
    with refused(rf"^signals must (be|have) {match}") as caught:
        check_features("signals", features)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ([2, 0], [2, 0]),
        (np.array([2], dtype=np.uint8), [2]),
        ([True, False, True], [0, 2]),
        ([], []),
        (np.zeros(3, dtype=bool), []),
    ],
)
def test_node_numbers_and_masks_give_node_numbers(given, rows):
    found = check_indices("validation", given, 3)
    assert found.tolist() == rows
    assert found.dtype == np.int64


@pytest.mark.parametrize(
    ("indices", "match"),
    [
        ([0, 3], r"node numbers in \[0, 3\), got 0 to 3"),
        ([-1, 0], r"node numbers in \[0, 3\), got -1 to 0"),
        ([1, 1], "each node once, got repeated numbers"),
        ([1.0], "list of node numbers or a boolean mask, got dtype float64"),
        (["a"], "list of node numbers or a boolean mask, got dtype <U1"),
        (1, r"got dtype int64 and shape \(\)"),
        ([[0, 1]], r"got dtype int64 and shape \(1, 2\)"),
        ([True, False], r"one entry for each of the 3 nodes, got shape \(2,\)"),
        ([[0], [0, 1]], "rows all have the same length"),
    ],
)
def test_bad_node_numbers_are_refused_in_one_line(indices, match):
    with refused(f"^validation .*{match}") as caught:
        check_indices("validation", indices, 3)
    assert "\n" not in str(caught.value)


# NumPy work on threads

QUICK = {"n_epochs": 5, "n_rounds": 1, "random_state": 0, "tracks": ["features"]}


@pytest.fixture(scope="module")
def numbers_on_threads():
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 3
    x = rng.normal(size=(60, 4)) + 3 * classes[:, None]
    return x, np.where(np.arange(60) < 20, classes, -1), rng.normal(size=(60, 4)) + 3


@pytest.mark.slow
def test_eight_threads_predict_what_one_predicts(numbers_on_threads):
    x, y, new = numbers_on_threads
    model = GLNNClassifier(**QUICK).fit(x, y)
    serial = [model.predict_proba(row[None]) for row in new]
    with ThreadPoolExecutor(8) as pool:
        rounds = [pool.map(model.predict_proba, [row[None] for row in new]) for _ in range(2)]
        for found in rounds:
            np.testing.assert_array_equal(np.array(list(found)), np.array(serial))


def test_fits_in_threads_are_those_of_one_thread(numbers_on_threads):
    x, y, _ = numbers_on_threads

    def fit(seed):
        return GLNNClassifier(**(QUICK | {"random_state": seed})).fit(x, y).label_distributions_

    serial = [fit(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(pool.map(fit, range(4)), serial):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_rows", [0, 1, 1000, 200_001])
def test_blocks_of_rows_have_the_bits_of_all_rows(n_rows):
    matrix = np.random.default_rng(n_rows).normal(size=(n_rows, 5))

    def shares(rows):
        powers = np.exp(rows * rows[:, :3].sum(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    np.testing.assert_array_equal(map_row_blocks(shares, matrix), shares(matrix))


# Optional packages


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'glnn\[tables\]'"):
        import_optional("pyarrow")
