"""Data sets from tables: features, labels and edges from files whose rows have ids.

The first part decides what each column is for; :func:`read_tables` reads the files.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from glnn._utils import did_you_mean
from glnn.data.edges import NO_UNKNOWN, EdgeReport, UnknownIds, read_edges
from glnn.data.encode import TableEncoder
from glnn.data.files import quote, quote_path, wrap_parse_errors
from glnn.data.node_data import (
    SPLIT_KEYS,
    NodeData,
    empty_features,
    ids_from_text,
    is_whole_number,
)
from glnn.data.table_files import read_frame
from glnn.data.table_text import (
    DEFAULT_OPTIONS,
    TableOptions,
    days_since_1970,
    describe_thousands,
    detect_date_format,
    strip_cells,
    to_numbers,
    to_text,
)
from glnn.exceptions import DataFormatError, InputError

# The role of each column

_ID_NAME = re.compile(r"(.*[\s_.-])?([iI][dD]|[uU][uU][iI][dD]|[gG][uU][iI][dD])|.*[a-z]I[dD]")
_LABEL_NAME = re.compile(
    r"(class|target|outcome|status|group|category|species|diagnosis|churn(ed)?|y|type|kind)"
    r"|.*[\s_.-](class|label|target|status|category|group|type)"
)
_MAX_CLASSES = 30

Column = Callable[[str], pd.Series]  # returns the column of a name


@dataclass(frozen=True)
class ColumnPlan:
    """The role of each column of a table."""

    id: str | None  # None if there is no such column; also label and split
    label: str | None
    split: str | None
    features: tuple[str, ...]
    notes: tuple[str, ...] = ()  # choices that the user did not ask for, one sentence each
    group: str | None = None
    time: str | None = None

    @property
    def non_features(self) -> tuple[str | None, ...]:
        """The columns of ids, labels, split, groups and times."""
        return (self.id, self.label, self.split, self.group, self.time)


def plan_columns(
    where: str, names: Sequence[str], column: Column, options: TableOptions, *, own_labels: bool
) -> ColumnPlan:
    """Decide what each column of a table is for.

    ``where`` names the table in messages; ``own_labels`` is ``False`` if the labels come from
    another file.
    """
    like_ids = [n for n in names if _ID_NAME.fullmatch(n) and _is_unique(column(n))]
    id_column = find_column(where, names, options.id_column, "id", "the id column")
    notes = []
    if id_column is None and like_ids and options.label_column != like_ids[0]:
        id_column = like_ids[0]
        notes.append(f"ids: taken from the column {quote(id_column)}")
    wanted = options.label_column if own_labels else None
    label = find_column(where, names, wanted, "label", "the label column")
    if not own_labels and (label is not None or options.label_column in names):
        raise InputError(
            f"labels must come from one file, got a label column in {where} and a labels file. "
            "Remove one of them."
        )
    group = find_column(where, names, options.group_column, None, "the group column")
    time = find_column(where, names, options.time_column, None, "the time column")
    named = [name for name in (id_column, label, group, time) if name is not None]
    if len(set(named)) != len(named):
        twice = max(named, key=named.count)
        raise InputError(
            f"ids, labels, groups and times must be different columns, got {quote(twice)} twice."
        )
    parts = set(strip_cells(column("split"))) if "split" in names else {"none"}
    split = "split" if parts <= {"", *SPLIT_KEYS} else None
    rest = [name for name in names if name not in (id_column, label, split, group, time)]
    chosen = _match_columns(where, rest, options.features or ["*"], "features") if rest else set()
    chosen -= _match_columns(where, rest, options.drop, "drop")
    features = tuple(name for name in rest if name in chosen)
    if not options.features:
        left = [name for name in features if name in like_ids]
        features = tuple(name for name in features if name not in left)
        notes += [f"features: left out {quote(name)}, another id in every row" for name in left]
    if not features:
        raise DataFormatError(f"{where} must have at least one feature column, got none.")
    return ColumnPlan(id_column, label, split, features, tuple(notes), group, time)


def find_column(
    where: str, names: Sequence[str], wanted: str | None, usual: str | None, what: str
) -> str | None:
    """Return the wanted column; if none is given, the usual one if the table has it."""
    if wanted is None:
        return usual if usual in names else None
    if wanted not in names:
        raise InputError(
            f"{what} must be a column of {where}, got {quote(wanted)}.{_list_columns(names)}"
            f"{did_you_mean(wanted, names)}"
        )
    return wanted


def guess_label_column(names: Sequence[str], column: Column) -> str | None:
    """Return the column that looks most like labels, or ``None`` if none does.

    A candidate has 2 to 30 different values. A usual name scores most, then text, then missing
    cells and the last place.
    """
    best: tuple[int, str] | None = None
    for place, name in enumerate(names):
        cells = [cell for cell in strip_cells(column(name)) if cell]
        n_values = len(set(cells))
        if _ID_NAME.fullmatch(name) or not 2 <= n_values <= min(_MAX_CLASSES, len(cells) // 2):
            continue
        is_named = _LABEL_NAME.fullmatch(name.lower()) is not None
        is_text = to_numbers(column(name)) is None
        has_gaps = len(cells) < len(column(name))
        score = 4 * is_named + 2 * is_text + has_gaps + (place == len(names) - 1)
        if score >= 2 and (best is None or score > best[0]):
            best = (score, name)
    return None if best is None else best[1]


def _match_columns(
    where: str, names: Sequence[str], patterns: Sequence[str], option: str
) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        hits = {n for n in names if n == pattern or fnmatchcase(n, pattern)}
        if not hits:
            raise InputError(
                f"{option} must name columns of {where}, got {quote(pattern)}, which matches none."
                f"{_list_columns(names)}{did_you_mean(pattern, names)}"
            )
        found |= hits
    return found


def _list_columns(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > 8 else ""
    return f" Its columns are {', '.join(map(quote, names[:8]))}{more}."


def _is_unique(column: pd.Series) -> bool:
    return bool(column.is_unique and not column.isna().any() and not (column == "").any())


# Reading the tables


@dataclass(frozen=True)
class TableReport:
    """What was left out, merged or encoded while reading tables."""

    encoder: TableEncoder  # turns new rows into the same features
    columns: ColumnPlan
    unknown_label_ids: UnknownIds = NO_UNKNOWN
    edges: EdgeReport | None = None
    readings: tuple[str, ...] = ()  # notes on cells that could be read in two ways
    groups: np.ndarray | None = None  # group of each row, if such a column was named
    times: np.ndarray | None = None

    def lines(self) -> tuple[str, ...]:
        """Return the report as sentences, one for each choice or omission."""
        omissions = []
        if self.unknown_label_ids.count:
            omissions.append(f"labels: left out {self.unknown_label_ids}")
        if self.edges is not None and self.edges.unknown.count:
            lost = f"{self.edges.unknown}, {self.edges.n_dropped} edges"
            omissions.append(f"graph: left out {lost}")
        if self.edges is not None and self.edges.n_self_loops:
            omissions.append(f"graph: left out {self.edges.n_self_loops} self loops")
        if self.edges is not None and self.edges.n_repeated:
            omissions.append(f"graph: merged {self.edges.n_repeated} repeated edges")
        return (*self.columns.notes, *self.readings, *omissions, *self.encoder.notes())


@dataclass(frozen=True)
class TableFiles:
    """Paths of the tables of one data set."""

    features: Path  # one row for each node
    labels: Path | None = None  # a table of ids and labels; None: the features' label column
    graph: Path | None = None  # an edge list between ids

    @classmethod
    def of(
        cls, features: str | Path, labels: str | Path | None, graph: str | Path | None
    ) -> "TableFiles":
        """Convert strings to paths."""
        further = (None if path is None else Path(path) for path in (labels, graph))
        return cls(Path(features), *further)


def read_table_data(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    options: TableOptions = DEFAULT_OPTIONS,
    **changes: Any,
) -> NodeData:
    """Read features, labels and edges from tables, without a report.

    Parameters and the record are those of :func:`read_tables`.
    """
    return read_tables(features_path, labels_path, graph_path, options, **changes)[0]


def read_tables(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    options: TableOptions = DEFAULT_OPTIONS,
    **changes: Any,
) -> tuple[NodeData, TableReport]:
    """Read a data set from CSV, TSV, Excel or Parquet tables, with a report.

    Parameters
    ----------
    features_path
        A table with one row for each node. Its columns are numbers, except ids and labels.
    labels_path
        A table of ids and labels; by default the label column of the features, if any.
        Nodes with an empty label or without a row are unlabelled.
    graph_path
        An edge list between ids; see :func:`glnn.data.edges.read_edges`.
    options
        How to use the columns.
    **changes
        Fields of ``options`` by name: ``id_column="name"``.

    Returns
    -------
    tuple of NodeData and TableReport
        The record and what was left out, merged or encoded. Classes are sorted by name, or by
        number if all names are whole numbers.
    """
    options = options.replace(**changes)
    files = TableFiles.of(features_path, labels_path, graph_path)
    frame = read_table(files.features, options)
    data, report = build_table_data(
        files, list(map(str, frame)), frame.__getitem__, len(frame), options
    )
    report = dataclasses.replace(
        report, readings=tuple(describe_thousands(frame, report.encoder.names))
    )
    with wrap_parse_errors(files.features, "table"):
        features = report.encoder.transform(frame, quote_path(files.features))
    provenance = {**data.provenance, **_number_notes(report.lines())}
    return data.replace(features=features, provenance=provenance), report


def build_table_data(
    files: TableFiles, names: Sequence[str], column: Column, n_rows: int, options: TableOptions
) -> tuple[NodeData, TableReport]:
    """Return the record of the tables without the feature values, and the report.

    ``names`` are the columns of the features table, ``column`` returns one of them, and
    ``n_rows`` is their length.
    """
    where = quote_path(files.features)
    plan = plan_columns(where, names, column, options, own_labels=files.labels is None)
    if options.needs_label and plan.label is None and files.labels is None:
        likely = guess_label_column(plan.features, column)
        offer = (
            f"Is it {quote(likely)}? Then add --label {quote(likely)} (label_column={likely!r})."
            if likely is not None
            else "Name the column with --label, or a file of ids and labels with --labels."
        )
        raise InputError(f"{where} must have labels, got no column named 'label'. {offer}")
    with wrap_parse_errors(files.features, "table"):
        encoder = TableEncoder.fit(where, plan.features, column, options)
    ids = None if plan.id is None else to_text(column(plan.id))
    index = index_ids(ids if ids is not None else [str(k) for k in range(n_rows)], where)
    texts = [""] * n_rows if plan.label is None else strip_cells(column(plan.label))
    unknown, edge_report, graph = NO_UNKNOWN, None, None
    if files.labels is not None:
        texts, unknown = _read_labels(files.labels, index, options)
    if files.graph is not None:
        graph, edge_report = read_edges(files.graph, index, options)
    labels, class_names = encode_labels(texts)
    report = TableReport(
        encoder,
        plan,
        unknown,
        edge_report,
        groups=None if plan.group is None else np.array(strip_cells(column(plan.group))),
        times=None if plan.time is None else _read_times(where, plan.time, column),
    )
    data = NodeData(
        features=empty_features(n_rows, len(encoder.feature_names)),
        labels=labels,
        graph=graph,
        class_names=class_names,
        splits={} if plan.split is None else parse_splits(strip_cells(column(plan.split))),
        ids=None if ids is None else ids_from_text(ids),
        name=files.features.stem,
        provenance={"table": files.features.name, **_number_notes(report.lines())},
        feature_names=encoder.feature_names,
    )
    return data, report


def _read_times(where: str, name: str, column: Column) -> np.ndarray:
    """Return the time of each row, a number or days since 1970; NaN if it is missing."""
    cells = column(name)
    times, form = to_numbers(cells), detect_date_format(cells)
    if times is None and form is not None:
        times = days_since_1970(cells, form)
    if times is None:
        raise DataFormatError(
            f"the time column {quote(name)} of {where} must hold numbers or dates, got other text."
        )
    return times


def _number_notes(lines: Sequence[str]) -> dict[str, str]:
    return {f"note {k}": line for k, line in enumerate(lines)}


def replace_labels(data: NodeData, path: Path, options: TableOptions = DEFAULT_OPTIONS) -> NodeData:
    """Return the record with its labels replaced by those of a table of ids and labels."""
    index = {str(name): number for number, name in enumerate(data.node_ids.tolist())}
    labels, class_names = encode_labels(_read_labels(path, index, options)[0])
    return data.replace(labels=labels, class_names=class_names)


def read_table(path: Path, options: TableOptions) -> pd.DataFrame:
    """Read a features file as a frame, with ids and labels as text."""
    wanted = {options.id_column, options.label_column, options.group_column, "label", "split"}
    frame = read_frame(
        path,
        options,
        select_text=lambda names: {n for n in names if n in wanted or _ID_NAME.fullmatch(n)},
    )
    if not len(frame):
        raise DataFormatError(f"{quote_path(path)} must have at least one row, got none.")
    return frame


def encode_labels(
    texts: Sequence[str], names: Sequence[str] | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return class numbers and class names of label texts; blank text is unlabelled (-1).

    The names are listed, or those that occur: sorted as numbers if all are integers, else as text.
    """
    if names is None:
        found = {text for text in texts if text.strip()}
        as_numbers = all(is_whole_number(name) for name in found)
        names = sorted(found, key=int) if as_numbers else sorted(found)
    number = {name: k for k, name in enumerate(names)}
    return np.array([number.get(text, -1) for text in texts], dtype=np.int64), tuple(names)


