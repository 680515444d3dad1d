"""Writing records, graphs and predictions as tables with the nodes' own ids."""

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glnn.data.arrays import upper_pairs
from glnn.data.files import atomic_write, shown_path
from glnn.data.node_data import NodeData
from glnn.exceptions import InputError

SPECIAL_COLUMNS = ("id", "label", "split")


def edges_beside(path: Path) -> Path:
    """Return where the edges of a table are kept: ``people.csv`` has ``people.edges.csv``.

    Examples
    --------
    >>> edges_beside(Path("people.csv")).name
    'people.edges.csv'
    """
    return path.with_suffix(f".edges{path.suffix}")


def write_node_table(data: NodeData, path: Path) -> None:
    """Write id, features, label and split as one table, and the edges as a second one beside it.

    Text is written as it is, so that ids and labels come back unchanged. A cell that begins with
    ``=``, ``+``, ``-`` or ``@`` is a formula to a spreadsheet; see docs/data.md.
    """
    clash = [name for name in data.column_names if name in SPECIAL_COLUMNS]
    if clash:
        raise InputError(f"feature_names must not be {clash[0]!r} in a table. Rename the feature.")
    beside = edges_beside(path)
    if data.graph is None and beside.exists():
        raise InputError(
            f"{shown_path(beside)} must not be there, or it would be read as the graph of "
            f"{path.name}. Remove it, or choose another name."
        )
    if path.suffix.lower() == ".parquet":
        _write_parquet(data, path, beside)
        return
    header = ["id", *data.column_names, "label", *(["split"] if data.splits else [])]
    write_rows(path, itertools.chain([header], _rows(data)))
    if data.graph is not None:
        write_edge_table(beside, data.graph, data.node_ids)


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV, or as TSV by the suffix, whole or not at all."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with atomic_write(path) as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerows(rows)


def write_edge_table(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write source, target and weight of each edge once."""
    names = [str(node) for node in ids]
    rows, columns, weights = upper_pairs(graph)
    pairs = zip(rows.tolist(), columns.tolist(), weights)
    lines = ((names[i], names[j], str(w)) for i, j, w in pairs)
    write_rows(path, itertools.chain([("source", "target", "weight")], lines))


def _label_texts(data: NodeData) -> list[str]:
    return [data.class_names[label] if label >= 0 else "" for label in data.labels]


def _split_texts(data: NodeData) -> list[str]:
    texts = np.full(data.n_nodes, "", dtype="<U5")
    for key, nodes in data.splits.items():
        texts[nodes] = key
    return texts.tolist()


def _rows(data: NodeData) -> Iterator[list[str]]:
    features, labels = data.features, _label_texts(data)
    splits = [[text] for text in _split_texts(data)] if data.splits else [[]] * data.n_nodes
    for row, node in enumerate(data.node_ids):
        cells = ["0"] * data.n_features
        start, end = features.indptr[row], features.indptr[row + 1]
        for column, value in zip(features.indices[start:end], features.data[start:end]):
            cells[column] = str(value)
        yield [str(node), *cells, labels[row], *splits[row]]


def _write_parquet(data: NodeData, path: Path, beside: Path) -> None:
    from glnn.data.parquet import write_parquet

    by_column = data.features.tocsc()
    columns: dict[str, Any] = {"id": data.node_ids}
    for place, name in enumerate(data.column_names):
        columns[name] = by_column[:, [place]].toarray().ravel()
    columns["label"] = _label_texts(data)
    if data.splits:
        columns["split"] = _split_texts(data)
    write_parquet(path, columns)
    if data.graph is not None:
        rows, targets, weights = upper_pairs(data.graph)
        ids = data.node_ids
        ends = {"source": ids[rows], "target": ids[targets], "weight": weights}
        write_parquet(beside, ends)
