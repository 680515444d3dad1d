"""``glnn report``: make the page of a run again."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; by default report.html in the run folder.")
    ] = None,
) -> None:
    """Make the page of a run again, to explore it in a browser; no network is needed."""
    from glnn.data.files import atomic_write
    from glnn.report.page.document import render
    from glnn.report.page.stored import read_page

    html = render(read_page(run / "page.npz"))
    path = run / "report.html" if out is None else out
    with atomic_write(path) as file:
        file.write(html)
    typer.echo(str(path))
