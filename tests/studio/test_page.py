"""The studio's page in Chromium, with made-up answers; the last tests learn from real ones."""

import csv
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from glnn.studio import LabelSession
from glnn.studio.page import page_html, page_script

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = '<img src=x onerror="window.ran = 1"><script>window.ran = 1</script>'
CURVE = [
    {"kind": kind, "n_labels": n, "value": 1 - 3 / n, "low": 1 - 6 / n, "high": 1 - 1 / n}
    for kind, n in (("checked", 8), ("checked", 20), ("full", 20))
]


@pytest.fixture
def studio(make_session, start_server, open_tab):
    """Return a function that serves a session, made up if none is given, and opens its page."""

    def opened(session=None, **size):
        opened.session = session or make_session()
        opened.url = start_server(opened.session).url
        return open_tab(opened.url, **size)

    opened.again = open_tab
    return opened


def wait_for(tab, place, words):
    """Wait until an element has these words; the page's policy forbids Playwright's functions."""
    api.expect(tab.locator(place)).to_contain_text(words, timeout=60_000)


def press(tab, key):
    """Press a key and wait until the row that it was about is gone."""
    row = tab.locator("#row-title").inner_text()
    tab.keyboard.press(key)
    api.expect(tab.locator("#row-title")).not_to_have_text(row, timeout=60_000)
    tab.wait_for_timeout(20)
    return row


def pixels(tab):
    """Return a sum over the map that changes with any pixel, when it is drawn."""
    tab.wait_for_selector("#map-learned[data-drawn=sharp]")
    tab.wait_for_timeout(250)
    return tab.evaluate(
        """() => {
          const canvas = document.querySelector("#map-learned");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return data.reduce((sum, value) => (sum * 31 + value) % 1e9, 0);
        }"""
    )


def test_a_card_shows_why_values_chances_and_neighbours(studio):
    tab = studio()
    assert tab.locator("#row-title").inner_text() == "row 0"
    assert tab.locator("#kind").inner_text() == "Proposed next"
    assert tab.locator("#reason").inner_text() == "its classes are close"
    assert tab.locator("#values dd").all_inner_texts() == ["12.5", "clay"]
    assert tab.locator(".choice b").all_inner_texts() == ["ash", "birch", "oak"]
    assert "70 %" in tab.locator(".choice[aria-current=true]").inner_text()
    assert tab.locator("#near button").all_inner_texts() == ["row 1", "row 2"]


def test_the_keyboard_alone_suffices(studio):
    tab = studio()
    session = studio.session
    assert press(tab, "2") == "row 0"
    assert press(tab, "s") == "row 1"
    assert press(tab, "u") == "row 2"
    assert tab.locator("#status").inner_text().startswith("row 2 marked")
    tab.keyboard.press("n")
    assert tab.evaluate("document.activeElement.id") == "class-name"
    tab.keyboard.type("3 elms s")
    press(tab, "Enter")
    assert session.now.labels == {"row 0": "birch", "row 3": "3 elms s"}
    assert (list(session.now.skipped), list(session.now.unsure)) == (["row 1"], ["row 2"])
    assert tab.locator(".choice b").all_inner_texts()[-1] == "3 elms s"
    press(tab, "4")
    assert session.now.labels["row 4"] == "3 elms s"
    words = tab.locator("#counts").inner_text()
    assert words == "3 of 60 rows labelled, 1 skipped, 1 cannot tell"
    for row in ("row 4", "row 3", "row 2"):
        press(tab, "z")
        assert tab.locator("#row-title").inner_text() == row
    tab.keyboard.press("Escape")
    wait_for(tab, "#kind", "Proposed next")
    assert session.now.labels == {"row 0": "birch"}
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    tab.keyboard.press("1")  # in the list of keys a key is no answer
    tab.keyboard.press("Escape")
    assert not tab.locator("#help").is_visible()
    assert session.now.labels == {"row 0": "birch"}


