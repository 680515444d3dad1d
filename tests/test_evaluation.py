from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from glnn import GLNNClassifier
from glnn.data import NodeData
from glnn.data.arguments import to_pyg
from glnn.engine.settings import resolve_settings
from glnn.evaluation import evaluate, evaluate_fit
from glnn.exceptions import InputError


class Recorder(BaseEstimator):
    """Answers with the training labels, and keeps what it was shown."""

    shown: ClassVar[list] = []

    def fit(self, X, y, graph=None, validation=None):
        Recorder.shown.append(np.array(y))
        self.classes_ = np.unique(y[y != -1])
        self.label_distributions_ = np.full((len(y), len(self.classes_)), 1 / len(self.classes_))
        return self


class GraphSeen(Recorder):
    """Keeps the graph that it was given."""

    graph: ClassVar[Any] = None

    def fit(self, X, y, graph=None, validation=None):
        GraphSeen.graph = graph
        return super().fit(X, y)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    return rng.normal(size=(80, 2)) + 6 * y[:, None], np.where(np.arange(80) < 50, y, -1)


def test_hidden_labels_are_shown_to_no_fit_of_their_fold(blobs):
    X, y = blobs
    Recorder.shown = []
    judged = evaluate(X, y, estimator=Recorder(), folds=4, rivals=None)
    for shown, hidden in zip(Recorder.shown, judged.folds.hidden):
        assert (shown[hidden] == -1).all()
        assert (shown != -1).sum() == 50 - len(hidden)


GLNN = GLNNClassifier(n_epochs=3, n_rounds=1, random_state=0, tracks=["features"])


def test_a_fit_that_hides_labels_itself_is_judged_without_another_one(blobs, monkeypatch):
    fit, n_fits = GLNNClassifier.fit, []

    def counted(self, *args, **named):
        n_fits.append(1)
        return fit(self, *args, **named)

    monkeypatch.setattr(GLNNClassifier, "fit", counted)
    judged = evaluate(*blobs, estimator=GLNN, folds=3, rivals=None)
    assert len(n_fits) == 1
    alone = clone(GLNN).fit(*blobs, folds=3)
    np.testing.assert_array_equal(judged.held_out.probabilities, alone.held_out_.probabilities)
    again = evaluate_fit(alone, rivals=None)
    assert again.metrics == judged.metrics


@pytest.mark.parametrize("how", ["preset", "settings"])
def test_the_literal_method_which_hides_no_labels_is_fitted_once_for_each_fold(blobs, how):
    X, y = blobs
    settings = resolve_settings("literal", {"n_epochs": 3})
    params = {"preset": {"preset": "literal", "n_epochs": 3}, "settings": {"settings": settings}}
    model = GLNNClassifier(**params[how], random_state=0)
    found = evaluate(X, y, np.eye(80)[::-1], model, folds=2, rivals=None)
    assert len(found.folds) == 2 and len(found.predictions) == 50


def test_a_fit_that_has_hidden_no_label_cannot_be_judged(blobs):
    X, y = blobs
    for how in ({"calibrate": None}, {"validation": [0, 1]}):
        model = clone(GLNN).set_params(calibrate=how.pop("calibrate", "auto")).fit(X, y, **how)
        with pytest.raises(InputError, match="must have hidden labels in folds") as caught:
            evaluate_fit(model)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("estimator", [Recorder(), GLNN], ids=["refits", "one fit"])
def test_labels_of_a_group_are_judged_together(blobs, estimator):
    groups = np.arange(80) // 7
    judged = evaluate(*blobs, estimator=estimator, folds=3, groups=groups, rivals=None)
    assert judged.held_out.hidden_nodes.tolist() == list(range(50))
    for hidden, seen in zip(judged.folds.hidden, judged.folds.seen):
        assert not np.intersect1d(groups[hidden], groups[seen]).size


def test_later_labels_are_shown_to_no_fit_that_is_judged_by_earlier_ones(blobs):
    X, y = blobs
    times = np.roll(np.arange(80), 13)
    Recorder.shown = []
    judged = evaluate(X, y, estimator=Recorder(), folds=3, times=times, rivals=None)
    assert len(Recorder.shown) == len(judged.folds) == 3
    for shown, hidden in zip(Recorder.shown, judged.folds.hidden):
        assert times[shown != -1].max() < times[hidden].min()
    own = evaluate(X, y, estimator=GLNN, folds=3, times=times, rivals=None)
    np.testing.assert_array_equal(own.folds.nodes, judged.folds.nodes)
    assert own.held_out.hidden_nodes.tolist() == judged.folds.nodes.tolist()


