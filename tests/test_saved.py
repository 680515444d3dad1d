import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from glnn import GLNNClassifier
from glnn.exceptions import InputError, NotFittedError


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X, np.where(np.arange(len(y)) % 6 == 0, y, -1)


@pytest.fixture(scope="module")
def fitted(wine):
    return GLNNClassifier(n_epochs=40, random_state=0).fit(*wine)


def test_a_saved_model_is_the_same_estimator_again(wine, fitted, tmp_path):
    X, _ = wine
    fitted.save(tmp_path / "model")
    again = GLNNClassifier.load(tmp_path / "model")
    assert again.get_params() == fitted.get_params()
    rows = np.vstack([X, X[:5] + 0.01])
    np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert again.certificate_ == fitted.certificate_
    assert again.choices_ == fitted.choices_
    assert list(again.history_) == list(fitted.history_)
    assert (again.graph_ != fitted.graph_).nnz == 0
    np.testing.assert_array_equal(again.held_out_.probabilities, fitted.held_out_.probabilities)


def test_the_seed_that_was_drawn_is_saved(wine, tmp_path):
    drawn = GLNNClassifier(n_epochs=3, calibrate=None).fit(*wine)
    drawn.save(tmp_path / "model")
    again = GLNNClassifier.load(tmp_path / "model")
    assert again.random_state == again.seed_ == drawn.seed_


def test_a_class_of_ones_own_is_loaded_as_itself(fitted, tmp_path):
    class Own(GLNNClassifier):
        pass

    fitted.save(tmp_path / "model")
    assert type(Own.load(tmp_path / "model")) is Own


def test_a_folder_that_cannot_be_made_and_a_model_without_a_fit_are_refused(fitted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder that can be made"):
        fitted.save(tmp_path / "file" / "model")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        GLNNClassifier().save(tmp_path / "model")


def test_rows_keep_their_names(tmp_path):
    y = np.arange(12) % 2
    x = np.random.default_rng(0).normal(size=(12, 2)) + y[:, None]
    frame = pd.DataFrame(x, index=[f"w{k}" for k in range(12)])
    frame.columns = ["a", "b"]
    quick = {"n_epochs": 5, "n_rounds": 1, "random_state": 0, "calibrate": None}
    seen = np.where(np.arange(12) < 8, y, -1)
    GLNNClassifier(**quick).fit(frame, seen).save(tmp_path / "model")
    again = GLNNClassifier.load(tmp_path / "model")
    assert again.row_names_.tolist() == list(frame.index)
    assert again.explain("w3", refits=0).node == 3
    assert set(again.suggest_labels(2, among=[8, 9])["name"]) == {"w8", "w9"}