def test_the_next_row_is_shown_when_keys_count_for_it(studio):
    tab, held = studio(), []

    def hold(route):
        if '"label"' in route.request.post_data and not held:
            held.append((route, route.fetch()))
        else:
            route.continue_()

    tab.route("**/act", hold)
    first = tab.locator("#row-title").inner_text()
    tab.keyboard.press("1")
    wait_for(tab, "#counts", "1 of 60 rows labelled")  # by the news, before the answer
    assert tab.locator("#row-title").inner_text() == first
    (route, answer), *_ = held
    route.fulfill(response=answer)
    api.expect(tab.locator("#row-title")).not_to_have_text(first, timeout=60_000)
    press(tab, "1")
    wait_for(tab, "#counts", "2 of 60 rows labelled")


def test_a_row_that_was_asked_for_is_shown_though_newer_news_came_first(studio):
    tab, held = studio(), []
    press(tab, "1")

    def hold(route):
        if '"card"' in route.request.post_data:
            held.append((route, route.fetch()))
        else:
            route.continue_()

    tab.route("**/act", hold)
    tab.keyboard.press("z")
    while not held:
        tab.wait_for_timeout(10)
    for row in ("row 7", "row 8"):
        studio.session.act({"act": "label", "id": row, "value": "oak"})
    wait_for(tab, "#counts", "2 of 60 rows labelled")
    (route, answer), *_ = held
    route.fulfill(response=answer)
    wait_for(tab, "#row-title", "row 0")


def test_news_that_were_asked_for_before_an_undo_leave_the_row_that_it_shows(studio):
    tab, held = studio(), []
    tab.locator("#near button").first.click()
    wait_for(tab, "#row-title", "row 1")
    press(tab, "1")

    def hold(route):
        if '"state"' in route.request.post_data and not held:
            held.append(route)
        else:
            route.continue_()

    tab.route("**/act", hold)
    studio.session.fit["n_labels"] = 77
    studio.session.notify()
    while not held:
        tab.wait_for_timeout(10)
    press(tab, "z")
    wait_for(tab, "#row-title", "row 1")
    held[0].continue_()
    wait_for(tab, "#fit", "learned from 77 labels")
    wait_for(tab, "#row-title", "row 1")


def test_the_focus_is_seen_and_every_control_is_reached_by_tab(studio):
    tab = studio()
    tab.wait_for_selector("#map-learned")  # the map comes a little later than the row
    reached = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.append(
            tab.evaluate(
                """() => [document.activeElement.id,
                          getComputedStyle(document.activeElement).outlineStyle]"""
            )
        )
    wanted = {"estimate", "save", "keys", "skip", "unsure", "new", "mode", "map-learned"}
    assert wanted <= {name for name, _ in reached}
    assert {style for name, style in reached if name} == {"solid"}


def test_ten_classes_have_keys_and_digits_have_their_own(studio, make_session):
    names = [f"class {k}" for k in range(12)]
    tab = studio(make_session(classes=names))
    shown = tab.locator(".choice kbd").all_text_contents()
    assert shown == [*"1234567890", "", ""]
    press(tab, "0")
    assert studio.session.now.labels == {"row 0": "class 9"}
    tab = studio(make_session(classes=("0", "7", "1")))
    assert tab.locator(".choice kbd").all_text_contents() == ["0", "1", "7"]
    press(tab, "7")
    assert studio.session.now.labels == {"row 0": "7"}


def test_a_row_of_the_map_or_a_neighbour_is_looked_at_and_labelled(studio):
    tab = studio()
    tab.locator("#near button").nth(1).click()
    wait_for(tab, "#row-title", "row 2")
    assert tab.locator("#kind").inner_text() == "Chosen by you"
    press(tab, "3")
    assert studio.session.now.labels == {"row 2": "oak"}
    tab.locator("#map-learned").focus()
    tab.keyboard.press("Enter")
    wait_for(tab, "#kind", "Chosen by you")
    tab.locator("#back").click()
    wait_for(tab, "#kind", "Proposed next")


