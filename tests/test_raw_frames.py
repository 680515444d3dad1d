"""Frames with text, categories, dates and gaps go into the estimator and into ``evaluate``."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from glnn import GLNNClassifier, evaluate
from glnn.data import encode_frame
from glnn.exceptions import InputError
from glnn.report.results import collect_model_results
from glnn.tuning import Range, TunedClassifier

QUICK = {"n_epochs": 3, "n_rounds": 1, "random_state": 0, "tracks": ["features"]}
N = 60


@pytest.fixture(scope="module")
def raw():
    rng, kind = np.random.default_rng(0), np.arange(N) % 2
    X = pd.DataFrame(
        {
            "age": np.where(np.arange(N) % 9, 30 + 20 * kind + rng.normal(size=N), np.nan),
            "city": pd.Categorical(np.where(kind, "Rome", "Bern")),
            "job": rng.choice(["cook", "pilot", None], N),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(100 * kind, "D"),
            "mixed": pd.Categorical(rng.choice(np.array(["a", 1, 2.5], dtype=object), N)),
            "seen": pd.date_range("2020-01-01", periods=N, tz="Europe/Rome"),
        },
        index=[f"n{k}" for k in range(N)],
    )
    return X, pd.Series(np.where(np.arange(N) < 40, np.where(kind, "new", "old"), None), X.index)


def test_a_raw_frame_is_encoded_as_by_encode_frame(raw):
    X, y = raw
    numbers, encoder = encode_frame(X, drop_constant=True)
    own = GLNNClassifier(encode="auto", **QUICK).fit(X, y)
    other = GLNNClassifier(**QUICK).fit(numbers, y)
    assert np.array_equal(own.label_distributions_, other.label_distributions_)
    assert own.encoder_ == encoder and other.encoder_ is None
    assert own.feature_names_in_.tolist() == list(numbers)
    assert np.array_equal(own.predict_proba(X), own.label_distributions_)
    assert dict(collect_model_results(own).readings)["since"] == "date: days since 2020-01-01"
    with pytest.raises(InputError, match=r"'Bern' in column 'city'.*encode='auto'"):
        other.fit(X, y)


def test_a_column_that_repeats_the_label_is_left_out_with_a_warning(raw):
    X, y = raw
    model = GLNNClassifier(encode="auto", **QUICK)
    with pytest.warns(UserWarning, match=r"'copy': the same as the label"):
        own = model.fit(X.assign(copy=y), y)
    assert np.array_equal(own.label_distributions_, model.fit(X, y).label_distributions_)


def test_new_rows_of_a_saved_model_get_the_same_treatment(raw, tmp_path):
    X, y = raw
    model = GLNNClassifier(encode="auto", **QUICK).fit(X, y)
    model.save(tmp_path)
    again = GLNNClassifier.load(tmp_path)
    assert (again.encode, again.encoder_) == ("auto", model.encoder_)
    new = X.iloc[:4].assign(city="Oslo", age=[np.nan, 31, 50, 70], extra="left out")[::-1]
    rows = model.encoder_.transform(new, "new").toarray()
    assert rows[-1, 0] == np.float32(np.nanmedian(X["age"]))
    plain = GLNNClassifier(**QUICK).fit(encode_frame(X, drop_constant=True)[0], y)
    expected = plain.predict_proba(pd.DataFrame(rows, columns=model.feature_names_in_))
    assert np.array_equal(again.predict_proba(new), expected)


def test_kinds_of_columns_can_be_named_and_doubts_are_told(raw):
    X, y = raw
    X = X[["age"]].assign(zip=np.where(X["city"] == "Rome", 80, 3010))
    with pytest.warns(UserWarning, match="zip: read as codes"):
        guessed = GLNNClassifier(encode="auto", **QUICK).fit(X, y)
    assert guessed.feature_names_in_.tolist()[-2:] == ["zip=3010", "zip=80"]
    named = GLNNClassifier(encode={"zip": "number"}, **QUICK).fit(X, y)
    assert named.feature_names_in_.tolist()[-1] == "zip"
    with pytest.raises(InputError, match="encode must be"):
        GLNNClassifier(encode="onehot").fit(X, y)


def test_clones_pipelines_and_cross_validation_take_raw_frames(raw):
    X, y = raw
    pipeline = clone(make_pipeline(GLNNClassifier(encode="auto", **QUICK))).fit(X, y)
    assert pipeline.predict(X).tolist() == pipeline[-1].transduction_.tolist()
    known = y.notna()
    told = X.loc[known].drop(columns=["mixed", "seen"])  # these are noise
    scores = cross_val_score(GLNNClassifier(encode="auto", **QUICK), told, y[known], cv=2)
    assert scores.min() > 0.9
    numbers = GLNNClassifier(encode="auto", **QUICK).fit(encode_frame(X)[0].to_numpy(), y)
    assert numbers.encoder_ is None


def test_searches_take_raw_frames_and_rows_without_a_label(raw):
    X, y = raw
    pipeline = make_pipeline(GLNNClassifier(encode="auto", **QUICK))
    grid = {"glnnclassifier__n_neighbors": [3, 5]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y.fillna(""))  # as README says
    assert search.predict(X[:4]).shape == (4,)
    with pytest.raises(InputError, match="no parameter 'n_neighbour'"):
        GridSearchCV(pipeline, {"glnnclassifier__n_neighbour": [3]}, cv=2).fit(X, y.fillna(""))
    pytest.importorskip("optuna")
    space = {"n_neighbors": Range(3, 5, whole=True)}
    model = GLNNClassifier(encode="auto", **QUICK)
    tuned = TunedClassifier(model, n_trials=2, folds=2, space=space).fit(X, y)
    plain = TunedClassifier(clone(model), n_trials=2, folds=2, space=space)
    same = plain.search(encode_frame(X, drop_constant=True)[0], y)
    assert tuned.trials_.table == same.table
    best = clone(model).set_params(**tuned.trials_.params).fit(X, y)
    assert np.array_equal(tuned.predict_proba(X), best.predict_proba(X))


def test_evaluate_takes_raw_frames_and_pipelines(raw):
    X, y = raw
    own = evaluate(X, y, estimator=GLNNClassifier(encode="auto", **QUICK), folds=2, rivals=None)
    numbers = encode_frame(X, drop_constant=True)[0]
    same = evaluate(numbers, y, estimator=GLNNClassifier(**QUICK), folds=2, rivals=None)
    assert np.array_equal(own.probabilities, same.probabilities)
    city = make_column_transformer((OneHotEncoder(), ["city"]))
    for last in (LogisticRegression(), GLNNClassifier(**QUICK)):
        found = evaluate(X, y, estimator=make_pipeline(city, last), folds=2, rivals=["majority"])
        assert found.own.accuracy == 1
    path = np.stack([np.arange(N - 2), np.arange(2, N)])
    whole = make_pipeline(city, GLNNClassifier(**QUICK))
    assert evaluate(X, y, path, estimator=whole, folds=2, rivals=None).own.accuracy == 1


class Eraser(LogisticRegression):
    """Changes the rows that it predicts."""

    def predict_proba(self, X):
        found = super().predict_proba(X)
        X[:] = 0
        return found


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame])
def test_what_a_classifier_does_to_its_rows_reaches_no_other(form):
    y = np.arange(40) % 2
    X = form(np.random.default_rng(0).normal(size=(40, 2)) + 3 * y[:, None])
    before = np.array(X)
    in_place = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    rivals = {"eraser": Eraser(), "own": LogisticRegression()}
    found = evaluate(X, y, estimator=in_place, folds=2, rivals=rivals)
    alone = evaluate(X, y, estimator=in_place, folds=2, rivals={"own": LogisticRegression()})
    assert np.array_equal(before, X)
    assert found.others[-1].metrics == alone.others[-1].metrics
    assert {score.name: score.accuracy for score in found.others}["eraser"] > 0.9


@pytest.mark.parametrize("encode", ["auto", None])
def test_columns_of_one_name_are_refused(encode):
    X = pd.DataFrame([[1, 2], [3, 5], [4, 4], [0, 9]], columns=["a", "a"])
    with pytest.raises(InputError, match="'a' twice"):
        GLNNClassifier(encode=encode, **QUICK).fit(X, [0, 1, 0, -1])


def test_decimal_numbers_of_a_database_are_numbers():
    cells = [Decimal("1.50"), None, Decimal("-2")]
    numbers, _ = encode_frame(pd.DataFrame({"price": cells}), missing="median")
    assert numbers["price"].tolist() == [1.5, -0.25, -2.0]


def test_labels_of_minus_one_zero_and_one_are_doubted(raw):
    X, y = np.arange(30.0)[:, None], np.arange(30) % 3 - 1
    with pytest.warns(UserWarning, match="-1 is read as 'no label'"):
        assert GLNNClassifier(**QUICK).fit(X, y).classes_.tolist() == [0, 1]
