"""Edge lists from tables or plain text, with nodes named by their ids."""

import re
import unicodedata
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.files import check_file, quote, quote_path, quote_some, read_text, wrap_parse_errors
from glnn.data.node_data import symmetric_from_pairs
from glnn.data.table_files import NAMED_SUFFIXES, TABLE_SUFFIXES, read_first_row, read_frame
from glnn.data.table_text import (
    DEFAULT_OPTIONS,
    TableOptions,
    find_column,
    list_names,
    table_suffix,
    to_numbers,
    to_text,
)
from glnn.exceptions import DataFormatError, InputError

SOURCE_NAMES = ("source", "from", "src", "node1", "id1", "u", "i", "head", "sender", "citing")
TARGET_NAMES = ("target", "to", "dst", "node2", "id2", "v", "j", "tail", "receiver", "cited")
WEIGHT_NAMES = ("weight", "w", "value", "weights", "strength", "similarity", "count", "frequency")

# sources, targets, weights if any, and notes on the columns
EdgeColumns = tuple[list[str], list[str], np.ndarray | None, tuple[str, ...]]


# Ids in a file


def id_finder(index: Collection[str]) -> Callable[[str], str]:
    """Return a function from a text to the known id that it stands for, else to itself.

    Blanks around an id, ``.0`` and how accents are stored do not count if no id is the same.

    Examples
    --------
    >>> find_id = id_finder(["a", "7"])
    >>> find_id(" a "), find_id("7.0"), find_id("b"), id_finder(["7.0", "7"])("7.0")
    ('a', '7', 'b', '7.0')
    """
    plain: dict[str, str] = {}

    def simplify(text: str) -> str:
        return unicodedata.normalize("NFC", re.sub(r"(?<=\d)\.0+$", "", text.strip()))

    def find(text: str) -> str:
        if text in index:
            return text
        if not plain:
            plain.update({simplify(known): known for known in index} | {k: k for k in index})
        return plain.get(simplify(text), text)

    return find


