import dataclasses

import numpy as np

from glnn.report.page.document import render
from glnn.report.predictions import shown_probabilities
from glnn.report.run_page import flat_settings, page_of
from glnn.report.tested import Score
from glnn.report.words import RAW, verdict_line


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
    html = render(page_of(untested))
    assert "Too few labels to tell: 4." in html
    assert "without --no-estimate" in html


def test_the_page_has_the_sentence_of_the_terminal_where_no_label_can_be_hidden(results):
    split = dataclasses.replace(results.split, train=np.array([0, 10]), test=results.split.val)
    single = dataclasses.replace(results, split=split)
    html = render(page_of(single))
    assert f"{verdict_line(single).capitalize()}." in html
    assert "label more nodes" in html
    assert "--no-estimate" not in html


def test_raw_probabilities_are_marked_on_the_page_measured_or_not(results):
    assert page_of(results).warnings == ()
    raw = dataclasses.replace(results, calibration=None)
    none = dataclasses.replace(raw, split=dataclasses.replace(raw.split, test=raw.split.val))
    for page in (page_of(raw), page_of(none)):
        assert page.warnings[0].lower() == RAW
        assert "not calibrated by hidden labels" in render(page)


def test_the_page_has_the_probabilities_of_the_predictions(judged_run):
    after = judged_run[1]
    shown, _ = shown_probabilities(after)
    nodes = page_of(after).nodes
    np.testing.assert_array_equal(nodes.probabilities[:, after.classes], shown)
    np.testing.assert_array_equal(nodes.predicted, after.classes[shown.argmax(1)])


def test_what_chance_gives_stands_beside_the_share_of_links_between_equal_labels(results):
    assert "98.9 % (by chance 50.0 %) of 91 between test nodes" in render(page_of(results))


def test_columns_of_probabilities_follow_the_classes_of_the_data(results):
    turned = dataclasses.replace(
        results, classes=np.array([1, 0]), probabilities=results.probabilities[:, ::-1]
    )
    np.testing.assert_allclose(
        page_of(turned).nodes.probabilities, page_of(results).nodes.probabilities
    )


def test_the_verdict_on_test_nodes_is_that_of_the_terminal_and_not_green_when_beaten(results):
    test, none = np.arange(20), np.empty(0, np.int64)
    said = np.full((20, 2), 0.5) + 0.1 * np.eye(2)[np.arange(20) % 2]  # right for every second
    right = np.eye(2)[results.data.labels[test]]
    scores = (Score("GLNN", 0.5, 1.0), Score("SVM", 1.0, 1.0, probabilities=right, name="svm"))
    split = dataclasses.replace(results.split, train=none, test=test)
    beside = dataclasses.replace(results, split=split, scores=scores, probabilities=said)
    found = page_of(beside).evaluation
    assert found.verdict.lower() == verdict_line(beside).lower()
    assert found.verdict.endswith("SVM has 100 %: use that here")
    assert found.tone == "bad"
    assert found.methods[1].name == "SVM"


def test_a_class_without_a_label_to_learn_from_has_its_row_and_no_right_answer(results):
    only = dataclasses.replace(results, classes=np.array([1]), probabilities=np.ones((20, 1)))
    found = page_of(only).evaluation
    n_first, n_second = np.bincount(results.data.labels[results.split.test])
    assert found.confusion.tolist() == [[0, n_first], [0, n_second]]
    assert found.methods[0].accuracy.value == only.accuracy("test")


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
