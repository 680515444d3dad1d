"""The widget by its model in Python, and by the same script in Chromium.

JupyterLab itself is not started: it would bring some hundred packages and a second server for what
anywidget already tests, namely that a model's custom messages reach the script and come back. Here
the model is a small one in the browser whose messages go to the widget's own handler.
"""

import json
import sys

import pytest

from glnn.exceptions import MissingDependencyError
from glnn.studio.page import answer, make_widget, widget_script

pytest.importorskip("anywidget", reason="anywidget is not installed")

SHOW = """async (script) => {
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const { default: widget } = await import(address);
  window.hear = [];
  const model = {
    on: (_, heard) => window.hear.push(heard),
    off: (_, heard) => { window.hear = window.hear.filter((one) => one !== heard); },
    async send(content) {
      for (const text of await window.kernel(JSON.stringify(content))) {
        const message = JSON.parse(text);
        for (const heard of window.hear) heard(message);
      }
    },
  };
  const el = document.createElement("div");
  document.body.append(el);
  window.end = widget.render({ model, el });
}"""


@pytest.fixture
def shown(make_session):
    """A widget whose messages to the notebook are recorded."""
    widget = make_widget(make_session())
    sent = []

    def publish(_, data=None, **__):
        if data.get("method") == "custom":
            sent.append(data["content"])

    widget.comm.publish_msg = publish

    def ask(content):
        sent.clear()
        message = {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
        widget._handle_msg(message)
        return list(sent)

    widget.ask = ask
    yield widget
    widget.close()


def test_a_message_reaches_the_session_and_its_answer_the_notebook(make_session, shown):
    label = {"act": "label", "id": "row 1", "value": "oak"}
    news, came = shown.ask({"number": 7, "want": "act", "message": label})
    assert news == {}
    assert (came["number"], came["answer"]["counts"]["labelled"]) == (7, 1)
    (came,) = shown.ask({"number": 8, "want": "labels"})
    assert came["answer"] == "id,label\nrow 1,oak\n"


@pytest.mark.parametrize(
    "content",
    [
        {"number": 1, "want": "act", "message": {"act": "label", "id": "no row", "value": "x"}},
        {"number": 1, "want": "act", "message": {"act": "__init__"}},
        {"number": 1, "want": "close"},
        {"number": 1, "want": ["act"]},
        {"number": 1},
        [],
        None,
    ],
)
def test_what_cannot_be_done_is_one_line(make_session, content):
    came = answer(make_session(), content)
    assert set(came) == {"number", "error"}
    assert "\n" not in came["error"]


def test_a_closed_widget_hears_nothing_more(make_session):
    session = make_session()
    widget = make_widget(session)
    assert len(session.listeners) == 1
    widget.close()
    widget.close()
    assert session.listeners == []


def test_a_missing_package_is_one_line_that_names_the_extra(make_session, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingDependencyError, match=r"glnn\[notebook\]"):
        make_widget(make_session())


def test_the_script_labels_rows_in_a_shadow_root(shown, browser):
    api = pytest.importorskip("playwright.sync_api")
    tab = browser.new_page(viewport={"width": 900, "height": 900})
    wrong, asked = [], []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: said.type == "error" and wrong.append(said.text))

    def kernel(text):
        asked.append(json.loads(text))
        return [json.dumps(came) for came in shown.ask(asked[-1])]

    tab.expose_function("kernel", kernel)
    tab.evaluate(SHOW, widget_script())
    title = tab.locator("#row-title")
    api.expect(title).to_have_text("row 0")
    api.expect(tab.locator("#panes canvas")).to_be_visible()
    tab.keyboard.press("1")  # without the focus, a key belongs to the notebook
    tab.wait_for_timeout(100)
    api.expect(title).to_have_text("row 0")
    tab.locator(".choice").first.click()
    api.expect(title).to_have_text("row 1")
    tab.evaluate("document.addEventListener('keydown', ({ key }) => { window.key = key; })")
    tab.keyboard.press("2")
    api.expect(title).to_have_text("row 2")
    assert tab.evaluate("window.key") is None  # a key that the studio takes is not the notebook's
    tab.keyboard.press("x")
    assert tab.evaluate("window.key") == "x"
    api.expect(tab.locator("#counts")).to_have_text("2 of 60 rows labelled")
    api.expect(tab.locator("#legend")).to_contain_text("given label")
    tab.keyboard.press("z")
    api.expect(title).to_have_text("row 1")
    assert tab.evaluate("document.querySelector('div').shadowRoot.activeElement !== null")
    assert tab.evaluate("document.body.querySelectorAll('style, canvas').length") == 0
    tab.evaluate("window.end()")
    assert tab.evaluate("window.hear.length") == 0
    tab.close()
    assert wrong == []
