import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score
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
