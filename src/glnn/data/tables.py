"""A person's own table: features, labels and edges from files with ids."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from glnn._utils import did_you_mean
from glnn.data.edges import NO_UNKNOWN, EdgeReport, UnknownIds, read_edges, refuse_unknown
from glnn.data.encode import TableEncoder
from glnn.data.files import parsing, shown, shown_path
from glnn.data.node_data import SPLIT_KEYS, NodeData, ids_from_text, no_values, sorted_class_names
from glnn.data.table_files import names_of, read_frame
from glnn.data.table_text import (
    DEFAULT,
    TableOptions,
    as_numbers,
    as_text,
    notes_on_thousands,
    stripped,
)
from glnn.exceptions import DataFormatError, InputError

# --- columns: Which column of a table is what: ids, labels, split, features

_LIKE_AN_ID = re.compile(r"(.*[\s_.-])?([iI][dD]|[uU][uU][iI][dD]|[gG][uU][iI][dD])|.*[a-z]I[dD]")
_LIKE_A_LABEL = re.compile(
    r"(class|target|outcome|status|group|category|species|diagnosis|churn(ed)?|y|type|kind)"
    r"|.*[\s_.-](class|label|target|status|category|group|type)"
)
_MAX_CLASSES = 30

Column = Callable[[str], pd.Series]


@dataclass(frozen=True)
class ColumnPlan:
    """What each column of a table is for.

    ``id``, ``label`` and ``split`` are ``None`` where there is no such column; ``notes`` tells
    what was decided without being asked.
    """

    id: str | None
    label: str | None
    split: str | None
    features: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str | None, ...]:
        """The columns that are no features and need no word."""
        return (self.id, self.label, self.split)


def text_columns(names: Sequence[str], options: TableOptions) -> set[str]:
    """Return the columns that are read as text whatever they hold."""
    wanted = {options.id_column, options.label_column, "label", "split"}
    return {name for name in names if name in wanted or _LIKE_AN_ID.fullmatch(name)}


def plan_columns(
    where: str, names: Sequence[str], column: Column, options: TableOptions, *, own_labels: bool
) -> ColumnPlan:
    """Say what each column is for.

    Parameters
    ----------
    where
        The table, for messages.
    names
        Its columns.
    column
        Returns the column of a name.
    options
        What the user asked for.
    own_labels
        Whether the labels stand in this table; ``False`` if they come from another file.
    """
    like_ids = [n for n in names if _LIKE_AN_ID.fullmatch(n) and _all_different(column(n))]
    id_column = find_column(where, names, options.id_column, "id", "the id column")
    notes = []
    if id_column is None and like_ids and options.label_column != like_ids[0]:
        id_column = like_ids[0]
        notes.append(f"ids: taken from the column {shown(id_column)}")
    wanted = options.label_column if own_labels else None
    label = find_column(where, names, wanted, "label", "the label column")
    if not own_labels and (label is not None or options.label_column in names):
        raise InputError(
            f"labels must come from one file, got a label column in {where} and a labels file. "
            "Remove one of them."
        )
    if id_column is not None and id_column == label:
        raise InputError(f"ids and labels must be two columns, got {shown(id_column)} twice.")
    split = "split" if "split" in names and _is_split(column("split")) else None
    rest = [name for name in names if name not in (id_column, label, split)]
    features = _chosen(where, rest, options)
    if not options.features:
        left = [name for name in features if name in like_ids]
        features = tuple(name for name in features if name not in left)
        notes += [f"features: left out {shown(name)}, another id in every row" for name in left]
    if not features:
        raise DataFormatError(f"{where} must have at least one feature column, got none.")
    return ColumnPlan(id_column, label, split, features, tuple(notes))


def find_column(
    where: str, names: Sequence[str], wanted: str | None, usual: str, what: str
) -> str | None:
    """Return the wanted column, or the usual one if none was asked for and it is there."""
    if wanted is None:
        return usual if usual in names else None
    if wanted not in names:
        raise InputError(
            f"{what} must be a column of {where}, got {shown(wanted)}.{_listed(names)}"
            f"{did_you_mean(wanted, names)}"
        )
    return wanted


def likely_label(names: Sequence[str], column: Column) -> str | None:
    """Return the column that looks most like labels, or nothing if none does.

    It has between 2 and 30 different values; a telling name, text and gaps speak for it.
    """
    best: tuple[int, str] | None = None
    for place, name in enumerate(names):
        cells = [cell for cell in stripped(column(name)) if cell]
        n_values = len(set(cells))
        if _LIKE_AN_ID.fullmatch(name) or not 2 <= n_values <= min(_MAX_CLASSES, len(cells) // 2):
            continue
        is_named = _LIKE_A_LABEL.fullmatch(name.lower()) is not None
        is_text = as_numbers(column(name)) is None
        has_gaps = len(cells) < len(column(name))
        score = 4 * is_named + 2 * is_text + has_gaps + (place == len(names) - 1)
        if score >= 2 and (best is None or score > best[0]):
            best = (score, name)
    return None if best is None else best[1]


def _chosen(where: str, names: Sequence[str], options: TableOptions) -> tuple[str, ...]:
    """Return the columns that the patterns choose, in the order of the table."""
    kept = _matching(where, names, options.features, "features") if options.features else set(names)
    kept -= _matching(where, names, options.drop, "drop")
    return tuple(name for name in names if name in kept)


def _matching(where: str, names: Sequence[str], patterns: Sequence[str], option: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        hits = {n for n in names if n == pattern or fnmatchcase(n, pattern)}
        if not hits:
            raise InputError(
                f"{option} must name columns of {where}, got {shown(pattern)}, which fits none."
                f"{_listed(names)}{did_you_mean(pattern, names)}"
            )
        found |= hits
    return found


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > 8 else ""
    return f" Its columns are {', '.join(map(shown, names[:8]))}{more}."


def _all_different(column: pd.Series) -> bool:
    return bool(column.is_unique and not column.isna().any() and not (column == "").any())


def _is_split(column: pd.Series) -> bool:
    return {"", *SPLIT_KEYS}.issuperset(stripped(column))


# --- tables: A person's own table: features, labels and edges from files with ids


@dataclass(frozen=True)
class TableReport:
    """What was left out, merged or encoded while reading; ``lines`` puts it in words.

    ``encoder`` turns new rows into the same features; ``readings`` are notes on cells that could
    be read in two ways.
    """

    encoder: TableEncoder
    columns: ColumnPlan
    unknown_label_ids: UnknownIds = NO_UNKNOWN
    edges: EdgeReport | None = None
    readings: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return one sentence for each thing the user should know."""
        return (
            *self.columns.notes,
            *self.readings,
            *self._left_out(),
            *self.encoder.notes(),
        )

    def _left_out(self) -> Iterator[str]:
        if self.unknown_label_ids.count:
            yield f"labels: left out {self.unknown_label_ids}"
        if self.edges is not None and self.edges.unknown.count:
            yield f"graph: left out {self.edges.unknown}, {self.edges.n_dropped} edges"
        if self.edges is not None and self.edges.n_self_loops:
            yield f"graph: left out {self.edges.n_self_loops} self loops"
        if self.edges is not None and self.edges.n_repeated:
            yield f"graph: merged {self.edges.n_repeated} repeated edges"


