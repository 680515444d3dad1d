"""How records show themselves: one short line, and a small table in a notebook."""

import html
from collections.abc import Mapping


class Shown:
    """Mixed into a record, shows its ``_facts`` instead of all its arrays."""

    def _facts(self) -> Mapping[str, str]:
        """Return what to show, by name; the first value is the title."""
        raise NotImplementedError

    def __repr__(self) -> str:
        title, *rest = self._facts().items()
        facts = ", ".join(in_words(name, value) for name, value in rest)
        return f"{type(self).__name__}({title[1]}: {facts})"

    def _repr_html_(self) -> str:
        return html_table(self._facts())


def in_words(name: str, value: str) -> str:
    """Return a fact as a line has it: a number before its name, any other value after it.

    Examples
    --------
    >>> in_words("edges", "1,200"), in_words("edges", "none"), in_words("problem", "solved")
    ('1,200 edges', 'no edges', 'problem solved')
    """
    if value == "none":
        return f"no {name}"
    return f"{value} {name}" if value[:1].isdigit() else f"{name} {value}"


def html_table(facts: Mapping[str, object]) -> str:
    """Return facts as the rows of an HTML table, escaped.

    Examples
    --------
    >>> html_table({"a < b": 3})
    '<table><tr><th>a &lt; b</th><td>3</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"
