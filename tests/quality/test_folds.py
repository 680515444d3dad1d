import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.class_weight import compute_sample_weight

from glnn.data.labels import encode_targets, make_folds
from glnn.exceptions import InputError, OutputError
from glnn.quality.folds import (
    cache_refit,
    hold_out,
    label_weights,
    labelled_scorer,
    mask_labels,
)

# Held-out predictions

CLASSES = np.array([0] * 6 + [1] * 6 + [-1] * 4)


def tagged_refit(seen):
    """A fit whose probabilities tell which labels were hidden from it."""

    def refit(hidden):
        seen.append(hidden)
        share = np.isin(np.arange(len(CLASSES)), hidden).astype(float)
        return np.stack([share, 1 - share], 1)

    return refit


def test_every_judged_row_comes_from_a_fit_that_its_label_was_hidden_from():
    seen = []
    folds = make_folds(CLASSES, 3, seed=0)
    found = hold_out(tagged_refit(seen), CLASSES, folds)
    assert len(seen) == 3
    np.testing.assert_array_equal(found.hidden_nodes, np.arange(12))
    np.testing.assert_array_equal(found.probabilities[:12, 0], 1)
    for number, hidden in enumerate(folds.hidden):
        assert set(found.fold[hidden]) == {number}


def test_a_label_that_is_hidden_twice_has_the_mean_of_both_answers():
    classes = np.array([0] * 4 + [1] * 2)
    answers = iter([0.2, 0.4, 0.6, 0.8])
    folds = make_folds(classes, 4, seed=0)
    given = {}

    def refit(hidden):
        p = next(answers)
        for node in hidden:
            given.setdefault(int(node), []).append(p)
        return np.tile([p, 1 - p], (6, 1))

    found = hold_out(refit, classes, folds)
    assert {len(given[node]) for node in (4, 5)} == {2}
    for node, values in given.items():
        assert found.probabilities[node, 0] == pytest.approx(np.mean(values))


def test_a_node_is_calibrated_by_what_other_folds_teach(rng):
    folds = make_folds(CLASSES, 3, seed=0)
    raw = rng.dirichlet([1, 1], size=(3, 16))
    answers = iter(raw)
    found = hold_out(lambda hidden: next(answers), CLASSES, folds)
    own = found.fold == 1
    expected = found.without_fold(1).calibration().apply(found.probabilities[own])
    np.testing.assert_array_equal(found.calibrated()[own], expected)


# Cache of refits


class Counted:
    """An answer that depends on the hidden nodes alone, and how often it was asked for."""

    def __init__(self, most=99):
        self.n_calls, self._most = 0, most

    def __call__(self, hidden):
        if self.n_calls == self._most:
            raise KeyboardInterrupt
        self.n_calls += 1
        return np.random.default_rng(hidden).random((5, 2))


HIDDEN = [np.array(nodes) for nodes in ([0, 1], [2], [1, 0], [3, 4])]


def test_an_estimate_that_was_cut_off_goes_on_with_the_rest(tmp_path):
    short, rest = Counted(most=2), Counted()
    with pytest.raises(KeyboardInterrupt):
        [cache_refit(short, tmp_path, b"x")(hidden) for hidden in HIDDEN]
    found = [cache_refit(rest, tmp_path, b"x")(hidden) for hidden in HIDDEN]
    assert (short.n_calls, rest.n_calls) == (2, 2)
    np.testing.assert_array_equal(found, [Counted()(hidden) for hidden in HIDDEN])


def test_folds_of_another_estimate_are_not_read_and_a_bad_folder_is_one_line(tmp_path):
    cache_refit(Counted(), tmp_path, b"x")(HIDDEN[0])
    other = Counted()
    cache_refit(other, tmp_path, b"y")(HIDDEN[0])
    assert other.n_calls == 1
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="writable"):
        cache_refit(Counted(), tmp_path / "file" / "f", b"x")


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 4])])
@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_a_damaged_answer_is_computed_again(tmp_path, damage, name):
    whole = cache_refit(Counted(), tmp_path, b"x")(HIDDEN[0])
    (path,) = tmp_path.glob(f"*/{name}")
    path.write_bytes(damage(path.read_bytes()))
    again = Counted()
    for _ in range(2):
        np.testing.assert_array_equal(cache_refit(again, tmp_path, b"x")(HIDDEN[0]), whole)
    assert again.n_calls == 1