def match_ids(texts: Iterable[str], index: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
    """Return the row of each id, -1 where it is unknown, and the different unknown ids."""
    found = list(map(id_finder(index), texts))
    rows = np.array([index.get(text, -1) for text in found], dtype=np.int64)
    return rows, list(dict.fromkeys(text for text in found if text not in index))


def describe_unknown(ids: Sequence[str]) -> str:
    """Return the number of unknown ids, and the first three."""
    return f"{len(ids)} unknown {'id' if len(ids) == 1 else 'ids'} ({quote_some(ids)})"


def refuse_unknown(path: Path, ids: Sequence[str], on_unknown: str, known: Iterable[str]) -> None:
    """Raise an error if there are unknown ids and they are not to be dropped."""
    if ids and on_unknown == "error":
        error = InputError(
            f"{quote_path(path)} must name only ids that the features have, such as "
            f"{quote(next(iter(known)))}, got {describe_unknown(ids)}. Correct the ids, name "
            "their column in the table with --id, or drop those lines with on_unknown='drop' "
            "(--set on_unknown=drop)."
        )
        error.add = "--set on_unknown=drop"
        raise error


# Edges


@dataclass(frozen=True)
class EdgeReport:
    """Counts of edges that were dropped or merged when an edge list became a graph."""

    n_rows: int  # edges in the list
    n_dropped: int  # edges with an unknown id
    n_self_loops: int
    n_repeated: int  # edges that occur again, in either direction
    unknown: Sequence[str]  # these ids
    notes: tuple[str, ...] = ()  # on the columns of the list

    def lines(self) -> Iterator[str]:
        """Yield sentences on the columns and on edges that were left out or merged."""
        yield from self.notes
        if self.unknown:
            yield f"graph: left out {describe_unknown(self.unknown)}, {self.n_dropped} edges"
        if self.n_self_loops:
            yield f"graph: left out {self.n_self_loops} self loops"
        if self.n_repeated:
            yield f"graph: merged {self.n_repeated} repeated edges"


def read_edges(
    path: str | Path, index: Mapping[str, int], options: TableOptions = DEFAULT_OPTIONS
) -> tuple[sp.csr_matrix, EdgeReport]:
    """Read an edge list between known nodes; return the symmetric graph and a report.

    Tables have the columns source, target and optionally weight (:func:`find_edge_columns`); any
    other file is read as text with two or three words per line. ``index`` maps the text of an id
    to the number of its node. ``options`` say how to read a table, and whether edges with an id
    that is not in ``index`` are dropped.
    """
    path = Path(path)
    *ends, weights, notes = _read_columns(path, index, options)
    rows, unknown = match_ids((text for pair in zip(*ends) for text in pair), index)
    refuse_unknown(path, unknown, options.on_unknown, index)
    i, j = rows[::2], rows[1::2]
    known = (i >= 0) & (j >= 0)
    n_unknown = int((~known).sum())
    known &= weights is None or weights > 0  # weight 0 means no edge
    weights = None if weights is None else weights[known]
    graph = symmetric_from_pairs(i[known], j[known], len(index), weights)
    n_loops, n_known = int((i == j)[known].sum()), int(known.sum())
    report = EdgeReport(
        n_rows=len(i),
        n_dropped=n_unknown,
        n_self_loops=n_loops,
        n_repeated=n_known - n_loops - int(graph.nnz) // 2,
        unknown=unknown,
        notes=notes if len(i) else (f"graph: {path.name} has no edges",),
    )
    return graph, report


def read_edge_list(path: str | Path) -> tuple[sp.csr_matrix, list[str]]:
    """Read an edge list; return the symmetric graph and its ids, in order of appearance."""
    path = Path(path)
    source, target, weights, _ = _read_columns(path, {}, DEFAULT_OPTIONS)
    texts = [text for pair in zip(source, target) for text in pair]
    index = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    if not index:
        raise DataFormatError(f"{quote_path(path)} must hold at least one edge, got none.")
    rows = np.array([index[text] for text in texts])
    return symmetric_from_pairs(rows[::2], rows[1::2], len(index), weights), list(index)


def _read_edge_table(path: Path, index: Mapping[str, int], options: TableOptions) -> EdgeColumns:
    first = read_first_row(path, options)
    if len(first) < 2:
        raise DataFormatError(f"{quote_path(path)} must have two columns of ids, got {len(first)}.")
    has_names = table_suffix(path) in NAMED_SUFFIXES or _is_header(first, index)
    weight = 2 if len(first) > 2 and options.weight_column != "none" else None
    weight = _find_weight(first, options) if has_names else weight
    frame = read_frame(
        path,
        options,
        select_text=lambda names: [name for k, name in enumerate(names) if k != weight],
        header=has_names,
    )
    columns: Any = 0, 1, weight, ()
    if has_names:
        columns = find_edge_columns(quote_path(path), frame, index, options)
    elif len(first) > 3:
        raise DataFormatError(
            f"{quote_path(path)} must have two ids, or two ids and a weight, on every line, got "
            f"{len(first):,} columns without names. Turn a matrix into a list of edges; name the "
            "columns of a list."
        )
    return _extract_columns(path, frame, *columns)


def _is_header(first_row: Sequence[str], index: Mapping[str, int]) -> bool:
    """Whether the first row is a header: it has the usual column names or no known id."""
    names, find_id = [name.strip().lower() for name in first_row[:2]], id_finder(index)
    if any(cell in index for cell in first_row[:2]):
        return False
    usual = names[0] in SOURCE_NAMES and names[1] in TARGET_NAMES
    return usual or (len(index) > 0 and not any(find_id(cell) in index for cell in first_row[:2]))


def find_edge_columns(
    where: str, frame: pd.DataFrame, known: Container[str], options: TableOptions = DEFAULT_OPTIONS
) -> tuple[int, int, int | None, tuple[str, ...]]:
    """Return the positions of source, target and weight, and notes on a guess.

    The options may name them. Otherwise they have usual names (``from``, ``from_id``), or source
    and target are the first two columns with ids that are ``known``, or simply the first two.
    """
    names = [str(name).strip() for name in frame.columns]
    low = [name.lower() for name in names]  # without ``id``, as in ``from_id``:
    plain = [n.removesuffix("id").rstrip(" _-.") if len(n) > 3 else n for n in low]
    weight = _find_weight(names, options)
    free = [k for k in range(len(names)) if k != weight]
    ends: list[int | None] = []
    for end, usual in (("source", SOURCE_NAMES), ("target", TARGET_NAMES)):
        named = find_column(where, names, getattr(options, f"{end}_column"), None, f"--{end}")
        by_name = next((plain.index(name) for name in usual if name in plain), None)
        ends.append(by_name if named is None else names.index(named))
    notes = []
    if None in ends:
        rest, ends_missing = [k for k in free if k not in ends], ends.count(None)
        texts = {k: to_text(frame.iloc[:, k]) for k in rest}
        like = [k for k in rest if texts[k] and 2 * sum(t in known for t in texts[k]) >= len(frame)]
        guesses = iter(like + [k for k in rest if k not in like])
        ends = [next(guesses, None) if end is None else end for end in ends]
        is_doubtful = len(like) > ends_missing
        if is_doubtful or [k for k in ends if k is not None] != [0, 1]:
            listed = " and ".join(quote(names[k]) for k in ends if k is not None)
            notes.append(f"graph: edges join {listed}; --source and --target name other columns")
    i, j = ends
    if i is None or j is None or i == j:
        raise DataFormatError(
            f"{where} must have two columns of ids, got {quote_some(names, 8)}. Name them "
            "with --source and --target."
        )
    is_named = options.weight_column is not None
    if weight is not None and not is_named and plain[weight] not in WEIGHT_NAMES[:3]:
        notes.append(f"graph: weights from {quote(names[weight])}; --weight none leaves them out")
    unused = [names[k] for k in free if k not in (i, j)]
    if unused:
        listed = list_names("graph: columns not used:", unused)
        notes.append(f"{listed}; --weight names a column of weights")
    return i, j, weight, tuple(notes)


def _find_weight(names: Sequence[str], options: TableOptions) -> int | None:
    if options.weight_column is not None:
        if options.weight_column == "none" and "none" not in names:
            return None
        found = find_column("the edge list", names, options.weight_column, None, "--weight")
        return None if found is None else names.index(found)
    low = [name.strip().lower() for name in names]
    taken = {name for name in (options.source_column, options.target_column) if name is not None}
    return next((low.index(n) for n in WEIGHT_NAMES if n in low and n not in taken), None)


def _extract_columns(
    path: Path, frame: pd.DataFrame, i: int, j: int, w: int | None, notes: tuple[str, ...] = ()
) -> EdgeColumns:
    source, target = to_text(frame.iloc[:, i]), to_text(frame.iloc[:, j])
    if w is None:
        return source, target, None, notes
    weights = to_numbers(frame.iloc[:, w])
    got = "text"
    if weights is not None:
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if not bad.size:
            return source, target, weights, notes
        got = f"{weights[bad[0]]:g} for edge {bad[0] + 1}"
    raise DataFormatError(
        f"weights of {quote_path(path)} must be finite numbers of at least 0, got {got}. "
        "Correct it, or leave the weights out with --weight none."
    )


def _read_columns(path: Path, index: Mapping[str, int], options: TableOptions) -> EdgeColumns:
    """Read a table, or lines of words, split at tabs if any, else at blanks.

    # and % start a comment. The line may end with ``{}``, as networkx writes it, and the first one
    may have names. A file without tabs and blanks is read as a table.
    """
    if table_suffix(path) in TABLE_SUFFIXES:
        return _read_edge_table(path, index, options)
    check_file(path)
    with wrap_parse_errors(path, "edge list"):
        lines = [line for line in read_text(path).splitlines() if line.strip()]
        lines = [line.strip().removesuffix("{}") for line in lines if line[:1] not in "#%"]
        rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    rows = rows[1:] if len(rows) > 1 and _is_header(rows[0], index) else rows
    if rows and all(len(row) == 1 for row in rows):
        return _read_edge_table(path, index, options)
    widths = {len(row) for row in rows}
    if len(widths) > 1 or widths - {2, 3}:
        raise DataFormatError(
            f"{quote_path(path)} must have two ids, or two ids and a weight, on every line, got "
            f"lines of {', '.join(map(str, sorted(widths)[:4]))} words."
        )
    if not rows:
        return [], [], None, ()
    frame = pd.DataFrame(rows, dtype=object)
    weight = 2 if widths == {3} and options.weight_column != "none" else None
    return _extract_columns(path, frame, 0, 1, weight)
