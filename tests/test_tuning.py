import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

pytest.importorskip("optuna")

from glnn import GLNNClassifier, evaluate
from glnn.engine.settings import SETTING_NAMES
from glnn.exceptions import DataFormatError, InputError, OutputError
from glnn.tuning import SPACE, Range, TunedClassifier

QUICK = {"n_epochs": 5, "n_rounds": 1, "random_state": 0, "calibrate": None}
BASE = GLNNClassifier(**QUICK, tracks=["features"])
SMALL = {"n_neighbors": Range(2, 8, whole=True), "learning_rate": Range(1e-3, 1e-1, log=True)}


@pytest.fixture
def clouds():
    rng, kind = np.random.default_rng(0), np.arange(40) % 2
    x = rng.normal(size=(40, 3)) + 2.0 * kind[:, None]
    return x, np.where(np.arange(40) < 20, kind, -1)


def search(clouds, n_trials, storage=None, **more):
    tuned = TunedClassifier(
        BASE, n_trials=n_trials, folds=2, space=SMALL, storage=storage, goal="log_loss", **more
    )
    return tuned.search(*clouds)


def test_a_value_is_the_estimate_of_its_parameters_and_the_best_is_the_lowest_loss(clouds):
    found = search(clouds, 4)
    assert [sorted(row) for row in found.table][1] == sorted(["trial", *SMALL, "log_loss"])
    for row in found.table:
        params = {name: row[name] for name in SMALL if name in row}
        judged = clone(BASE).set_params(**params)
        again = evaluate(*clouds, estimator=judged, folds=2, rivals=None, random_state=0)
        assert row["log_loss"] == pytest.approx(again.metrics["log_loss"].value, rel=1e-9)
    assert found.value == min(row["log_loss"] for row in found.table)
    assert list(found.table[0]) == ["trial", "log_loss"]  # the estimator as it is


def test_a_search_that_was_interrupted_ends_as_one_that_was_not(clouds, tmp_path):
    told = []
    search(clouds, 2, tmp_path / "new" / "trials.db")
    parts = search(
        clouds, 4, tmp_path / "new" / "trials.db", watch=lambda number, *_: told.append(number)
    )
    assert told == [2, 3]
    assert parts.table == search(clouds, 4).table


@pytest.mark.slow
def test_workers_with_one_storage_share_the_trials(clouds, tmp_path):
    how = {"folds": 2, "space": SMALL, "storage": tmp_path / "trials.db", "goal": "log_loss"}
    worker = delayed(TunedClassifier(BASE, n_trials=8, **how).search)
    found = Parallel(n_jobs=2)(worker(*clouds) for _ in range(2))
    whole = search(clouds, 8, tmp_path / "trials.db")  # which finds nothing left to do
    assert 8 <= len(whole.table) <= 9  # one may have begun its last as the other did
    numbers = [row["trial"] for row in whole.table]
    assert len(set(numbers)) == len(numbers)
    # a number is a place among the trials that had ended by then: what was tried is compared
    tried = [_without_number(row) for row in whole.table]
    assert all(_without_number(row) in tried for part in found for row in part.table)
    assert whole.value == min(row["log_loss"] for row in whole.table)


def _without_number(row):
    return {name: value for name, value in row.items() if name != "trial"}


def test_other_labels_are_another_search(clouds, tmp_path):
    x, y = clouds
    search((x, y), 2, tmp_path / "trials.db")
    told = []
    other = np.where(np.arange(40) < 16, y, -1)
    search((x, other), 2, tmp_path / "trials.db", watch=lambda number, *_: told.append(number))
    assert told == [0, 1]


def test_the_nested_estimate_hides_labels_from_the_search_too(clouds):
    x, y = clouds
    seen = []

    class Spy(TunedClassifier):
        def search(self, X, y, graph=None, validation=None):
            seen.append(int((np.asarray(y) != -1).sum()))
            return super().search(X, y, graph, validation)

    found = evaluate(x, y, estimator=Spy(BASE, n_trials=1, folds=2), folds=2, rivals=None)
    assert seen == [10, 10]
    assert len(found.held_out.hidden_nodes) == 20


def test_the_fit_has_the_best_parameters(clouds):
    x, y = clouds
    tuned = TunedClassifier(BASE, n_trials=3, folds=2, space=SMALL, goal="log_loss").fit(x, y)
    plain = clone(BASE).set_params(**tuned.trials_.params).fit(x, y)
    np.testing.assert_array_equal(tuned.label_distributions_, plain.label_distributions_)
    np.testing.assert_array_equal(tuned.predict(x), plain.predict(x))
    np.testing.assert_array_equal(tuned.predict_proba(x), plain.predict_proba(x))


def test_a_search_predicts_nothing_before_it_is_fitted():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        TunedClassifier().predict(None)


def test_what_is_searched_are_parameters_of_the_estimator():
    assert set(SPACE) <= set(SETTING_NAMES)


@pytest.mark.parametrize("wrong", [{"goal": "beauty"}, {"n_trials": 0}, {"folds": 1}])
def test_wrong_arguments_are_refused(clouds, wrong):
    tuned = TunedClassifier(BASE).set_params(**wrong)
    with pytest.raises(InputError, match=next(iter(wrong))):
        tuned.fit(*clouds)


def test_a_storage_that_is_none_or_cannot_be_written_is_refused_in_one_line(clouds, tmp_path):
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(DataFormatError, match="must be the storage of a search") as caught:
        search(clouds, 1, tmp_path / "text.db")
    assert "\n" not in str(caught.value)
    with pytest.raises(OutputError, match="must be writable"):
        search(clouds, 1, tmp_path / "text.db" / "trials.db")
