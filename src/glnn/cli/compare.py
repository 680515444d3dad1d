"""``glnn compare``: runs side by side."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glnn.cli import options as given

EXAMPLES = """[bold]Examples[/bold]

glnn compare runs/digits-default-0 runs/digits-paper-0  [dim]# same labels, other preset[/dim]

glnn compare runs/* --json > comparison.json"""


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders of glnn fit.")
    ],
    as_json: given.AsJson = False,
) -> None:
    """Put runs side by side: verdicts, paired differences, links they share."""
    from glnn.report.compare import compare_runs
    from glnn.report.tables import pair_table, run_table

    comparison = compare_runs(runs)
    if as_json:
        typer.echo(json.dumps(comparison.to_dict(), indent=2))
        return
    console = Console()
    console.print(run_table(comparison))
    console.print(pair_table(comparison))
