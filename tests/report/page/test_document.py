import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.report.page import charts
from glnn.report.page.document import (
    PARTS,
    build_model_page,
    build_page,
    content_policy,
    flatten_settings,
    inline_json,
    inline_script,
    read_script,
    read_style,
    render,
)
from glnn.report.page.page_data import Graphs, PageData
from glnn.report.page.subset import decode_block
from glnn.report.results import Score, merge_held_out
from glnn.report.text import UNCALIBRATED, verdict_line


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def elements(html):
    parser = Elements()
    parser.feed(html)
    return parser.found


def test_text_of_the_user_never_becomes_an_element(make_page):
    html = render(make_page())
    scripts = [attrs for tag, attrs in elements(html) if tag == "script"]
    assert [attrs.get("type") for attrs in scripts] == ["application/json"] * 2 + [None] * 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script>alert(1)" not in html


def test_no_element_asks_for_anything_and_none_has_a_handler(make_page):
    for _, attrs in elements(render(make_page())):
        assert not {"src", "srcset", "action", "data", "poster"} & attrs.keys()
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)


def test_sections_stand_in_their_order(make_page):
    html = render(make_page())
    found = [attrs["id"] for tag, attrs in elements(html) if tag == "section"]
    assert found == ["verdict", "errors", "map", "nodes", "learning", "reproduce"]


def test_the_data_block_has_every_node(make_page):
    page = make_page(50)
    block = re.search(r'id="data">([^<]*)<', render(page)).group(1)
    words, arrays = decode_block(block)
    assert words["ids"] == list(page.nodes.ids)
    assert arrays["places"].shape == (50, 2)
    assert arrays["matrices"].shape == (4, 50, 50)  # the given graph and three rounds


def test_nodes_and_graph_are_enough_for_a_page(make_page):
    full = make_page(30)
    bare = PageData("t", full.class_names, full.nodes, Graphs(full.graphs.learned))
    html = render(bare)
    assert "has not been measured" in html
    assert "side-by-side" not in {attrs.get("id") for _, attrs in elements(html)}


def test_without_bokeh_the_charts_numbers_stay(make_page, monkeypatch):
    monkeypatch.setattr("glnn.report.page.document.has_bokeh", lambda: False)
    html = render(make_page(30))
    assert charts.bokeh_script()[:200] not in html
    assert html.count("<details open>") == 10


def test_the_same_data_gives_the_same_page(make_page):
    page = dataclasses.replace(make_page(30))
    without_charts = [
        re.sub(r"<script.*?</script>", "", render(page), flags=re.S) for _ in range(2)
    ]
    assert without_charts[0] == without_charts[1]


# Scripts and policy


def test_the_policy_names_the_digest_of_each_script():
    digest = base64.b64encode(hashlib.sha256(b"a = 1").digest()).decode()
    assert f"script-src 'sha256-{digest}';" in content_policy(["a = 1"])
    assert "unsafe-eval" not in content_policy(["a = 1"])


@pytest.mark.parametrize("text", ["x = '</SCRIPT>'", "x = '<!--'"])
def test_a_script_that_would_end_its_element_is_refused(text):
    with pytest.raises(ValueError, match="must not contain"):
        inline_script(text)


def test_json_on_the_page_has_no_sign_of_html_and_reads_back():
    value = {"name": "</script><!-- & 'quoted'"}
    text = inline_json(value)
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_all_parts_are_in_the_script_and_ask_for_nothing():
    script = read_script()
    assert script.count("\n// ") >= len(PARTS)
    for word in ("eval(", "innerHTML", "fetch(", "XMLHttpRequest", "import("):
        assert word not in script
    for word in ("url(", "@import"):
        assert word not in read_style()


# The page of a run


def test_the_page_has_the_runs_nodes_labels_and_graph(results):
    page = build_page(results)
    np.testing.assert_array_equal(page.nodes.predicted, results.predictions)
    np.testing.assert_allclose(page.nodes.probabilities.sum(1), 1)
    assert (page.graphs.learned != results.adjacency).nnz == 0
    assert page.class_names == results.data.class_names


def test_only_labels_that_the_fit_did_not_see_are_judged(results):
    page = build_page(results)
    judged = np.flatnonzero(page.nodes.judged >= 0)
    np.testing.assert_array_equal(judged, np.sort(results.split.test))
    assert not page.nodes.seen[judged].any()
    assert page.evaluation.methods[0].accuracy.value == results.accuracy("test")


def test_without_test_labels_nothing_is_measured(results):
    untested = dataclasses.replace(
        results, split=dataclasses.replace(results.split, test=results.split.val)
    )
    assert build_page(untested).evaluation is None
    html = render(build_page(untested))
    assert verdict_line(untested) in html
    assert "without --no-estimate" in html


