import base64
import dataclasses
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.data.synthetic import blobs
from glnn.report.page import charts
from glnn.report.page.document import (
    content_policy,
    inline_script,
    read_script,
    read_style,
    render,
)
from glnn.report.results import Results, collect_model_results
from glnn.report.text import verdict_line


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


def test_the_data_block_has_every_node(make_page, decode_block):
    page = make_page(50)
    block = re.search(r'id="data">([^<]*)<', render(page)).group(1)
    words, arrays = decode_block(block)
    assert words["ids"] == page.ids.tolist()
    assert arrays["places"].shape == (50, 2)
    assert arrays["matrices"].shape == (4, 50, 50)  # the given graph and three rounds


def test_nodes_and_graph_are_enough_for_a_page(make_page):
    full = make_page(30)
    required = ("ids", "class_names", "labels", "split", "probabilities", "adjacency")
    html = render(Results("t", *(getattr(full, name) for name in required)))
    assert "too few labels to tell" in html
    assert "side-by-side" not in {attrs.get("id") for _, attrs in elements(html)}


def test_without_bokeh_the_charts_numbers_stay(make_page, monkeypatch):
    monkeypatch.setattr("glnn.report.page.document.has_bokeh", lambda: False)
    html = render(make_page(30))
    assert charts.bokeh_script()[:200] not in html
    assert html.count("<details open>") == 8


# Scripts and policy


def test_the_policy_names_the_digest_of_each_script():
    digest = base64.b64encode(hashlib.sha256(b"a = 1").digest()).decode()
    assert f"script-src 'sha256-{digest}';" in content_policy(["a = 1"])
    assert "unsafe-eval" not in content_policy(["a = 1"])


@pytest.mark.parametrize("text", ["x = '</SCRIPT>'", "x = '<!--'"])
def test_a_script_that_would_end_its_element_is_refused(text):
    with pytest.raises(ValueError, match="must not contain"):
        inline_script(text)


def test_all_parts_are_in_the_script_and_ask_for_nothing():
    script = read_script()
    folder = Path(charts.__file__).parent / "templates" / "js"
    assert all(path.read_text() in script for path in folder.iterdir())
    assert script.endswith("main();\n})();\n")
    for word in ("eval(", "innerHTML", "fetch(", "XMLHttpRequest", "import("):
        assert word not in script
    for word in ("url(", "@import"):
        assert word not in read_style()


# The page of a run


def test_without_hidden_labels_nothing_is_measured(results):
    split = dataclasses.replace(results.split, test=results.split.val)
    untested = dataclasses.replace(results, split=split, evaluation=None)
    html = render(untested)
    assert verdict_line(untested) in html and "without --folds 0" in html
    single = dataclasses.replace(
        untested, split=dataclasses.replace(split, train=np.array([0, 10]))
    )
    html = render(single)
    assert verdict_line(single) in html and "label more nodes" in html
    assert "--folds 0" not in html


@pytest.mark.parametrize("is_judged", [True, False])
def test_raw_probabilities_are_marked_on_the_page_measured_or_not(results, is_judged):
    raw = dataclasses.replace(results, calibration=None)
    raw = raw if is_judged else dataclasses.replace(raw, evaluation=None)
    assert "not calibrated on held-out labels" in render(raw)
    assert "not calibrated on held-out labels" not in render(results)


def test_the_page_of_a_classifier_is_shown_inline_and_written(tmp_path):
    data = blobs()
    y = np.where(np.arange(data.n_nodes) % 7 == 0, data.labels, -1)
    fitted = GLNNClassifier(n_epochs=3, tracks=["features"], random_state=0).fit(data.features, y)
    page = fitted.report()
    assert html.unescape(page._repr_html_().split('srcdoc="')[1].split('"')[0]) == page.html
    written = fitted.report(tmp_path / "fit.html")
    assert (tmp_path / "fit.html").read_text(encoding="utf-8") == written.html
    results = collect_model_results(fitted)
    assert list(results.suggestions[:9]) == fitted.suggest_labels(9)["node"].tolist()
    assert len(results.columns) == data.n_features