# Labels

KINDS = [
    [3, 8, -1, 8],
    ["ant", "bee", "", "bee"],
    [0.0, 1.0, np.nan, 1.0],
    np.array([True, False, None, False], dtype=object),
]


@pytest.mark.parametrize("y", KINDS)
def test_a_hidden_label_is_no_label(y):
    classes, encoded = encode_targets(y, 4)
    shown = mask_labels(classes, encoded, np.array([3]))
    np.testing.assert_array_equal(encode_targets(shown, 4)[1] >= 0, [True, True, False, False])
    assert encoded[3] >= 0  # the given ones are left as they are


# Weights of labels

WEIGHTS_CLASSES = np.array(["a", "b", "c"])
ENCODED = np.array([0, 0, 0, 1, 1, 2, -1])


@pytest.mark.parametrize("how", ["balanced", {"a": 0.5, "c": 3.0}])
def test_weights_of_labels_are_those_of_scikit_learn(how):
    found = label_weights(how, None, WEIGHTS_CLASSES, ENCODED)[:6]
    np.testing.assert_allclose(found, compute_sample_weight(how, WEIGHTS_CLASSES[ENCODED[:6]]))


def test_sample_weights_multiply_class_weights():
    own = np.arange(1.0, 8.0)
    both = label_weights("balanced", own, WEIGHTS_CLASSES, ENCODED)
    one = label_weights("balanced", None, WEIGHTS_CLASSES, ENCODED)
    np.testing.assert_allclose(both[:6], (own * one)[:6])


@pytest.mark.parametrize(
    ("how", "own", "message"),
    [
        ("even", None, "'balanced' or a dictionary"),
        ({"z": 2.0}, None, "must name labels of y, got 'z'"),
        ({"a": -1.0}, None, "at least 0"),
        ({"a": "much"}, None, "must be a number, got 'much'"),
        (np.ones(3), None, "'balanced' or a dictionary"),
        (None, [1.0, 2.0], "for each of the 7 rows, got"),
        (None, np.zeros(7), "positive for some labelled row"),
        (None, [*"abcdefg"], "must hold a finite weight"),
        (None, [1, 1, -1, 1, 1, 1, 1], "at least 0"),
        (None, [1, 1, np.inf, 1, 1, 1, 1], "finite"),
    ],
)
def test_wrong_weights_are_refused(how, own, message):
    with pytest.raises(InputError, match=message):
        label_weights(how, own, WEIGHTS_CLASSES, ENCODED)


@pytest.mark.parametrize("size", [1e307, 5e-324])
def test_only_the_ratios_of_weights_matter(size):
    own = size * np.array([1.0, 2.0, 1.0, 1.0, 0.0, 1.0, 9.0])
    found = label_weights({"a": 1.0, "b": size}, own, WEIGHTS_CLASSES, ENCODED)
    assert np.isfinite(found.sum()) and found.max() > 0
    assert found[1] == 2 * found[0] and found[4] == found[6] == 0


# Scorers


@pytest.fixture
def scored_fit(rng):
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    return KNeighborsClassifier(3).fit(X, y), X, y


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro"])
def test_rows_without_a_label_change_no_score(scored_fit, scoring):
    model, X, y = scored_fit
    some = np.where(np.arange(40) % 3 == 0, -1, y)
    known = some >= 0
    scorer = labelled_scorer(scoring)
    assert scorer(model, X, some) == scorer(model, X[known], y[known])
    assert scorer(model, X, y) == get_scorer(scoring)(model, X, y)
    assert scorer(model, X, some) > get_scorer(scoring)(model, X, some)  # -1 as a class


def test_no_label_at_all_is_refused(scored_fit):
    model, X, _ = scored_fit
    with pytest.raises(InputError, match="needs labelled rows"):
        labelled_scorer()(model, X, np.full(40, -1))


def test_gaps_of_pandas_and_blanks_around_labels_change_no_score(rng):
    X, names = rng.normal(size=(30, 2)), np.array(["lost", "loyal"])[np.arange(30) % 2]
    model = KNeighborsClassifier(3).fit(X, names)
    y = pd.Series(names).where(np.arange(30) % 3 > 0, pd.NA)
    y[1] = f" {y[1]}"
    known = np.arange(30) % 3 > 0
    assert labelled_scorer()(model, X, y) == model.score(X[known], names[known])
