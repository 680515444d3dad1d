"""Writing records, graphs and predictions as tables with the nodes' own ids."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from glnn.data.arrays import upper_pairs
from glnn.data.files import atomic_write, shown_path
from glnn.data.node_data import NodeData
from glnn.data.optional import need
from glnn.exceptions import InputError

SPECIAL_COLUMNS = ("id", "label", "split")
_BATCH_CELLS = 4_000_000


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
    refuse_special_names(data, "a table")
    beside = edges_beside(path)
    if data.graph is None and beside.exists():
        raise InputError(
            f"{shown_path(beside)} must not be there, or it would be read as the graph of "
            f"{path.name}. Remove it, or choose another name."
        )
    write_frames(path, _frames(data))
    if data.graph is not None:
        write_edge_table(beside, data.graph, data.node_ids)


def refuse_special_names(data: NodeData, what: str) -> None:
    """Refuse features that bear the name of a column with a meaning of its own."""
    clash = [name for name in data.column_names if name in SPECIAL_COLUMNS]
    if clash:
        raise InputError(f"feature_names must not be {clash[0]!r} in {what}. Rename the feature.")


def write_edge_table(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write source, target and weight of each edge once."""
    rows, columns, weights = upper_pairs(graph)
    names = np.asarray(ids)
    frame = pd.DataFrame({"source": names[rows], "target": names[columns], "weight": weights})
    write_frames(path, [frame])


def write_frames(path: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Write the rows of frames one after the other, whole or not at all, by the path's suffix."""
    if path.suffix.lower() == ".parquet":
        arrow, parquet = need("pyarrow"), need("pyarrow.parquet")
        with atomic_write(path, "wb") as file:
            tables = (arrow.Table.from_pandas(frame, preserve_index=False) for frame in frames)
            first = next(tables)
            with parquet.ParquetWriter(file, first.schema, write_page_checksum=True) as writer:
                writer.write_table(first)
                for table in tables:
                    writer.write_table(table)
        return
    mark = "\t" if path.suffix.lower() == ".tsv" else ","
    with atomic_write(path) as file:
        for place, frame in enumerate(frames):
            frame.to_csv(file, sep=mark, index=False, header=place == 0, lineterminator="\r\n")


def label_texts(data: NodeData) -> list[str]:
    """Return the class name of each node, empty text where it is unknown."""
    return [data.class_names[label] if label >= 0 else "" for label in data.labels]


def split_texts(data: NodeData) -> list[str]:
    """Return the part of the split that each node is in, empty text where it is in none."""
    texts = np.full(data.n_nodes, "", dtype="<U5")
    for key, nodes in data.splits.items():
        texts[nodes] = key
    return texts.tolist()


def _frames(data: NodeData) -> Iterator[pd.DataFrame]:
    """Yield the record as frames of some rows each, so that no dense copy of all is made."""
    size = max(1, _BATCH_CELLS // data.n_features)
    labels, splits = label_texts(data), split_texts(data)
    for start in range(0, data.n_nodes, size):
        rows = slice(start, start + size)
        frame = pd.DataFrame(data.features[rows].toarray(), columns=list(data.column_names))
        frame.insert(0, "id", data.node_ids[rows])
        frame["label"] = labels[rows]
        yield frame.assign(split=splits[rows]) if data.splits else frame