@dataclass(frozen=True)
class TableFiles:
    """The tables of one data set.

    Parameters
    ----------
    features
        One row for each node.
    labels
        A table of ids and labels; without it the label column of the features, if any.
    graph
        An edge list between ids.
    """

    features: Path
    labels: Path | None = None
    graph: Path | None = None

    @classmethod
    def of(
        cls, features: str | Path, labels: str | Path | None, graph: str | Path | None
    ) -> "TableFiles":
        """Take paths or their texts."""
        further = (None if path is None else Path(path) for path in (labels, graph))
        return cls(Path(features), *further)


def read_table_data(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    options: TableOptions = DEFAULT,
    **changes: Any,
) -> NodeData:
    """Read features, and perhaps labels and edges, from tables; see :func:`read_tables`."""
    return read_tables(features_path, labels_path, graph_path, options, **changes)[0]


def read_tables(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    options: TableOptions = DEFAULT,
    **changes: Any,
) -> tuple[NodeData, TableReport]:
    """Read a data set from CSV, TSV, Excel or Parquet tables, and say what was left out.

    Parameters
    ----------
    features_path
        One row for each node. Columns are numbers, but for the id and label columns.
    labels_path
        A table of ids and labels; without it the label column of the features, if any.
        An empty label, or no row at all, leaves a node unlabelled.
    graph_path
        An edge list between ids; see :func:`glnn.data.edges.read_edges`.
    options
        How to use the columns.
    **changes
        Fields of ``options`` by name: ``id_column="name"``.

    Returns
    -------
    tuple of NodeData and TableReport
        Classes are sorted by name, or by number where all names are whole numbers.
    """
    options = options.changed(**changes)
    files = TableFiles.of(features_path, labels_path, graph_path)
    frame = read_table(files.features, options)
    data, report = table_record(files, names_of(frame), frame.__getitem__, len(frame), options)
    report = dataclasses.replace(
        report, readings=tuple(notes_on_thousands(frame, report.encoder.names))
    )
    with parsing(files.features, "table"):
        features = report.encoder.transform(frame, shown_path(files.features))
    said = {**data.provenance, **_numbered(report.lines())}
    return data.replace(features=features, provenance=said), report


