"""``glnn data``: list, describe, fetch and convert data sets."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from glnn.cli import options as opt

app = typer.Typer(help="List, describe, fetch and convert data sets.", no_args_is_help=True)


@app.command("list")
def list_sets() -> None:
    """List the data sets with their sizes, and which of them are on this machine."""
    from glnn.data.datasets import BUILT_IN, DATASETS, data_folders

    table = Table("name", "nodes", "edges", "features", "classes", "here", "what", box=None)
    for info in DATASETS.values():
        found = any((folder / f"{info.name}.npz").is_file() for folder in data_folders())
        here = "built in" if info.name in BUILT_IN else "yes" if found else "fetch"
        sizes = (info.n_nodes, info.n_edges, info.n_features, info.n_classes)
        table.add_row(info.name, *map(str, sizes), here, info.about)
    opt.make_console().print(table)


@app.command()
@opt.with_options
def info(source: Any) -> None:
    """Describe a data set: sizes, classes, split, homophily, origin and licence."""
    from glnn.data.files import one_line
    from glnn.data.formats import iter_summary

    data = source.data
    question = source.suggest_label() if data.n_classes == 0 else None
    if question is not None:
        typer.echo(f"glnn: note: {question}", err=True)
    table = Table(show_header=False, box=None, pad_edge=False)
    for key, value in iter_summary(data):
        table.add_row(f"{one_line(key)}:", one_line(value, limit=2000))
    console = opt.make_console()
    console.print(table)
    if source.columns:
        from glnn.report.text import column_table

        console.print(column_table(source.columns))


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="cora, citeseer, pubmed, terrorattack, ...")],
    folder: Annotated[
        Path | None, typer.Option(help="Where to store it; by default in the user's cache.")
    ] = None,
) -> None:
    """Download a published data set, check it, and store it as npz."""
    from glnn.data.datasets import fetch_dataset

    path = fetch_dataset(name, folder=folder, show_progress=sys.stderr.isatty())
    typer.echo(f"{name} is in {path}")


@app.command()
@opt.with_options
def convert(source: Any, target: Path, overwrite: bool = False) -> None:
    """Convert data to another format, which is given by the suffix of OUT."""
    from glnn.data import write_data
    from glnn.data.table_files import edge_table_path
    from glnn.exceptions import InputError

    for path in (target, edge_table_path(target)):
        if path.exists() and not overwrite:
            raise InputError(f"{path} must not exist, got a file. Replace it with --overwrite.")
    data = source.data
    for note in source.notes:
        typer.echo(note)
    write_data(data, target)
    typer.echo(f"{data.n_nodes} nodes and {data.n_edges} edges in {target}")
