import dataclasses

import numpy as np

from glnn.report.page.document import render
from glnn.report.results import Score
from glnn.report.run_page import flat_settings, page_of


def test_the_page_has_the_runs_nodes_labels_and_graph(results):
    page = page_of(results)
    np.testing.assert_array_equal(page.nodes.predicted, results.predictions)
    np.testing.assert_allclose(page.nodes.probabilities.sum(1), 1)
    assert (page.graphs.learned != results.adjacency).nnz == 0
    assert page.class_names == results.data.class_names


def test_only_labels_that_the_fit_did_not_see_are_judged(results):
    page = page_of(results)
    judged = np.flatnonzero(page.nodes.judged >= 0)
    np.testing.assert_array_equal(judged, np.sort(results.split.test))
    assert not page.nodes.seen[judged].any()
    assert page.evaluation.methods[0].accuracy.value == results.accuracy("test")


def test_without_test_labels_nothing_is_measured(results):
    untested = dataclasses.replace(
        results, split=dataclasses.replace(results.split, test=results.split.val)
    )
    assert page_of(untested).evaluation is None
    assert "has not been measured" in render(page_of(untested))


def test_columns_of_probabilities_follow_the_classes_of_the_data(results):
    turned = dataclasses.replace(
        results, classes=np.array([1, 0]), probabilities=results.probabilities[:, ::-1]
    )
    np.testing.assert_allclose(
        page_of(turned).nodes.probabilities, page_of(results).nodes.probabilities
    )


def test_a_verdict_names_a_compared_method_that_did_better_and_is_not_green_then(results):
    alone = page_of(results).evaluation
    scores = (Score("GLNN", 0.2, 1.0), Score("SVM", 0.95, 1.0))
    beside = page_of(dataclasses.replace(results, scores=scores)).evaluation
    assert beside.verdict == f"{alone.verdict}; SVM 95 %: use that here"
    assert beside.tone != "good"


def test_hostile_names_stay_text(results):
    html = render(page_of(results))
    assert "<b>ash</b>" not in html
    assert "&lt;b&gt;ash&lt;/b&gt;" in html


def test_only_what_differs_from_the_preset_is_called_changed(results):
    settings = {"preset": "default", "scaling": "rows"}
    page = page_of(dataclasses.replace(results, settings=settings))
    assert page.reproduce.changed == (("scaling", "rows", "auto"),)


def test_nested_settings_are_told_by_dotted_names():
    assert flat_settings({"a": {"b": {"c": 1}}, "d": None}) == [
        ("a.b.c", "1"),
        ("d", "the preset's rule"),
    ]
