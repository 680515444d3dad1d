"""``glnn studio``: label rows on a page in the browser while a model learns from them."""

import dataclasses
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glnn.cli import options as opt

if TYPE_CHECKING:
    from glnn.report.sources import Source

EXAMPLES = """[bold]Examples[/bold]

glnn studio people.csv --label job  [dim]# opens a page; labels so far are in the column job[/dim]

glnn studio runs/people-studio  [dim]# continue where you stopped[/dim]

glnn studio digits --oracle label --budget 50  [dim]# how fast would it learn?[/dim]"""


@opt.with_options
def studio(
    source: Any,
    settings: Any,
    seed: int = 0,
    out: Path | None = None,
    port: int = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    oracle: str | None = None,
    budget: Annotated[int, typer.Option(min=2, help="Labels that the oracle gives.")] = 50,
    order: str = "suggested",
) -> None:
    """Label rows on a page: it proposes the next one, learns from each label, and shows the map."""
    from glnn.data.formats import check_source
    from glnn.exceptions import InputError

    check_source(source.name)
    reading = source.options.replace(drop_constant=True)
    if oracle is not None and reading.label_column is not None:
        raise InputError("--oracle must come without --label, got both: it begins without labels.")
    if oracle is not None and source.is_table:
        reading = reading.replace(label_column=oracle)
    source = dataclasses.replace(source, options=reading)
    folder = Path(source.name)
    if any((folder / file).is_file() for file in ("journal.jsonl", "data.json")):
        if oracle is not None:
            raise InputError("--oracle must come with a table or a data set, got a folder.")
        source = str(folder)  # of a session or of a run, which names its data
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does
    try:
        if oracle is not None:
            _run_oracle(source, out, settings, seed, budget, order)
            return
        from glnn.report.text import format_count
        from glnn.studio import LabelSession
        from glnn.studio.server import serve

        with LabelSession(source, out, params=settings, seed=seed) as session:
            typer.echo(f"The session is kept in {session.folder}")
            serve(session, port, browser, typer.echo)
        count, place = format_count(len(session.labels), "label"), str(session.folder)
        typer.echo(f"{count} in {place}; to go on: glnn studio {shlex.quote(place)}")
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_oracle(
    source: "Source", out: Path | None, params: dict[str, Any], seed: int, budget: int, order: str
) -> None:
    """Print the learning curve of an oracle as CSV, and write it to the folder if one is named."""
    import tempfile

    from glnn.data.files import write_file
    from glnn.studio import LabelSession
    from glnn.studio.oracle import hide_labels, run_oracle

    hidden, truth = hide_labels(source)
    lines = ["n_labels,accuracy"]
    typer.echo(lines[0])
    with tempfile.TemporaryDirectory() as other:
        place = out or Path(other) / "session"
        with LabelSession(hidden, place, params=params, seed=seed, background=False) as session:
            points = run_oracle(session, truth, budget=budget, order=order, seed=seed)
            for n_labels, accuracy in points:
                lines.append(f"{n_labels},{accuracy:.6g}")
                typer.echo(lines[-1])
        if out is not None:
            write_file(out / "curve.csv", "\n".join([*lines, ""]))
