import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.report.model_page import page_of_model


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    features = rng.normal(size=(60, 4)) + 4 * classes[:, None]
    labels = np.where(np.arange(60) < 40, classes, -1)
    model = GLNNClassifier(n_epochs=20, n_rounds=1, random_state=0)
    return model.fit(features, labels), labels


def test_labels_that_were_given_are_known_and_only_hidden_ones_are_judged(fitted):
    model, labels = fitted
    page = page_of_model(model, model._fitted_to)
    np.testing.assert_array_equal(page.nodes.truth, labels)
    np.testing.assert_array_equal(page.nodes.seen, labels >= 0)
    np.testing.assert_array_equal(np.flatnonzero(page.nodes.judged >= 0), model.held_out_.judged)
    assert page.evaluation.confusion.sum() == model.held_out_.judged.size


def test_a_classifier_writes_its_page(fitted, tmp_path):
    model, _ = fitted
    path = model.report(tmp_path / "fit.html")
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "60 nodes, 40 of them with a label" in html
    assert ("n_epochs", "20", "the default") in page_of_model(model, None).reproduce.changed


def test_a_loaded_model_has_the_page_of_the_model_that_was_saved(fitted, tmp_path):
    model, labels = fitted
    model.save(tmp_path)
    page = page_of_model(GLNNClassifier.load(tmp_path), None)
    np.testing.assert_array_equal(page.nodes.truth, labels)
    np.testing.assert_allclose(
        page.graphs.terms.shares, page_of_model(model, model._fitted_to).graphs.terms.shares
    )
