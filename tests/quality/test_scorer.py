import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, StratifiedKFold, check_cv, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from glnn.exceptions import InputError
from glnn.quality.scorer import labelled_scorer


@pytest.fixture
def fitted(rng):
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    return KNeighborsClassifier(3).fit(X, y), X, y


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro"])
def test_rows_without_a_label_change_no_score(fitted, scoring):
    model, X, y = fitted
    some = np.where(np.arange(40) % 3 == 0, -1, y)
    known = some >= 0
    scorer = labelled_scorer(scoring)
    assert scorer(model, X, some) == scorer(model, X[known], y[known])


def test_a_score_is_that_of_scikit_learn(fitted):
    model, X, y = fitted
    expected = f1_score(y, model.predict(X), average="macro")
    assert labelled_scorer("f1_macro")(model, X, y) == expected


class Mean(ClassifierMixin, BaseEstimator):
    """Says the class whose mean is nearest; rows without a label take no part."""

    def fit(self, X, y):
        self.classes_ = np.unique(y[y >= 0])
        self.means_ = np.stack([X[y == label].mean(0) for label in self.classes_])
        return self

    def predict(self, X):
        distance = ((X[:, None] - self.means_) ** 2).sum(-1)
        return self.classes_[distance.argmin(1)]


@pytest.fixture
def sorted_table(rng):
    """A table whose rows lie class by class, a third of them without a label."""
    truth = np.repeat([0, 1, 2], 30)
    X = rng.normal(size=(90, 3)) + 9 * np.eye(3)[truth]
    return X, np.where(np.arange(90) % 3 == 0, -1, truth)


def test_the_splitter_and_the_scorer_of_the_page_judge_every_class_in_every_fold(sorted_table):
    X, y = sorted_table
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for train, test in folds.split(X, y):
        assert np.unique(y[train]).tolist() == np.unique(y[test]).tolist() == [-1, 0, 1, 2]
    scores = cross_val_score(Mean(), X, y, cv=folds, scoring=labelled_scorer("f1_macro"))
    assert scores.tolist() == [1, 1, 1]
    by_name = cross_val_score(Mean(), X, y, cv=folds, scoring="f1_macro")
    assert (by_name < 0.8).all()  # the page's warning: -1 counts as a class that is never found


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # of scikit-learn
def test_scikit_learn_deals_rows_as_the_page_says(sorted_table):
    _, y = sorted_table
    gaps = np.where(y < 0, None, y)
    assert isinstance(check_cv(5, y, classifier=True), StratifiedKFold)
    assert isinstance(check_cv(5, np.where(y < 0, "", "a"), classifier=True), StratifiedKFold)
    plain = check_cv(3, gaps, classifier=True)
    assert isinstance(plain, KFold) and not plain.shuffle
    with pytest.raises(ValueError, match="NaN"):
        check_cv(5, np.where(y < 0, np.nan, y), classifier=True)


def test_no_label_at_all_is_refused(fitted):
    model, X, _ = fitted
    with pytest.raises(InputError, match="rows with a label"):
        labelled_scorer()(model, X, np.full(40, -1))


def test_gaps_of_pandas_and_blanks_around_labels_change_no_score(rng):
    X, names = rng.normal(size=(30, 2)), np.array(["lost", "loyal"])[np.arange(30) % 2]
    model = KNeighborsClassifier(3).fit(X, names)
    y = pd.Series(names).where(np.arange(30) % 3 > 0, pd.NA)
    y[1] = f" {y[1]}"
    known = np.arange(30) % 3 > 0
    assert labelled_scorer()(model, X, y) == model.score(X[known], names[known])