def table_record(
    files: TableFiles, names: Sequence[str], column: Column, n_rows: int, options: TableOptions
) -> tuple[NodeData, TableReport]:
    """Return all that tables say but for the values of the features, and what was left out.

    Parameters
    ----------
    files
        The tables.
    names, column, n_rows
        The columns of the one with the features, how to read one of them, and their length.
    options
        How to use the columns.
    """
    where = shown_path(files.features)
    plan = plan_columns(where, names, column, options, own_labels=files.labels is None)
    if options.needs_label and plan.label is None and files.labels is None:
        raise _no_label(where, plan, column)
    with parsing(files.features, "table"):
        encoder = TableEncoder.fit(where, plan.features, column, options)
    ids = None if plan.id is None else as_text(column(plan.id))
    index = index_of(ids if ids is not None else [str(k) for k in range(n_rows)], where)
    texts = [""] * n_rows if plan.label is None else stripped(column(plan.label))
    unknown, edge_report, graph = NO_UNKNOWN, None, None
    if files.labels is not None:
        texts, unknown = _read_labels(files.labels, index, options)
    if files.graph is not None:
        graph, edge_report = read_edges(
            files.graph, index, on_unknown=options.on_unknown, form=options.form
        )
    report = TableReport(encoder, plan, unknown, edge_report)
    labels, class_names = encode_labels(texts)
    data = NodeData(
        features=no_values(n_rows, len(encoder.feature_names)),
        labels=labels,
        graph=graph,
        class_names=class_names,
        splits={} if plan.split is None else splits_from(stripped(column(plan.split))),
        ids=None if ids is None else ids_from_text(ids),
        name=files.features.stem,
        provenance={"table": files.features.name, **_numbered(report.lines())},
        feature_names=encoder.feature_names,
    )
    return data, report


def _numbered(lines: Sequence[str]) -> dict[str, str]:
    return {f"note {k}": line for k, line in enumerate(lines)}


def with_label_table(data: NodeData, path: Path, options: TableOptions = DEFAULT) -> NodeData:
    """Return a record with the labels of a table of ids and labels, in place of its own."""
    index = {str(name): number for number, name in enumerate(data.node_ids.tolist())}
    labels, class_names = encode_labels(_read_labels(path, index, options)[0])
    return data.replace(labels=labels, class_names=class_names)


def read_table(path: Path, options: TableOptions) -> pd.DataFrame:
    """Return the table of a features file, with ids and labels as text."""
    frame = read_frame(
        path, options.form, as_text=lambda names: text_columns(names, options), header=True
    )
    if not len(frame):
        raise DataFormatError(f"{shown_path(path)} must have at least one row, got none.")
    return frame


def _no_label(where: str, plan: ColumnPlan, column: Column) -> InputError:
    """Return the error for a table without labels, which offers the column most like one."""
    likely = likely_label(plan.features, column)
    offer = (
        f"Is it {shown(likely)}? Then add --label {shown(likely)} (label_column={likely!r})."
        if likely is not None
        else "Name the column with --label, or a file of ids and labels with --labels."
    )
    return InputError(f"{where} must have labels, got no column named 'label'. {offer}")


def encode_labels(texts: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return class numbers and class names of label texts; blank text is unlabelled.

    Examples
    --------
    >>> encode_labels(["b", "", "a", "b"])
    (array([ 1, -1,  0,  1]), ('a', 'b'))
    """
    names = sorted_class_names(text for text in texts if text.strip())
    number = {name: k for k, name in enumerate(names)}
    return np.array([number.get(text, -1) for text in texts], dtype=np.int64), tuple(names)


def splits_from(texts: list[str]) -> dict[str, np.ndarray]:
    """Return the nodes of each part of a split that a column of its names gives."""
    column = np.array(texts)
    return {key: np.flatnonzero(column == key) for key in SPLIT_KEYS if key in column}


def index_of(ids: list[str], where: str) -> dict[str, int]:
    """Return the number of each id, if every row has one of its own."""
    index = {text: k for k, text in enumerate(ids)}
    if "" in index:
        raise DataFormatError(
            f"{where} must give every row an id, got an empty one in row {index[''] + 1}."
        )
    if len(index) != len(ids):
        twice = next(text for k, text in enumerate(ids) if index[text] != k)
        raise DataFormatError(
            f"{where} must give every row its own id, got {shown(twice)} twice. "
            "Remove or merge the repeated rows."
        )
    return index


def _read_labels(
    path: Path, index: dict[str, int], options: TableOptions
) -> tuple[list[str], UnknownIds]:
    """Labels in the order of the features; ids without a row stay unlabelled."""
    frame = read_frame(path, options.form, as_text=lambda names: names)
    names, where = names_of(frame), shown_path(path)
    id_column = find_column(where, names, options.id_column, "id", "the id column") or names[0]
    label = find_column(where, names, options.label_column, "label", "the label column")
    if label is None and len(names) == 2:
        label = names[1 - names.index(id_column)]
    if label is None or label == id_column:
        raise InputError(
            f"the label column of {where} must be named, got columns "
            f"{', '.join(map(shown, names[:8]))}. Give label_column (--label)."
        )
    ids = pd.Series(as_text(frame[id_column]), dtype=object)
    if ids.duplicated().any():
        raise DataFormatError(f"{where} must label {shown(ids[ids.duplicated()].iloc[0])} once.")
    labels = [""] * len(index)
    for text, cell in zip(ids, stripped(frame[label])):
        if text in index:
            labels[index[text]] = cell
    unknown = UnknownIds.of({text: None for text in ids if text not in index})
    if unknown.count and options.on_unknown == "error":
        raise refuse_unknown(unknown, path)
    return labels, unknown