def test_any_classifier_that_takes_unlabelled_rows_can_be_judged(blobs):
    X, y = blobs
    y = np.where(y == -1, -1, y + 3)
    found = evaluate(X, y, estimator=LabelSpreading("knn"), folds=3, rivals=("majority",))
    assert found.classes.tolist() == [3, 4]
    assert found.metrics["accuracy"].value == 1


def records(X, y):
    """The same data as a record and as PyTorch Geometric's, with a split and a graph."""
    edges = np.stack([np.arange(79), np.arange(1, 80)])
    splits = {"train": np.arange(40), "val": np.arange(40, 50)}
    record = NodeData.from_arrays(X, np.where(y == -1, 0, y), edges=edges, splits=splits)
    return record, to_pyg(record)


@pytest.mark.parametrize("kind", [0, 1], ids=["NodeData", "PyG"])
def test_a_whole_record_brings_labels_graph_and_validation_rows(blobs, kind):
    X, y = blobs
    data = records(X, y)[kind]
    Recorder.shown, GraphSeen.graph = [], None
    found = evaluate(data, estimator=GraphSeen(), folds=4, rivals=None)
    assert found.held_out.hidden_nodes.tolist() == list(range(40))
    assert all((shown[40:50] != -1).all() for shown in Recorder.shown)
    assert all((shown[50:] == -1).all() for shown in Recorder.shown)
    assert GraphSeen.graph.nnz == 2 * 79


def test_too_few_labels_unknown_rivals_and_no_labels_are_refused_before_any_fit(blobs):
    with pytest.raises(InputError, match=r"y must hold the labels .* got None\. Give y"):
        evaluate(blobs[0])
    with pytest.raises(InputError, match="Did you mean 'label_spreading'"):
        evaluate(*blobs, estimator=Recorder(), rivals=["label_spread"])
    y = np.full(80, -1)
    y[:2] = 0, 1
    with pytest.raises(InputError, match=r"^too few labels to tell: 2\."):
        evaluate(blobs[0], y, estimator=Recorder())


def test_an_interrupted_estimate_goes_on_to_the_same_numbers(blobs, tmp_path):
    X, y = blobs
    judge = {"estimator": LabelSpreading("knn"), "folds": 3, "rivals": ("majority",)}
    stages = []

    def stop(stage):
        stages.append(stage)
        if len(stages) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(X, y, **judge, checkpoint=tmp_path, watch=stop)
    assert len(list(tmp_path.glob("fold-*"))) == 2
    found = evaluate(X, y, **judge, checkpoint=tmp_path)
    straight = evaluate(X, y, **judge)
    np.testing.assert_array_equal(found.probabilities, straight.probabilities)
    assert found.metrics == straight.metrics


def test_folds_of_other_data_or_settings_are_not_taken(blobs, tmp_path):
    X, y = blobs
    spread, moved, other = LabelSpreading("knn"), X.copy(), y.copy()
    moved[0, 0] += 1
    other[np.flatnonzero(y == 0)[0]] = 1
    graph, strict = np.array([[0, 1], [1, 2]]), LabelSpreading("knn", n_neighbors=6)
    cases = [(X, y, None, spread), (moved, y, None, spread), (X, other, None, spread)]
    cases += [(X, y, None, strict), (X, y, graph, GraphSeen())]
    for number, (*data, estimator) in enumerate(cases, start=1):
        evaluate(*data, estimator=estimator, folds=2, rivals=None, checkpoint=tmp_path)
        assert len(list(tmp_path.glob("fold-*"))) == 2 * number


# Rivals


def test_a_frame_reaches_the_classifiers_of_the_user_as_it_came(blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"n{k}" for k in range(80)])
    model = make_pipeline(
        make_column_transformer((StandardScaler(), ["a", "b"])), LogisticRegression()
    )
    labels = np.where(y == -1, None, np.where(y == 1, "yes", "no"))
    found = evaluate(frame, labels, estimator=Named(), folds=2, rivals={"mine": model})
    names = [score.name for score in found.others]
    assert names == ["majority", "logistic_regression", "label_spreading", "boosted_trees", "mine"]
    assert found.others[-1].accuracy == 1
    assert (found.verdict.kind, found.verdict.beats_chance) == ("rival", False)


class Named(BaseEstimator):
    """Answers with the first class, whatever the labels are."""

    def fit(self, X, y):
        self.classes_ = np.unique([label for label in y if label is not None])
        self.label_distributions_ = np.tile(np.eye(len(self.classes_))[0], (len(y), 1))
        return self