def test_a_label_in_doubt_is_kept_by_the_key_of_skip(studio, make_session):
    session = make_session()
    plain = session.card

    def card(name, kind, reason):
        return plain(name, "second look" if name == "row 0" else kind, reason)

    session.card = card
    tab = studio(session)
    assert tab.locator("#kind").inner_text() == "A label in doubt"
    assert tab.locator("#skip").inner_text().startswith("Keep the label")
    press(tab, "s")
    assert tab.locator("#skip").inner_text().startswith("Skip")
    assert session.acts[-1]["act"] == "skip" or session.acts[-2]["act"] == "skip"


def test_the_map_marks_labels_at_once_and_follows_fits(studio):
    tab = studio()
    before = pixels(tab)
    assert "given label" not in tab.locator("#legend").inner_text()
    press(tab, "1")
    wait_for(tab, "#legend", "given label")
    after = pixels(tab)
    assert after != before
    tab.locator("#mode").select_option("truth")
    wait_for(tab, "#legend", "ash (1)")
    session = studio.session
    session.class_names = ("birch", "oak", "ash")
    session.fit_version += 1
    session.notify()
    tab.locator("#mode").select_option("predicted")
    api.expect(tab.locator("#legend li").first).to_contain_text("birch")


def test_the_fit_the_verdict_and_the_curve_change(studio):
    tab = studio()
    session = studio.session
    assert tab.locator("#fit").inner_text() == "learned from 3 labels in 0.4 s"
    assert not tab.locator("#curve").is_visible()
    session.fit = session.fit | {"running": "full"}
    session.notify()
    wait_for(tab, "#fit", "learning the full model")
    session.fit = session.fit | {"running": "", "error": "a class must have two labels."}
    session.verdict, session.curve = "about 85 % right", CURVE
    session.notify()
    wait_for(tab, "#fit-problem", "failed: a class must have two labels.")
    assert tab.locator("#verdict").text_content() == "about 85\N{NO-BREAK SPACE}% right"
    assert tab.locator("#curve .checked circle").count() == 2
    assert tab.locator("#curve .full circle").count() == 1
    assert tab.locator("#curve .kinds").is_visible()
    assert tab.locator("#curve svg").get_attribute("aria-label").startswith("85 % right with 20")
    tab.keyboard.press("f")
    tab.wait_for_timeout(200)
    assert session.acts[-1]["act"] == "fit" or session.acts[-2]["act"] == "fit"


def test_two_tabs_agree(studio):
    first = studio()
    second = studio.again(studio.url)
    assert press(first, "1") == "row 0"
    wait_for(second, "#row-title", "row 1")
    assert "1 of 60" in second.locator("#counts").inner_text()
    second.locator("#near button").first.click()
    wait_for(second, "#row-title", "row 2")
    press(first, "2")
    wait_for(second, "#counts", "2 of 60")
    assert second.locator("#row-title").inner_text() == "row 2"  # the row that is looked at stays
    press(second, "3")
    wait_for(first, "#row-title", "row 3")
    assert studio.session.now.labels == {"row 0": "ash", "row 1": "birch", "row 2": "oak"}


def test_what_the_session_refuses_is_shown_and_the_row_stays(studio, open_tab):
    tab = studio()
    session = studio.session
    session.ids = [f"row {k}" for k in range(1, 60)]
    tab.keyboard.press("1")
    wait_for(tab, "#problem", "id must be that of a row")
    assert tab.locator("#row-title").inner_text() == "row 0"
    assert "422" in open_tab.wrong.pop()


def test_a_server_that_has_ended_is_said(make_session, start_server, open_tab):
    server = start_server(make_session())
    tab = open_tab(server.url)
    tab.wait_for_selector("#map-learned")  # a connection that opens during the end is never closed
    server.stop()
    wait_for(tab, "#problem", "The studio does not answer. All labels so far are kept")
    assert all("ERR_" in words for words in open_tab.wrong)
    open_tab.wrong.clear()


