"""The page in a real browser, where there is one: see ``browser`` in ``tests/conftest.py``."""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from glnn.report.page.document import ReportPage, render

AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
READY = "html[data-ready=all]"
LARGE = 19_717  # as many nodes as Pubmed


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pages by number of nodes, each written once."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def open_page(open_tab, files, make_page, decode_block):
    """Return a function that opens a page of so many nodes, or a file, and reads its data."""

    def opened(n_nodes=120, *, path=None, width=1280, dark=False):
        if path is None:
            path = files / f"{n_nodes}.html"
            if not path.exists():
                path.write_text(render(make_page(n_nodes)), encoding="utf-8")
        tab = open_tab(path.as_uri(), width=width, dark=dark)
        tab.wait_for_selector(READY, timeout=30_000)
        block = re.search(r'id="data">([^<]*)<', path.read_text(encoding="utf-8")).group(1)
        tab.words, tab.arrays = decode_block(block)
        return tab

    opened.wrong = open_tab.wrong
    return opened


def place_of(tab, node, canvas="#map-learned"):
    """Where a node lies on the screen while the whole map is seen."""
    tab.locator(canvas).scroll_into_view_if_needed()
    box = tab.locator(canvas).bounding_box()
    places = tab.arrays["places"] / 65535
    (x, y), (wide, high) = places[node], np.maximum(np.ptp(places, 0), 0.3)
    scale = 0.94 * min(box["width"] / wide, box["height"] / high)
    return (
        box["x"] + box["width"] / 2 + (x - 0.5) * scale,
        box["y"] + box["height"] / 2 + (y - 0.5) * scale,
    )


def pixels(tab, canvas="#map-learned"):
    """How many pixels of a canvas are drawn on, and a sum that changes with any of them."""
    tab.wait_for_timeout(300)
    return tab.evaluate(
        """(name) => {
          const canvas = document.querySelector(name);
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let [count, sum] = [0, 0];
          for (let p = 0; p < data.length; p += 4) {
            if (data[p + 3]) count += 1;
            sum = (sum * 31 + data[p] + 3 * data[p + 1] + 7 * data[p + 2] + 11 * data[p + 3]) % 1e9;
          }
          return [count, sum];
        }""",
        canvas,
    )


def test_the_page_opens_with_a_drawn_map_and_all_charts_and_fits_every_width(open_page):
    tab = open_page()
    assert pixels(tab)[0] > 1000
    assert tab.locator(".plot canvas").count() >= 7
    assert tab.locator("#node-rows tr").count() == 20
    tab.mouse.click(*place_of(tab, 3))
    for width in (360, 768, 1400, 2560):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_timeout(200)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        shares = tab.evaluate(
            """() => [...document.querySelectorAll(".columns")].filter((box) => box.children.length)
              .map((box) => {
                const [all, parts] = [box.getBoundingClientRect(), [...box.children]];
                const right = Math.max(...parts.map((part) => part.getBoundingClientRect().right));
                return (right - all.left) / all.width;
              })"""
        )
        assert min(shares) > 0.9


def test_the_page_of_a_real_run_opens_without_an_error(open_page, tested_run):
    tab = open_page(path=tested_run[0].folder / "report.html")
    assert pixels(tab)[0] > 1000
    assert "of unseen labels right" in tab.locator(".verdict").inner_text()
    tab.mouse.click(*place_of(tab, 0))
    assert tab.locator("#panel .links li").count() > 0
    tab.set_viewport_size({"width": 360, "height": 900})
    tab.wait_for_timeout(200)
    assert tab.evaluate("document.documentElement.scrollWidth") == 360


