"""The studio's page and its widget's script, put together from the parts of the package.

Map, panel and colours are those of the report page; both only differ in how they reach the session.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

from glnn.report.page.document import hash_sources, inline_script, read_parts, read_style

REPORT_PARTS = (
    "bytes", "model", "state", "colours", "grid", "view", "edges", "nodes", "scene", "pane",
    "pointer", "map", "panel", "save",
)  # fmt: skip
PARTS = ("links", "row", "curve", "atlas", "studio")


@runtime_checkable
class Session(Protocol):
    """What page and widget need of a :class:`~glnn.studio.LabelSession`, which describes it."""

    def act(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Take a message, and return the state after it."""

    def map_data(self) -> str:
        """Return the data of the map."""

    def labels_csv(self) -> str:
        """Return the labels as CSV."""

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change; return what ends that."""


def _read(name: str) -> str:
    return (files("glnn.studio") / "templates" / name).read_text(encoding="utf-8")


def _read_script(last: str) -> str:
    own = (_read(f"js/{name}.js") for name in (*PARTS, last))
    return "\n".join([read_parts(REPORT_PARTS), *own])


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
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>glnn studio</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{studio_style()}</style>\n</head>\n<body>\n'
        f"{_read('studio.html')}<script>{page_script()}</script>\n</body>\n</html>\n"
    )


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
    texts = (f"const {name} = {json.dumps(text)};" for name, text in _widget_texts())
    return "\n".join([*texts, _read_script("widget")])


def _widget_texts() -> tuple[tuple[str, str], ...]:
    return ("STYLE", studio_style()), ("BODY", _read("studio.html"))
