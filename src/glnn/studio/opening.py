"""Open the data of a session: a table, a frame, a run folder or an earlier session.

Frames are stored in the folder of the session, so that it opens again by itself.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data import TableOptions
from glnn.data.arguments import align_graph, resolve_row_names
from glnn.data.encode import is_frame
from glnn.data.files import make_folder, quote_path, safe_file_name, write_file
from glnn.data.table_text import is_placeholder
from glnn.exceptions import InputError
from glnn.graph.convert import as_adjacency
from glnn.report.predict import DataDescription
from glnn.report.results import read_results
from glnn.report.sources import NO_GRAPH, Source
from glnn.studio.journal import NAME, Journal

_TABLE, _EDGES = "table.csv", "edges.csv"  # of data in memory


def choose_folder(data: Any, folder: str | Path | None) -> Path:
    """Return the folder of a session."""
    if folder is not None:
        return Path(folder)
    if isinstance(data, str | Path) and Path(data).is_dir():
        return Path(data)
    given = data.name if isinstance(data, Source) else data
    name = Path(given).name.split(".")[0] if isinstance(given, str | Path) else "data"
    return Path("runs") / f"{safe_file_name(name)}-studio"


def open_source(data: Any, folder: Path, graph: Any, label: Any, options: dict[str, Any]) -> Source:
    """Return the source of a session's data; the caller has locked the folder."""
    if isinstance(data, Source):
        return data
    if isinstance(data, str | Path):
        place = Path(data)
        if (place / NAME).is_file():
            entries = Journal(place / NAME).entries
            if entries:
                how = entries[0]["source"]
                return _restore_source(how, TableOptions(**how["options"]), place)
        if (place / "data.json").is_file():
            found = DataDescription.read(place)
            return _restore_source(found.source, found.options, place)
        name = str(place.resolve()) if place.exists() else str(data)
    else:
        name, graph, label = _store(data, folder, graph, label)
    if graph is not None and not isinstance(graph, str | Path):
        raise InputError("graph must be a file if the data are one, got a graph in memory.")
    table = TableOptions(drop_constant=True, label_column=label).replace(**options)
    return Source(name, graph=None if graph is None else Path(graph).resolve(), options=table)


def _restore_source(how: dict[str, Any], options: TableOptions, folder: Path) -> Source:
    """Return the source that a run or a journal names; data of the session are in its folder."""
    inside = folder / how["name"]
    name = str(inside) if inside.is_file() else how["name"]
    graph = None if how["graph"] is None else Path(how["graph"])
    if graph is not None and graph != NO_GRAPH:
        graph = folder / graph
    labels = None if how["labels"] is None else Path(how["labels"])
    return Source(name, labels, graph, options)


def describe_place(source: Source, folder: Path) -> dict[str, Any]:
    """Return how to open a source again; files in the folder have their name alone."""
    how = source.describe() | {"options": dataclasses.asdict(source.options)}
    for key in ("name", "graph"):
        if how[key] is not None and Path(how[key]).parent == folder.resolve():
            how[key] = Path(how[key]).name
    return how


def initial_labels(source: Source) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the labels of the data by row id, and the classes; placeholders are no labels."""
    data, is_exact = source.data, source.options.exact_labels
    names = [n for n in data.class_names if is_exact or not (n == "-1" or is_placeholder(n))]
    known = data.splits.get("train", data.labelled)
    labels = {str(data.node_ids[k]): data.class_names[data.labels[k]] for k in known.tolist()}
    return {row: name for row, name in labels.items() if name in names}, tuple(names)


def run_labels(data: Any) -> dict[str, str]:
    """Return the labels that the fit of a run folder has seen, by row id; none for other data."""
    if not isinstance(data, str | Path) or not (Path(data) / "results.npz").is_file():
        return {}
    results = read_results(Path(data))
    names, ids = results.class_names, results.ids.astype(str)
    return {ids[k]: names[results.labels[k]] for k in np.flatnonzero(results.seen)}


# Frames in memory


def _store(data: Any, folder: Path, graph: Any, label: Any) -> tuple[str, Path | None, str | None]:
    """Write a frame to the folder; return its file, that of the graph, the label column."""
    if not is_frame(data):
        raise InputError(
            f"data must be a file, a data set's name or a DataFrame, got {type(data).__name__}. "
            "Give pandas.DataFrame(data)."
        )
    make_folder(folder)
    frame, names = data.copy(), resolve_row_names(data)
    if label is not None and not isinstance(label, str):
        frame["label"], label = list(label), "label"
    if "id" not in frame:
        frame.insert(0, "id", np.arange(len(frame)) if names is None else names)
    path = _write_once(folder / _TABLE, frame.to_csv(index=False, lineterminator="\n"))
    if graph is None:
        return str(path), None, label
    matrix = as_adjacency(align_graph(graph, names, len(frame)), len(frame))
    ids, upper = frame["id"].to_numpy(), sp.triu(matrix, k=1, format="coo")
    ends = {"source": ids[upper.row], "target": ids[upper.col]}
    edges = pd.DataFrame({**ends, "weight": upper.data})
    text = edges.to_csv(index=False, lineterminator="\n")
    return str(path), _write_once(folder / _EDGES, text), label


def _write_once(path: Path, text: str) -> Path:
    """Write a file, or check that the one that is there has this text."""
    if not path.exists():
        write_file(path, text)
    elif path.read_text(encoding="utf-8") != text:
        raise InputError(
            f"{quote_path(path)} must hold the data that the session began with, got other data. "
            "Name another folder."
        )
    return path.resolve()
