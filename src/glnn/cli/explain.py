"""``glnn explain``: why a node of a run got its class."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from glnn.cli import options as given

EXAMPLES = """[bold]Examples[/bold]

glnn explain runs/people-default-0 ann  [dim]# her links, and what made them[/dim]

glnn explain runs/people-default-0 ann --json > ann.json"""


def explain(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    node: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a node of the run.", show_default=False)
    ],
    links: Annotated[int, typer.Option(min=0, help="Links to show.")] = 10,
    labels: Annotated[int, typer.Option(min=0, help="Labelled nodes to show.")] = 10,
    as_json: given.AsJson = False,
) -> None:
    """Say why a node got its class: its links and what made them, and the labels that speak."""
    from rich.console import Console

    from glnn.report.explained import explain_node, heading, link_table, voice_table
    from glnn.report.words import RAW

    found = explain_node(run, node, n_links=links, n_labels=labels)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
        return
    console = Console()
    plain: Any = {"markup": False, "highlight": False}
    console.print(heading(found), **plain)
    if not found.is_calibrated:
        console.print(f"{RAW[:1].upper()}{RAW[1:]}.", **plain)
    console.print(link_table(found))
    console.print(voice_table(found))
    columns = ", ".join(f"{name} {value:.4f}" for name, value in found.explanation.columns.items())
    if columns:
        console.print(f"Columns that made its links: {columns}.", **plain)