def parse_splits(texts: list[str]) -> dict[str, np.ndarray]:
    """Return the nodes of each part of a split, from a column with the name of the part."""
    column = np.array(texts)
    return {key: np.flatnonzero(column == key) for key in SPLIT_KEYS if key in column}


def index_ids(ids: list[str], where: str) -> dict[str, int]:
    """Map each id to its row number; ids must be unique and not empty."""
    index = {text: k for k, text in enumerate(ids)}
    if "" in index:
        raise DataFormatError(
            f"{where} must give every row an id, got an empty one in row {index[''] + 1}."
        )
    if len(index) != len(ids):
        twice = next(text for k, text in enumerate(ids) if index[text] != k)
        raise DataFormatError(
            f"{where} must give every row its own id, got {quote(twice)} twice. "
            "Remove or merge the repeated rows."
        )
    return index


def _read_labels(
    path: Path, index: dict[str, int], options: TableOptions
) -> tuple[list[str], UnknownIds]:
    """Return label texts in the order of ``index``, and the ids that are not in it."""
    frame = read_frame(path, options, select_text=lambda names: names)
    names, where = list(map(str, frame)), quote_path(path)
    id_column = find_column(where, names, options.id_column, "id", "the id column") or names[0]
    label = find_column(where, names, options.label_column, "label", "the label column")
    if label is None and len(names) == 2:
        label = names[1 - names.index(id_column)]
    if label is None or label == id_column:
        raise InputError(
            f"the label column of {where} must be named, got columns "
            f"{', '.join(map(quote, names[:8]))}. Give label_column (--label)."
        )
    ids = pd.Series(to_text(frame[id_column]), dtype=object)
    if ids.duplicated().any():
        raise DataFormatError(f"{where} must label {quote(ids[ids.duplicated()].iloc[0])} once.")
    labels = [""] * len(index)
    for text, cell in zip(ids, strip_cells(frame[label])):
        if text in index:
            labels[index[text]] = cell
    unknown = UnknownIds.of(ids, index)
    unknown.refuse(path, options.on_unknown)
    return labels, unknown