def test_the_page_has_the_sentence_of_the_terminal_where_no_label_can_be_hidden(results):
    split = dataclasses.replace(results.split, train=np.array([0, 10]), test=results.split.val)
    single = dataclasses.replace(results, split=split)
    html = render(build_page(single))
    assert verdict_line(single) in html
    assert "label more nodes" in html
    assert "--no-estimate" not in html


def test_raw_probabilities_are_marked_on_the_page_measured_or_not(results):
    assert build_page(results).warnings == ()
    raw = dataclasses.replace(results, calibration=None)
    none = dataclasses.replace(raw, split=dataclasses.replace(raw.split, test=raw.split.val))
    for page in (build_page(raw), build_page(none)):
        assert page.warnings[0].lower() == UNCALIBRATED
        assert "not calibrated on held-out labels" in render(page)


def test_the_page_has_the_probabilities_of_the_predictions(judged_run):
    after = judged_run[1]
    shown, _ = merge_held_out(after)
    nodes = build_page(after).nodes
    np.testing.assert_array_equal(nodes.probabilities[:, after.classes], shown)
    np.testing.assert_array_equal(nodes.predicted, after.classes[shown.argmax(1)])


def test_what_chance_gives_stands_beside_the_share_of_links_between_equal_labels(results):
    assert "98.9 % (by chance 50.0 %) of 91 between test nodes" in render(build_page(results))


def test_columns_of_probabilities_follow_the_classes_of_the_data(results):
    turned = dataclasses.replace(
        results, classes=np.array([1, 0]), probabilities=results.probabilities[:, ::-1]
    )
    np.testing.assert_allclose(
        build_page(turned).nodes.probabilities, build_page(results).nodes.probabilities
    )


def test_the_verdict_on_test_nodes_is_that_of_the_terminal_and_not_green_when_beaten(results):
    test, none = np.arange(20), np.empty(0, np.int64)
    said = np.full((20, 2), 0.5) + 0.1 * np.eye(2)[np.arange(20) % 2]  # right for every second
    right = np.eye(2)[results.data.labels[test]]
    scores = (Score("GLNN", 0.5, 1.0), Score("SVM", 1.0, 1.0, probabilities=right, name="svm"))
    split = dataclasses.replace(results.split, train=none, test=test)
    beside = dataclasses.replace(results, split=split, scores=scores, probabilities=said)
    found = build_page(beside).evaluation
    assert found.verdict == verdict_line(beside)
    assert (beside.verdict.kind, beside.verdict.rival) == ("rival", "SVM")
    assert found.tone == "caution"
    assert found.methods[1].name == "SVM"


def test_a_class_without_a_label_to_learn_from_has_its_row_and_no_right_answer(results):
    only = dataclasses.replace(results, classes=np.array([1]), probabilities=np.ones((20, 1)))
    found = build_page(only).evaluation
    n_first, n_second = np.bincount(results.data.labels[results.split.test])
    assert found.confusion.tolist() == [[0, n_first], [0, n_second]]
    assert found.methods[0].accuracy.value == only.accuracy("test")


def test_hostile_names_stay_text(results):
    html = render(build_page(results))
    assert "<b>ash</b>" not in html
    assert "&lt;b&gt;ash&lt;/b&gt;" in html


def test_only_what_differs_from_the_preset_is_called_changed(results):
    settings = {"preset": "default", "scaling": "rows"}
    page = build_page(dataclasses.replace(results, settings=settings))
    assert page.reproduce.changed == (("scaling", "rows", "auto"),)


def test_nested_settings_are_told_by_dotted_names():
    assert flatten_settings({"a": {"b": {"c": 1}}, "d": None}) == [
        ("a.b.c", "1"),
        ("d", "the preset's rule"),
    ]


# The page of a fitted classifier


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
    page = build_model_page(model, model._fitted_to)
    np.testing.assert_array_equal(page.nodes.truth, labels)
    np.testing.assert_array_equal(page.nodes.seen, labels >= 0)
    np.testing.assert_array_equal(
        np.flatnonzero(page.nodes.judged >= 0), model.held_out_.hidden_nodes
    )
    assert page.evaluation.confusion.sum() == model.held_out_.hidden_nodes.size


def test_a_classifier_writes_its_page(fitted, tmp_path):
    model, _ = fitted
    path = model.report(tmp_path / "fit.html")
    html = path.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "60 nodes, 40 of them with a label" in html
    assert ("n_epochs", "20", "the default") in build_model_page(model, None).reproduce.changed


def test_a_loaded_model_has_the_page_of_the_model_that_was_saved(fitted, tmp_path):
    model, labels = fitted
    model.save(tmp_path)
    page = build_model_page(GLNNClassifier.load(tmp_path), None)
    np.testing.assert_array_equal(page.nodes.truth, labels)
    np.testing.assert_allclose(
        page.graphs.terms.shares, build_model_page(model, model._fitted_to).graphs.terms.shares
    )
