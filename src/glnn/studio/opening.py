"""Open the data of a session: a table, data in memory, a run folder or an earlier session."""

from pathlib import Path
from typing import Any

from glnn.data import TableOptions
from glnn.data.files import safe_file_name
from glnn.data.table_text import is_placeholder
from glnn.exceptions import InputError
from glnn.report.sources import Source
from glnn.studio.journal import NAME, Journal


def open_source(
    data: Any, folder: Any, graph: Any, label: Any, options: dict[str, Any]
) -> tuple[Source, Path]:
    """Return the source of a session's data and the folder of the session."""
    place = None if folder is None else Path(folder)
    if isinstance(data, str | Path) and (Path(data) / NAME).is_file():
        return _open_session(Path(data)), Path(data)
    if not isinstance(data, str | Path):
        raise InputError(f"data must be a path, got {type(data).__name__}.")
    how = TableOptions(drop_constant=True, label_column=label).replace(**options)
    source = Source(_as_path(data), graph=None if graph is None else Path(graph), options=how)
    return source, place or Path("runs") / f"{safe_file_name(source.data.name)}-studio"


def _as_path(data: str | Path) -> str:
    return str(Path(data).resolve()) if Path(data).exists() else str(data)


def describe_source(source: Source) -> dict[str, Any]:
    """Return how to open a source again, ready for JSON."""
    graph = None if source.graph is None else str(source.graph.resolve())
    return {"name": source.name, "graph": graph, "options": source.options.to_dict()}


def _open_session(folder: Path) -> Source:
    """Return the source that the journal of a session names."""
    journal = Journal(folder / NAME)
    journal.close()
    how = journal.entries[0]["source"]
    graph = None if how["graph"] is None else Path(how["graph"])
    return Source(how["name"], graph=graph, options=TableOptions(**how["options"]))


def initial_labels(source: Source) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the labels of the data by row id, and the classes; placeholders are no labels."""
    data = source.data
    exact = source.options.exact_labels
    names = [n for n in data.class_names if exact or not (n == "-1" or is_placeholder(n))]
    known = data.splits.get("train", data.labelled)
    labels = {str(data.node_ids[k]): data.class_names[data.labels[k]] for k in known.tolist()}
    return {row: name for row, name in labels.items() if name in names}, tuple(names)
