"""``glnn doctor``: what is installed, what can compute, where data lie."""

import json

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glnn.cli import options as given

_MARKS = {"ok": ("ok", "green"), "note": ("--", "yellow"), "bad": ("!!", "red")}


def doctor(as_json: given.AsJson = False) -> None:
    """Check this installation: versions, devices, data folders, and a fit of two seconds."""
    from glnn.report.health import health_rows

    rows = list(health_rows())
    if as_json:
        typer.echo(json.dumps([dict(zip(("state", "subject", "words"), row)) for row in rows]))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        for state, subject, words in rows:
            table.add_row(Text(*_MARKS[state]), Text(subject), Text(words))
        Console().print(table)
    if any(state == "bad" for state, _, _ in rows):
        raise typer.Exit(1)
