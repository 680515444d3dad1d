"""The page's scripts and style, and the policy that admits these scripts and no other."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

PARTS = (
    "bytes", "model", "state", "colours", "grid", "view", "edges", "nodes", "scene", "pane",
    "pointer", "map", "panel", "search", "controls", "confusion", "table", "csv", "matrix",
    "charts", "main",
)  # fmt: skip


def own_script() -> str:
    """Return the page's own parts as one script whose names stay its own."""
    folder = files("glnn.report.page") / "templates" / "js"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in PARTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def own_style() -> str:
    """Return the page's style sheet."""
    path = files("glnn.report.page") / "templates" / "page.css"
    return path.read_text(encoding="utf-8")


def policy(scripts: Sequence[str]) -> str:
    """Return the content policy: no request to anywhere, and only these scripts.

    Styles may be inline because Bokeh sets the places of its parts that way.

    Examples
    --------
    >>> policy(["let a"])[:66]
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(d).decode('ascii')}'" for d in digests)
    rules = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src {hashes}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def inline_script(text: str) -> str:
    """Return a script that may stand between its tags as it is.

    Examples
    --------
    >>> inline_script("a = 1;")
    'a = 1;'
    """
    plain = text.replace("\r\n", "\n")
    for ending in ("</script", "<!--"):
        if ending in plain.lower():
            raise ValueError(f"a script on the page must not contain {ending!r}.")
    return plain


def inline_json(value: Any) -> str:
    r"""Return JSON that no HTML parser reads as a tag.

    Examples
    --------
    >>> print(inline_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