def test_a_script_that_is_not_the_pages_own_does_not_run(open_page):
    tab = open_page()
    refused = tab.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("securitypolicyviolation", () => done(true));
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          try { document.body.append(script); } catch { done(true); }
          setTimeout(() => done(!window.ran), 300);
        })"""
    )
    assert refused
    assert tab.evaluate("window.ran") is None
    assert "Content Security Policy" in open_page.wrong.pop()


def test_pointing_at_a_node_names_it_with_label_prediction_and_probabilities(open_page):
    tab = open_page()
    tab.mouse.move(*place_of(tab, 7))
    tip = tab.locator("#tip")
    words, arrays = tab.words, tab.arrays
    assert tip.is_visible()
    told = tip.inner_text()
    named = next(k for k, name in enumerate(words["ids"]) if told.splitlines()[0] == name)
    assert f"prediction: {words['classes'][arrays['predicted'][named] - 1]}" in told
    assert "known label:" in told
    assert told.count(" %") == 3
    assert [line.partition(":")[0] for line in told.splitlines()[-3:]] == ["age", "city", "since"]
    tab.locator("#map-learned").focus()
    tab.keyboard.press("Escape")
    assert not tip.is_visible()


def test_pressing_a_node_explains_it_and_its_links(open_page):
    tab = open_page()
    before = pixels(tab)
    tab.mouse.click(*place_of(tab, 7))
    panel = tab.locator("#panel")
    assert panel.locator("h3").inner_text().startswith("node-")
    n_links = int(re.search(r"Links: (\d+) learned", panel.inner_text()).group(1))
    n_listed = panel.locator(".links li").count()
    assert 0 < n_listed <= 12
    assert n_links >= n_listed or "dropped" in panel.inner_text()
    first = panel.locator(".links li").first
    assert re.search(r"given|added", first.inner_text())
    assert "similar in column" in first.inner_text()
    assert "prediction" in first.inner_text()
    assert pixels(tab) != before
    assert panel.locator(".own dt").all_inner_texts() == ["age", "city", "since"]
    node = tab.words["ids"].index(panel.locator("h3").inner_text())
    city = tab.words["table"][1]["words"][tab.arrays["cells"][1, node] - 1]
    assert panel.locator(".own dd").nth(1).inner_text() == city
    other = first.locator("button").inner_text()
    first.locator("button").click()
    assert panel.locator("h3").inner_text() == other


def test_a_node_is_found_by_its_id_and_by_keys_alone(open_page):
    tab = open_page()
    tab.locator("#search").fill("node-42")
    assert tab.locator("#found li").first.inner_text() == "node-42"
    tab.keyboard.press("Enter")
    assert tab.locator("#panel h3").inner_text() == "node-42"
    tab.locator("#search").fill("no such node")
    tab.keyboard.press("Enter")
    assert "No row" in tab.locator("#status").inner_text()
    before = pixels(tab)
    tab.locator("#map-learned").focus()
    for key in ("+", "ArrowLeft", "Enter"):
        tab.keyboard.press(key)
    assert pixels(tab) != before
    assert "Selected node-" in tab.locator("#status").inner_text()


def test_every_colouring_counts_every_node_in_its_legend(open_page):
    tab = open_page()
    pictures = {tuple(pixels(tab))}
    for mode in ("truth", "confidence", "error", "suspect", "0", "1", "2"):
        tab.locator("#mode").select_option(mode)
        counts = re.findall(r"\((\d+)\)$", tab.locator("#legend").inner_text(), flags=re.M)
        assert sum(map(int, counts)) == 120
        pictures.add(tuple(pixels(tab)))
    assert len(pictures) == 8


def test_the_slider_and_the_switches_take_links_away(open_page):
    tab = open_page()
    every = pixels(tab)[0]
    tab.locator("#weight").fill("80")
    heavy = pixels(tab)[0]
    assert tab.locator("#weight-value").inner_text() != "0"
    tab.locator("#fate-added").uncheck()
    fewer = pixels(tab)[0]
    tab.locator("#fate-kept").uncheck()
    none = pixels(tab)[0]
    assert every > heavy > fewer > none > 0


def test_the_heaviest_links_of_each_node_are_counted(open_page):
    tab = open_page()
    n_links = int((tab.arrays["fate"] < 2).sum())
    assert tab.locator("#links-left").inner_text() == f"{n_links} of {n_links} links"
    every = pixels(tab)[0]
    tab.locator("#per-node").select_option("1")
    best = {}  # the heaviest link of each node
    for link in np.flatnonzero(tab.arrays["fate"] < 2):
        for end in (tab.arrays["source"][link], tab.arrays["target"][link]):
            if end not in best or tab.arrays["weight"][link] > tab.arrays["weight"][best[end]]:
                best[end] = link
    n_left = len(set(best.values()))
    assert tab.locator("#links-left").inner_text() == f"{n_left} of {n_links} links"
    assert pixels(tab)[0] < every


def test_rows_are_filtered_by_the_group_of_a_column(open_page):
    tab = open_page()
    before = pixels(tab)
    tab.locator("#filter-column").select_option("1")
    tab.locator("#filter-group").select_option(label="Kraków")
    assert "of 40 rows" in tab.locator("#table-count").inner_text()
    cities = tab.locator("#node-rows td:nth-child(9)").all_inner_texts()
    assert set(cities) == {"Kraków"}
    assert pixels(tab) != before
    tab.locator("#clear-filter").click()
    assert tab.locator("#filter-column").input_value() == ""
    first = tab.locator("#columns [data-slice]").first
    column, group = map(int, first.get_attribute("data-slice").split(","))
    first.click()
    n_rows = int((tab.arrays["groups"][column] == group).sum())
    assert f"of {n_rows} rows" in tab.locator("#table-count").inner_text()


def test_next_steps_lead_to_their_rows(open_page):
    tab = open_page()
    named = tab.locator("#next [data-node]")
    suspects = tab.arrays["flags"] & 2 > 0
    node = int(named.first.get_attribute("data-node"))
    assert suspects[node]
    named.first.click()
    assert tab.locator("#panel h3").inner_text() == tab.words["ids"][node]
    tab.locator("#next [data-kind=suspect]").click()
    assert f"of {suspects.sum()} rows" in tab.locator("#table-count").inner_text()
    last = [int(named.nth(k).get_attribute("data-node")) for k in range(named.count())][-8:]
    assert last == tab.words["next"][:8]


def test_suspect_labels_and_given_labels_stand_out(open_page):
    tab = open_page()
    tab.locator("#fate-kept").uncheck()
    tab.locator("#fate-added").uncheck()
    for mark in (r"rim: given label", r"large: suspect label"):
        assert mark in tab.locator("#legend").inner_text()
    tab.locator("#mode").select_option("suspect")
    x, y = place_of(tab, int(np.flatnonzero(tab.arrays["flags"] & 2)[0]))
    box = tab.locator("#map-learned").bounding_box()
    colour = tab.evaluate(
        """([x, y]) => [...document.querySelector("#map-learned").getContext("2d")
             .getImageData(x, y, 1, 1).data]""",
        [round(x - box["x"]), round(y - box["y"])],
    )
    assert colour == [0xB3, 0x26, 0x1E, 255]


def test_model_card_and_table_are_saved_as_files(open_page):
    tab = open_page()
    with tab.expect_download() as waiting:
        tab.locator("#card-save").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert waiting.value.suggested_filename.endswith(".md")
    assert re.findall("^## (.*)$", text, re.M) == tab.locator("#card h3").all_inner_texts()
    with tab.expect_download() as waiting:
        tab.locator("#table-csv").click()
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 121
    assert lines[0].startswith("tree,given_label,predicted,probability,p(ash)")
    assert lines[0].endswith("known_label,suspect,age,city,since")


def test_given_and_learned_graph_stand_side_by_side_and_rounds_in_turn(open_page):
    tab = open_page()
    assert not tab.locator("#map-given").is_visible()
    tab.locator("#side-by-side").check()
    left, right = (tab.locator(name).bounding_box() for name in ("#map-given", "#map-learned"))
    assert left["x"] + left["width"] <= right["x"]
    assert pixels(tab, "#map-given")[0] > 500
    last = pixels(tab, "#matrix")
    tab.locator("#round").fill("0")
    assert tab.locator("#round-name").inner_text() == "given graph"
    assert pixels(tab, "#matrix") != last


def test_a_cell_of_the_confusion_matrix_filters_map_and_table(open_page):
    tab = open_page()
    before = pixels(tab)
    cell = tab.locator("#confusion button").nth(1)
    count = int(cell.inner_text())
    cell.click()
    assert cell.get_attribute("aria-pressed") == "true"
    assert f"of {count} rows" in tab.locator("#table-count").inner_text()
    tab.wait_for_timeout(900)  # the page scrolls to the map
    assert 0 <= tab.locator("#map-title").bounding_box()["y"] < 100
    assert pixels(tab)[0] < before[0] / 2  # most links are gone, too
    tab.locator("#clear-filter").click()
    assert "of 120 rows" in tab.locator("#table-count").inner_text()
    assert pixels(tab) == before


def test_the_table_sorts_filters_and_pages(open_page):
    tab = open_page()
    column = "#node-rows tr td:nth-child(4)"
    shown = [float(text.split()[0]) for text in tab.locator(column).all_inner_texts()]
    assert shown == sorted(shown)
    tab.locator("th[data-column=confidence] button").click()
    turned = [float(text.split()[0]) for text in tab.locator(column).all_inner_texts()]
    assert turned == sorted(turned, reverse=True)
    tab.locator("#table-on").click()
    assert "21 to 40" in tab.locator("#table-count").inner_text()
    tab.locator("#table-kind").select_option("next")
    ranked = [tab.words["ids"][node] for node in tab.words["next"]]
    assert tab.locator("#node-rows th").all_inner_texts() == ranked[:20]
    tab.locator("#table-kind").select_option("all")
    tab.locator("th[data-column=own-0] button").click()
    ages = [int(text) for text in tab.locator("#node-rows td:nth-child(8)").all_inner_texts()]
    assert ages == sorted(ages)
    tab.locator("#table-text").fill("node-11")
    assert tab.locator("#node-rows tr").count() == 11  # 11 and 110 to 119


def test_dark_follows_the_reader_and_print_is_light_without_controls(open_page):
    tab = open_page()
    ground = "getComputedStyle(document.body).backgroundColor"
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    before = pixels(tab)
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(ground) == "rgb(20, 22, 26)"
    assert pixels(tab) != before
    tab.emulate_media(media="print", color_scheme="dark")
    tab.wait_for_timeout(300)
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator("#search").is_visible()
    assert len(tab.pdf(prefer_css_page_size=True)) > 50_000


SPLIT_WORDS = """(places) => {
  const [walk, split] = [document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), []];
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (!node.parentElement.closest(places)) continue;
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) split.push(word[0]);
    }
  }
  return split;
}"""


def test_no_word_is_broken_inside(open_page, make_page, tmp_path):
    names = ("Case_Based", "Probabilistic_Methods", "Reinforcement_Learning")
    page, path = make_page(), tmp_path / "page.html"
    judged = dataclasses.replace(page.evaluation, classes=np.array(names))
    path.write_text(render(dataclasses.replace(page, class_names=names, evaluation=judged)))
    tab = open_page(path=path)
    tab.mouse.click(*place_of(tab, 3))
    for width in (360, 768, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_timeout(200)
        assert tab.evaluate(SPLIT_WORDS, "h2, h3, th, #legend, #panel, .verdict, .methods") == []


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed; make browser")
def test_axe_finds_nothing_serious(open_page):
    tab = open_page()
    tab.mouse.click(*place_of(tab, 3))
    for summary in tab.locator("summary").all():
        if summary.is_visible():
            summary.click()
    tab.evaluate(AXE.read_text(encoding="utf-8"))
    for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 360)):
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 900})
        found = tab.evaluate("axe.run().then((r) => r.violations.map((v) => [v.id, v.impact]))")
        assert [name for name, impact in found if impact in ("serious", "critical")] == []


@pytest.mark.slow
def test_a_page_of_pubmeds_size_is_small_soon_there_and_fluent(open_page, files):
    tab = open_page(LARGE)
    assert (files / f"{LARGE}.html").stat().st_size < 6_000_000
    assert float(tab.locator("html").get_attribute("data-ready-ms")) < 5000
    tab.locator("#map-learned").scroll_into_view_if_needed()
    tab.evaluate(
        """() => {
          window.frames_ms = [];
          let last = performance.now();
          const next = (now) => {
            window.frames_ms.push(now - last);
            last = now;
            requestAnimationFrame(next);
          };
          requestAnimationFrame(next);
        }"""
    )
    box = tab.locator("#map-learned").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.down()
    for step in range(30):
        tab.mouse.move(box["x"] + box["width"] / 2 + 3 * step, box["y"] + box["height"] / 2)
    tab.mouse.up()
    times = sorted(tab.evaluate("window.frames_ms"))
    assert times[len(times) // 2] < 50
    tab.locator("#search").fill("node-19716")
    tab.keyboard.press("Enter")
    assert tab.locator("#panel h3").inner_text() == "node-19716"


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(browser, make_page, tmp_path):
    page = ReportPage(render(make_page()))
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><title>n</title>{page._repr_html_()}", encoding="utf-8")
    tab = browser.new_page(viewport={"width": 1000, "height": 900})
    tab.goto(path.as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator(READY).wait_for(state="attached", timeout=30_000)
    assert frame.locator("#node-rows tr").count() == 20
    frame.locator("nav a[href='#nodes']").click()
    tab.wait_for_timeout(900)
    assert abs(frame.locator("#nodes-title").bounding_box()["y"]) < 200
    with tab.expect_download() as waiting:
        frame.locator("#card-save").click()
    assert waiting.value.suggested_filename.endswith(".md")
    tab.close()