def test_script_in_ids_cells_classes_and_labels_is_text(studio, make_session):
    ids = [f"{HOSTILE} {k}" for k in range(30)]
    session = make_session(
        ids=ids, classes=(HOSTILE, "</script>", "{{7*7}}"), texts=[(HOSTILE, HOSTILE)] * 20
    )
    session.verdict = session.fit["error"] = HOSTILE
    tab = studio(session)
    assert tab.locator("#row-title").inner_text() == ids[0]
    press(tab, "1")
    tab.keyboard.press("n")
    tab.keyboard.type(f"new {HOSTILE}")
    press(tab, "Enter")
    tab.locator("#more summary").click()
    tab.locator("#near button").first.click()
    tab.locator("#map-learned").hover(position={"x": 200, "y": 200})
    tab.locator("#map-learned").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_timeout(300)
    assert list(session.now.labels.values()) == [HOSTILE, f"new {HOSTILE}"]
    assert tab.evaluate("window.ran") is None
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 1


def test_a_script_that_is_not_the_pages_own_does_not_run(studio, open_tab):
    tab = studio()
    tab.evaluate(
        """() => {
          const script = document.createElement("script");
          try { script.textContent = "window.ran = true"; } catch { return; }
          document.body.append(script);
        }"""
    )
    assert tab.evaluate("window.ran") is None
    reason = "() => { try { document.body.innerHTML = '<b>x</b>'; } catch { return 'refused'; } }"
    assert tab.evaluate(reason) == "refused"
    assert any("TrustedScript" in words or "trusted" in words.lower() for words in open_tab.wrong)
    open_tab.wrong.clear()


def test_text_never_becomes_markup_in_the_scripts():
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page_script()
    )
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:,|#)""", page_html())


def test_no_width_scrolls_sideways_or_leaves_the_map_out(studio, make_session):
    long = [("a long name of a column " * 3, "a long value " * 9), ("x" * 90, "y" * 200)]
    session = make_session(classes=("ash", "b" * 90, "oak"), texts=long * 9)
    session.curve = CURVE
    tab = studio(session, width=360)
    press(tab, "1")
    for width in (360, 768, 1000, 1400, 1900, 2560):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_timeout(150)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        boxes = {name: tab.locator(name).bounding_box() for name in ("#row", "#map", "#quality")}
        assert min(box["width"] for box in boxes.values()) > 300
        right = max(box["x"] + box["width"] for box in boxes.values())
        assert right > 0.96 * width


def test_dark_follows_the_reader(studio):
    tab = studio()
    before = pixels(tab)
    tab.emulate_media(color_scheme="dark")
    ground = "getComputedStyle(document.querySelector('#studio')).backgroundColor"
    assert tab.evaluate(ground) == "rgb(20, 22, 26)"
    assert pixels(tab) != before


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed; make browser")
def test_axe_finds_nothing_serious(studio, browser, make_session):
    session = make_session(texts=[(f"column {k}", f"{k}.5") for k in range(30)])
    session.curve, session.fit["error"] = CURVE, "a class must have two labels."
    tab = studio(session)
    press(tab, "1")
    tab.keyboard.press("n")
    tab.evaluate(AXE.read_text(encoding="utf-8"))
    for scheme, width in (("light", 1400), ("dark", 1400), ("dark", 360)):
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 900})
        found = tab.evaluate("axe.run().then((r) => r.violations.map((v) => [v.id, v.impact]))")
        assert [name for name, impact in found if impact in ("serious", "critical")] == []


def test_twenty_thousand_rows_stay_fluent(studio, make_session):
    tab = studio(make_session(20_000))
    pixels(tab)
    tab.evaluate(
        """() => {
          window.long = [];
          new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) window.long.push(entry.duration);
          }).observe({ type: "longtask" });
        }"""
    )
    for _ in range(5):
        press(tab, "1")
    tab.wait_for_timeout(500)
    assert max(tab.evaluate("window.long"), default=0) < 500
    assert "5 of 20,000" in tab.locator("#counts").inner_text()


# With a session that learns


def write_table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def open_session(start_server):
    """Return a function that opens a session and serves it; all are closed when the test ends."""
    opened = []

    def open_one(*args, **named):
        session = LabelSession(*args, params={"n_epochs": 8}, **named)
        opened.append(session)
        return session, start_server(session)

    yield open_one
    for session in opened:
        session.close()


