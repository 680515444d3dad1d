"""The studio's page, put together from the parts of the package, and its widget for notebooks.

Map, panel and colours are those of the report page; both only differ in how they reach the session.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from glnn._utils import import_optional
from glnn.exceptions import GlnnError
from glnn.report.page.document import hash_sources, inline_script, read_parts, read_style

# of the parts of the report page's script, those that the studio does not need
_REPORT_ONLY = ("search", "controls", "confusion", "table", "matrix", "charts", "main")
_OWN_PARTS = ("links", "row", "curve", "atlas", "studio")

Session = Any  # a LabelSession, whose module imports this one


def _read(name: str) -> str:
    return (files("glnn.studio") / "templates" / name).read_text(encoding="utf-8")


def _read_script(last: str) -> str:
    own = (_read(f"js/{name}.js") for name in (*_OWN_PARTS, last))
    return "\n".join([read_parts(without=_REPORT_ONLY), *own])


def studio_style() -> str:
    """Return the style sheet: that of the report page, then the studio's own rules."""
    return read_style() + _read("studio.css")


@cache
def page_script() -> str:
    """Return the script of the page, in one function so that no name becomes global."""
    return inline_script('"use strict";\n(() => {\n' + _read_script("page") + "})();\n")


@cache
def page_html() -> str:
    """Return the page; it is the same for every session, whose data it asks for."""
    parts = {"style": studio_style(), "body": _read("studio.html"), "script": page_script()}
    return Template(_read("page.html")).substitute(parts)


@cache
def page_policy() -> str:
    """Return the content security policy of the page: its own script and style, its own server."""
    rules = (
        "default-src 'none'",
        f"script-src {hash_sources([page_script()])}",
        f"style-src {hash_sources([studio_style()])}",
        "connect-src 'self'",
        "img-src data:",  # the empty icon
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # no text becomes markup
    )
    return "; ".join(rules)


@cache
def widget_script() -> str:
    """Return the script of the widget as a module, with markup and style as texts in it."""
    texts = {"STYLE": studio_style(), "BODY": _read("studio.html")}
    declared = (f"const {name} = {json.dumps(text)};" for name, text in texts.items())
    return "\n".join([*declared, _read_script("widget")])


# The widget: the script in a shadow root, its messages to the session


def make_widget(session: Session) -> Any:
    """Return a widget that shows a session and labels its rows; see :meth:`LabelSession.widget`.

    The script asks ``{"number", "want", "message"}`` and gets ``{"number", "answer"}`` or
    ``{"number", "error"}``. A message without a number says that something has changed.
    """
    base = import_optional("anywidget").AnyWidget

    class StudioWidget(base):  # type: ignore[misc]
        """A session in a notebook."""

        _esm = widget_script()

        def __init__(self) -> None:
            super().__init__()
            self._forget = session.listen(lambda: self.send({}))
            self.on_msg(lambda _, content, __: self.send(answer(session, content)))

        def close(self) -> None:
            """Take the widget away; the session stays open."""
            forget, self._forget = self._forget, lambda: None
            forget()
            super().close()

    return StudioWidget()


def answer(session: Session, content: Any) -> dict[str, Any]:
    """Return the answer to a message of the script; what fails becomes one line."""
    asked = content if isinstance(content, Mapping) else {}
    calls: dict[str, Callable[[], Any]] = {
        "act": lambda: session.act(asked.get("message", {})),
        "map": session.map_data,
        "labels": session.labels_csv,
    }
    try:
        return {"number": asked.get("number"), "answer": calls[str(asked.get("want"))]()}
    except GlnnError as error:
        words = str(error)
    except Exception as error:
        words = f"the session failed: {type(error).__name__}: {error}"
    return {"number": asked.get("number"), "error": words}
