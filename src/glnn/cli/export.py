"""``glnn export``: the learned graph of a run for other programs."""

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """[bold]Examples[/bold]

glnn export runs/digits-default-0 --to gexf  [dim]# opens in Gephi[/dim]

glnn export runs/digits-default-0 --to csv --out tables"""


def export(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    to: Annotated[
        str, typer.Option(help="graphml, gexf, csv, npz or parquet.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the files; else export in the run folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace old files.")] = False,
) -> None:
    """Write nodes with class, probability and given label, and edges with weight and origin."""
    from glnn.report.export import export_page
    from glnn.report.page.stored import read_page

    folder = run / "export" if out is None else out
    for path in export_page(read_page(run / "page.npz"), folder, to, overwrite=overwrite):
        typer.echo(str(path))
