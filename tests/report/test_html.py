import base64
import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from glnn.report.html import flat_settings, html_report

PICTURES = {"a <caption>": b"\x89PNG fake"}
VOID = {"meta", "img"}


class Checked(HTMLParser):
    """Checks that tags are closed in order, and gathers what a browser would load or run."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.links = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing_from_elsewhere(results):
    page = html_report(results, PICTURES)
    parsed = Checked(page)
    assert all(link.startswith("data:image/png;base64,") for link in parsed.links)
    assert "script" not in parsed.seen
    assert not re.search(r"https?://|@import|url\(", page)


def test_what_users_name_is_escaped(results):
    page = html_report(results, PICTURES)
    for raw in ("<script>", "<b>ash", "trees <i>", "other <u>", "'<x>'"):
        assert raw not in page
    for escaped in ("&lt;script&gt;", "&lt;b&gt;ash", "trees &lt;i&gt;", "other &lt;u&gt;"):
        assert escaped in page


def test_the_page_has_accuracies_facts_certificate_and_settings(results):
    page = html_report(results, PICTURES)
    for word in ("95.0 %", "mean degree", "candidate pairs", "head.n_epochs", "scikit-learn"):
        assert word in page


def test_pictures_are_inside_the_page(results):
    page = html_report(results, PICTURES)
    inside = base64.b64decode(re.search(r'base64,([^"]+)"', page)[1])
    assert inside == PICTURES["a <caption>"]


def test_without_pictures_the_page_says_why(results):
    assert "glnn[report]" in html_report(results, {})


def test_without_test_labels_no_accuracy_is_claimed(results):
    none = np.empty(0, dtype=np.int64)
    untested = dataclasses.replace(results, split=dataclasses.replace(results.split, test=none))
    page = html_report(untested, {})
    Checked(page)
    assert "test accuracy" not in page


@pytest.mark.parametrize("dollars", ["$name", "$$", "${x}"])
def test_dollar_signs_in_names_are_kept(results, dollars):
    named = dataclasses.replace(results, data=dataclasses.replace(results.data, name=dollars))
    assert f"<h1>{dollars}</h1>" in html_report(named, {})


def test_settings_are_flat_and_an_open_one_says_so():
    assert flat_settings({"a": {"b": {"c": 1}}, "d": None}) == [
        ("a.b.c", "1"),
        ("d", "the preset's rule"),
    ]
