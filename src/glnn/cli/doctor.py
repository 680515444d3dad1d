"""``glnn doctor``: what is installed, what can compute, where data lie."""

from rich.console import Console
from rich.table import Table


def doctor() -> None:
    """Check this installation: versions, devices, data folders, optional packages."""
    from glnn.report.health import health_rows

    table = Table(show_header=False, box=None, pad_edge=False)
    for state, subject, words in health_rows():
        mark = {"ok": "[green]ok[/green]", "note": "[yellow]--[/yellow]", "bad": "[red]!![/red]"}
        table.add_row(mark[state], subject, words)
    Console().print(table)