def give(tab, value, classes):
    """Label the row that is shown by keys alone."""
    row = tab.locator("#row-title").inner_text()
    if value in classes:
        tab.keyboard.press(value)
    else:
        tab.keyboard.press("n")
        tab.keyboard.type(value)
        tab.keyboard.press("Enter")
    api.expect(tab.locator("#row-title")).not_to_have_text(row, timeout=60_000)
    tab.wait_for_timeout(20)
    return row


def test_thirty_digits_are_labelled_undone_closed_opened_and_saved(
    open_session, open_tab, tmp_path
):
    digits = load_digits()
    n_rows = 240
    truth = {f"d{k}": str(value) for k, value in enumerate(digits.target[:n_rows])}
    head = ["id", *(f"p{k}" for k in range(64))]
    rows = [[f"d{k}", *pixels] for k, pixels in enumerate(digits.data[:n_rows].astype(int))]
    table = write_table(tmp_path / "digits.csv", [head, *rows])
    session, server = open_session(table, tmp_path / "session")
    tab = open_tab(server.url)
    wait_for(tab, "#verdict", "no estimate yet")
    assert not tab.locator("#curve").is_visible()
    steps = [{}]
    while len(steps) <= 30:
        row = tab.locator("#row-title").inner_text()
        assert give(tab, truth[row], set(session.labels.values())) == row
        steps.append(dict(session.labels))
        assert session.labels[row] == truth[row]
    session.request_fit("checked")
    assert session.wait(60.0)
    now = session.state()
    assert now["verdict"] != "no estimate yet"
    assert now["curve"][-1]["n_labels"] == len(session.labels)
    wait_for(tab, "#verdict", now["verdict"].replace(" %", "\N{NO-BREAK SPACE}%"))
    api.expect(tab.locator("#curve circle")).not_to_have_count(0)
    for back in (2, 3):
        press(tab, "z")
        assert session.labels == steps[-back]
    kept = dict(session.labels)
    wait_for(tab, "#counts", f"{len(kept)} of {n_rows}")
    curve = tab.locator("#curve circle").count()
    verdict = tab.locator("#verdict").inner_text()
    tab.close()
    server.stop()
    session.close()

    session, server = open_session(tmp_path / "session")
    tab = open_tab(server.url)
    wait_for(tab, "#counts", f"{len(kept)} of {n_rows}")
    assert tab.locator("#curve circle").count() == curve
    assert tab.locator("#verdict").inner_text() == verdict
    with tab.expect_download() as waiting:
        tab.locator("#save").click()
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert waiting.value.suggested_filename == "labels.csv"
    assert lines[0] == "id,label"
    assert dict(line.split(",") for line in lines[1:]) == kept


def test_script_in_a_table_is_text_on_the_page(open_session, open_tab, tmp_path):
    rng = np.random.default_rng(0)
    head = ["id", "size", f"kind {HOSTILE}", "label"]
    rows = [
        [f"{HOSTILE}{k}", rng.normal(3 * (k % 2)), HOSTILE if k % 2 else "plain", ""]
        for k in range(40)
    ]
    for k, row in enumerate(rows[:8]):
        row[-1] = f"{HOSTILE} class" if k % 2 else "birch"
    table = write_table(tmp_path / "hostile.csv", [head, *rows])
    session, server = open_session(table, tmp_path / "session", background=False)
    tab = open_tab(server.url)
    session.fit("quick")
    wait_for(tab, "#fit", "learned from 8 labels")
    wait_for(tab, "#choices", f"{HOSTILE} class")
    assert HOSTILE in tab.locator("#row-title").inner_text()
    assert HOSTILE in tab.locator("#values").inner_text()
    press(tab, "1")
    tab.locator("#near button").first.click()
    wait_for(tab, "#kind", "Chosen by you")
    tab.locator("#map-learned").hover(position={"x": 200, "y": 200})
    assert tab.evaluate("window.ran") is None
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 1
