"""Edge lists with the nodes' own ids, from tables or plain text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.files import check_file, parsing, read_text, shown, shown_path
from glnn.data.node_data import symmetric_from_pairs
from glnn.data.table_files import TABLE_SUFFIXES, first_row, read_frame
from glnn.data.table_text import AS_FOUND, TableFormat, as_numbers, as_text
from glnn.exceptions import DataFormatError, InputError

SOURCE_NAMES = ("source", "from", "src", "node1", "id1", "u", "i", "head")
TARGET_NAMES = ("target", "to", "dst", "node2", "id2", "v", "j", "tail")
WEIGHT_NAMES = ("weight", "w", "value")

EdgeColumns = tuple[list[str], list[str], np.ndarray | None]
"""Sources, targets and, where there are any, weights."""


@dataclass(frozen=True)
class UnknownIds:
    """Ids that some file names and the features do not have: how many, and the first three."""

    count: int = 0
    first: tuple[str, ...] = ()

    @classmethod
    def of(cls, ids: Mapping[str, None]) -> "UnknownIds":
        """Sum up distinct ids, given as the keys of a mapping in order of appearance."""
        return cls(len(ids), tuple(list(ids)[:3]))

    def __str__(self) -> str:
        noun = "id" if self.count == 1 else "ids"
        more = ", ..." if self.count > len(self.first) else ""
        return f"{self.count} unknown {noun} ({', '.join(map(shown, self.first))}{more})"


NO_UNKNOWN = UnknownIds()


@dataclass(frozen=True)
class EdgeReport:
    """What was left out or merged on the way from an edge list to an undirected graph."""

    n_rows: int
    n_dropped: int
    n_self_loops: int
    n_repeated: int
    unknown: UnknownIds


def refuse_unknown(unknown: UnknownIds, path: Path) -> InputError:
    """Return the error that tells of unknown ids and offers the choice."""
    return InputError(
        f"{shown_path(path)} must name only ids that the features have, got {unknown}. "
        "Correct the ids, or leave those lines out with on_unknown='drop' (--on-unknown drop)."
    )


def read_edges(
    path: str | Path,
    index: Mapping[str, int],
    *,
    on_unknown: str = "error",
    form: TableFormat = AS_FOUND,
) -> tuple[sp.csr_matrix, EdgeReport]:
    """Read an edge list between known nodes.

    Parameters
    ----------
    path
        CSV, TSV, Excel or Parquet with source, target and perhaps weight; any other suffix is
        read as text with two or three words a line.
    index
        From the text of an id to the node's number.
    on_unknown
        ``"error"`` or ``"drop"``, for edges that name an id which is not in ``index``.
    form
        How the text of a table is written.

    Returns
    -------
    tuple
        The symmetric graph, and what was dropped or merged.
    """
    path = Path(path)
    source, target, weight = _read_columns(path, index, form)
    unknown = {text: None for pair in zip(source, target) for text in pair if text not in index}
    if unknown and on_unknown == "error":
        raise refuse_unknown(UnknownIds.of(unknown), path)
    i = np.array([index.get(text, -1) for text in source], dtype=np.int64)
    j = np.array([index.get(text, -1) for text in target], dtype=np.int64)
    known = (i >= 0) & (j >= 0)
    weights = None if weight is None else _checked_weights(path, weight)[known]
    graph = symmetric_from_pairs(i[known], j[known], len(index), weights)
    n_loops = int((i == j)[known].sum())
    n_known = int(known.sum())
    report = EdgeReport(
        n_rows=len(source),
        n_dropped=len(source) - n_known,
        n_self_loops=n_loops,
        n_repeated=n_known - n_loops - int(graph.nnz) // 2,
        unknown=UnknownIds.of(unknown),
    )
    return graph, report


def read_edge_list(path: str | Path) -> tuple[sp.csr_matrix, list[str]]:
    """Read a graph on its own: nodes are the ids the list names, in order of appearance.

    Returns
    -------
    tuple
        The symmetric graph and the ids of its nodes.
    """
    path = Path(path)
    source, target, weight = _read_columns(path, {}, AS_FOUND)
    index: dict[str, int] = {}
    for pair in zip(source, target):
        for text in pair:
            index.setdefault(text, len(index))
    if not index:
        raise DataFormatError(f"{shown_path(path)} must hold at least one edge, got none.")
    i = np.array([index[text] for text in source], dtype=np.int64)
    j = np.array([index[text] for text in target], dtype=np.int64)
    weights = None if weight is None else _checked_weights(path, weight)
    return symmetric_from_pairs(i, j, len(index), weights), list(index)


def _checked_weights(path: Path, weights: np.ndarray) -> np.ndarray:
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataFormatError(
            f"weights of {shown_path(path)} must be finite and at least 0, got "
            f"{weights[bad[0]]:g} for edge {int(bad[0]) + 1}."
        )
    return weights


def _read_columns(path: Path, index: Mapping[str, int], form: TableFormat) -> EdgeColumns:
    if path.suffix.lower() in TABLE_SUFFIXES:
        return _from_table(path, index, form)
    return _from_text(path)


def _from_table(path: Path, index: Mapping[str, int], form: TableFormat) -> EdgeColumns:
    first = first_row(path, form)
    if len(first) < 2:
        raise DataFormatError(f"{shown_path(path)} must have two columns of ids, got {len(first)}.")
    names = [name.strip().lower() for name in first]
    has_names = path.suffix.lower() == ".parquet" or _is_header(first, index)
    i, j, w = edge_places(names) if has_names else (0, 1, 2 if len(names) > 2 else None)
    frame = read_frame(
        path, form, as_text=lambda columns: {columns[i], columns[j]}, header=has_names
    )
    return _columns(path, frame, i, j, w)


def _is_header(first_row: Sequence[str], index: Mapping[str, int]) -> bool:
    """Say whether a first line names columns: it uses the usual names or names no node."""
    names = [name.strip().lower() for name in first_row[:2]]
    if any(cell in index for cell in first_row[:2]):
        return False
    usual = names[0] in SOURCE_NAMES and names[1] in TARGET_NAMES
    return usual or bool(index)


def edge_places(names: Sequence[str]) -> tuple[int, int, int | None]:
    """Source, target and weight column: by their usual names, else the first three."""
    i = next((names.index(name) for name in SOURCE_NAMES if name in names), 0)
    j = next((names.index(name) for name in TARGET_NAMES if name in names), 1)
    if i == j:
        i, j = 0, 1
    return i, j, next((names.index(name) for name in WEIGHT_NAMES if name in names), None)


def _columns(path: Path, frame: pd.DataFrame, i: int, j: int, w: int | None) -> EdgeColumns:
    source, target = as_text(frame.iloc[:, i]), as_text(frame.iloc[:, j])
    if w is None:
        return source, target, None
    weights = as_numbers(frame.iloc[:, w])
    if weights is None:
        raise DataFormatError(
            f"the weight column of {shown_path(path)} must hold numbers, got text."
        )
    return source, target, weights


def _from_text(path: Path) -> EdgeColumns:
    """Words of each line, split at tabs if there are any, else at blanks; # starts a comment."""
    check_file(path)
    with parsing(path, "edge list"):
        lines = [line for line in read_text(path).splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith("#")]
        rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    widths = {len(row) for row in rows}
    if len(widths) > 1 or widths - {2, 3}:
        raise DataFormatError(
            f"{shown_path(path)} must have two ids, or two ids and a weight, on every line, got "
            f"lines of {', '.join(map(str, sorted(widths)[:4]))} words."
        )
    if not rows:
        return [], [], None
    return _columns(path, pd.DataFrame(rows, dtype=object), 0, 1, 2 if widths == {3} else None)
