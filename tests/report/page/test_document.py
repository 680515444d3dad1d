import dataclasses
import re
from html.parser import HTMLParser

from glnn.report.page import charts
from glnn.report.page.data import Graphs, PageData
from glnn.report.page.document import render
from glnn.report.page.pack import unpacked


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
    words, arrays = unpacked(block)
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
