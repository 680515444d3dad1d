"""Data sets from tables: features, labels and edges from files whose rows have ids.

The first part decides what each column is for; :func:`read_tables` reads the files.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from glnn._utils import did_you_mean
from glnn.data.edges import describe_unknown, id_finder, match_ids, read_edges, refuse_unknown
from glnn.data.encode import TableEncoder, fit_column, is_named_like_id, is_unique
from glnn.data.files import quote, quote_path, quote_some, wrap_parse_errors
from glnn.data.node_data import SPLIT_KEYS, NodeData, empty_features, ids_from_text, is_whole_number
from glnn.data.table_files import read_first_row, read_frame, unescape_formula
from glnn.data.table_text import (
    DEFAULT_OPTIONS,
    TableOptions,
    days_since_1970,
    detect_date_format,
    find_column,
    is_placeholder,
    list_columns,
    merge_spellings,
    strip_cells,
    to_numbers,
    to_text,
)
from glnn.exceptions import DataFormatError, InputError

# The role of each column

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


_MAX_ID = 40  # characters; longer cells are free text


def _holds_names(name: str, cells: Any, options: TableOptions, *, needs_ids: bool) -> bool:
    """Whether cells such as ``00123`` or ``c7`` name the rows, and would be no feature anyway.

    If another file refers to ids, any cells serve that are no plain numbers.
    """
    texts = to_text(cells)
    if not is_unique(cells) or max(map(len, texts), default=0) > _MAX_ID:
        return False
    if needs_ids:
        return any(re.fullmatch(r"0\d+|.*[^\d.,+-].*", cell) for cell in texts)
    is_guessed = options.encode == "auto" and not options.features and name not in options.kinds
    return is_guessed and fit_column("", cells, name, options).kind == "left out"


def _choose_ids(
    where: str, names: Sequence[str], column: Column, options: TableOptions, *, needs_ids: bool
) -> tuple[str | None, list[str], list[str]]:
    """Return the column of ids if any, columns to leave out as their ids repeat, and notes."""
    wanted = find_column(where, names, options.id_column, None, "the id column")
    if wanted is not None:
        return wanted, [], []
    label = options.label_column if options.label_column != "id" else None  # refused later
    others = (label, options.group_column, options.time_column)
    like_ids = [name for name in names if is_named_like_id(name) and name not in others]
    distinct = [name for name in like_ids if is_unique(column(name))]
    first = names[0]
    can_be_id = not like_ids and first not in (*others, "label", "split")
    if can_be_id and _holds_names(first, column(first), options, needs_ids=needs_ids):
        distinct = [first]
    if "id" in distinct:
        return "id", [], []
    if distinct:
        note = f"ids: taken from the column {quote(distinct[0])}; --id names another"
        return distinct[0], [], [note]
    if "id" not in like_ids:
        return None, [], []
    if needs_ids:
        index_ids(to_text(column("id")), where)  # raises an error that names an id
    note = (
        "ids: 'id' is not different in every row, so rows are numbered; --group id hides the "
        "labels of equal ids together"
    )
    return None, ["id"], [note]


def plan_columns(
    where: str,
    names: Sequence[str],
    column: Column,
    options: TableOptions,
    *,
    own_labels: bool,
    needs_ids: bool = False,
) -> ColumnPlan:
    """Decide what each column of a table is for.

    ``where`` names the table in messages; ``own_labels`` is ``False`` if the labels come from
    another file; ``needs_ids`` says that another file refers to ids.
    """
    id_column, repeated, notes = _choose_ids(where, names, column, options, needs_ids=needs_ids)
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
    chosen -= _match_columns(where, [*rest, id_column or ""], options.drop, "drop")
    features = tuple(name for name in rest if name in chosen and name not in repeated)
    known = [find_column(where, names, n, None, "a column of --as (kinds)") for n in options.kinds]
    bad = next((n for n in known if n in (id_column, label, split, group)), None)
    if bad is not None:
        raise InputError(
            f"--as (kinds) must name columns of features or times, got {quote(bad)}, which "
            "holds ids, labels, the split or groups. Leave it out."
        )
    if not features:
        advice = " --set delimiter names another character between columns."
        raise DataFormatError(
            f"{where} must have at least one feature column, got none."
            f"{list_columns(names)}{advice if len(names) == 1 else ''}"
        )
    return ColumnPlan(id_column, label, split, features, tuple(notes), group, time)


def guess_label_column(names: Sequence[str], column: Column) -> str | None:
    """Return the column that looks most like labels, or ``None`` if none does.

    A candidate has 2 to 30 different values. A usual name scores most, then text, then missing
    cells and the last place.
    """
    scores: dict[str, int] = {}
    for place, name in enumerate(names):
        cells = [cell for cell in strip_cells(column(name)) if cell]
        n_values = len(set(cells))
        if is_named_like_id(name) or not 2 <= n_values <= min(_MAX_CLASSES, len(cells) // 2):
            continue
        is_named = _LABEL_NAME.fullmatch(name.lower()) is not None
        is_text = to_numbers(column(name)) is None
        has_gaps = len(cells) < len(column(name))
        scores[name] = 4 * is_named + 2 * is_text + has_gaps + (place == len(names) - 1)
    best = max(scores, key=lambda name: scores[name], default=None)  # the first of the best
    return None if best is None or scores[best] < 2 else best


def _match_columns(
    where: str, names: Sequence[str], patterns: Sequence[str], option: str
) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        hits = {n for n in names if n == pattern or fnmatchcase(n, pattern)}
        if not hits:
            raise InputError(
                f"{option} must name columns of {where}, got {quote(pattern)}, which matches none."
                f"{list_columns(names)}{did_you_mean(pattern, names)}"
            )
        found |= hits
    return found


# Reading the tables


@dataclass(frozen=True)
class TableReport:
    """What was left out, merged or encoded while reading tables."""

    encoder: TableEncoder  # turns new rows into the same features
    columns: ColumnPlan
    names: tuple[str, ...] = ()  # all columns of the table, in its order
    readings: tuple[str, ...] = ()  # notes on how the files, labels and edges were read
    groups: np.ndarray | None = None  # group of each row, if such a column was named
    times: np.ndarray | None = None
    frame: pd.DataFrame | None = None  # the table as it was read, unless it is read by rows

    def column_rows(self) -> list[tuple[str, str]]:
        """Return the name of each column of the table and what was done with it."""
        rows = dict(self.encoder.describe())
        for role in ("id", "label", "split", "group", "time"):
            rows[getattr(self.columns, role)] = role
        return [(name, rows.get(name, "left out: not chosen")) for name in self.names]

    def lines(self) -> tuple[str, ...]:
        """Return the report as sentences, one for each doubtful choice or omission."""
        return (*self.columns.notes, *self.readings, *self.encoder.notes())


def read_tables(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    options: TableOptions = DEFAULT_OPTIONS,
    **changes: Any,
) -> tuple[NodeData, TableReport]:
    """Read a data set from CSV, TSV, JSON lines, Excel, Parquet or Feather tables, with a report.

    ``features_path`` is a table with one row for each node, ``labels_path`` one of ids and labels,
    by default the label column of the features, if any; nodes with an empty label or without a row
    are unlabelled. ``graph_path`` is an edge list between ids
    (:func:`glnn.data.edges.read_edges`). ``options`` say how to use the columns; single fields can
    be given by name, as in ``id_column="name"``.

    Returns the record, and what was left out, merged or encoded. Classes are sorted by name, or by
    number if all names are whole numbers.
    """
    options = options.replace(**changes)
    path = Path(features_path)
    frame = read_table(path, options)
    columns = list(map(str, frame)), frame.__getitem__, len(frame)
    data, report = build_table_data(path, labels_path, graph_path, *columns, options, frame)
    with wrap_parse_errors(path, "table"):
        features = report.encoder.transform(frame, quote_path(path))
    return data.replace(features=features), report


def build_table_data(
    path: Path,
    labels_path: str | Path | None,
    graph_path: str | Path | None,
    names: Sequence[str],
    column: Column,
    n_rows: int,
    options: TableOptions,
    frame: pd.DataFrame | None = None,
) -> tuple[NodeData, TableReport]:
    """Return the record of the tables without the feature values, and the report.

    ``names`` are the columns of the features table, ``column`` returns one of them, and
    ``n_rows`` is their length. ``frame`` is that table, unless it is read by rows.
    """
    where, own_labels = quote_path(path), labels_path is None
    is_joined = not own_labels or graph_path is not None
    plan = plan_columns(where, names, column, options, own_labels=own_labels, needs_ids=is_joined)
    if options.needs_label and plan.label is None and own_labels:
        likely = guess_label_column(plan.features, column)
        add = "" if likely is None else f"--label {shlex.quote(likely)}"
        advice = (
            f"{list_columns(names)} Name the column with --label, or a file of ids and labels "
            "with --labels."
            if likely is None
            else f" Is it {quote(likely)}? Then add {add} (label_column={likely!r})."
        )
        error = InputError(f"{where} must have labels, got no column named 'label'.{advice}")
        error.add = add
        raise error
    texts = [""] * n_rows if plan.label is None else strip_cells(column(plan.label))
    with wrap_parse_errors(path, "table"):
        encoder = TableEncoder.fit(where, plan.features, column, options, texts)
    ids = None if plan.id is None else to_text(column(plan.id))
    index = index_ids(ids if ids is not None else [str(k) for k in range(n_rows)], where)
    graph, more = None, list[str]()
    beside = options.replace(sheet=None)  # a sheet of the features
    if labels_path is not None:
        texts, unknown = _read_labels(Path(labels_path), index, beside)
        if unknown:
            more.append(f"labels: left out {describe_unknown(unknown)}")
    if graph_path is not None:
        graph, edge_report = read_edges(graph_path, index, beside)
        graph = None if options.needs_label and not graph.nnz else graph
        more += edge_report.lines()
    texts, notes = settle_labels(texts, options)
    notes = (*([] if frame is None else frame.attrs.get("notes", ())), *notes, *more)
    if options.needs_label:
        _check_classes(where, texts, plan.features if own_labels else (), column)
    labels, class_names = encode_labels(texts)
    groups = None if plan.group is None else np.array(strip_cells(column(plan.group)))
    times = None if plan.time is None else _read_times(where, plan.time, column, options)
    report = TableReport(encoder, plan, tuple(names), notes, groups, times, frame)
    data = NodeData(
        features=empty_features(n_rows, len(encoder.feature_names)),
        labels=labels,
        graph=graph,
        class_names=class_names,
        splits={} if plan.split is None else parse_splits(strip_cells(column(plan.split))),
        ids=None if ids is None else ids_from_text(ids),
        name=path.stem,
        provenance={"table": path.name}
        | {f"note {k}": line for k, line in enumerate(report.lines())},
        feature_names=encoder.feature_names,
    )
    return data, report


def _read_times(where: str, name: str, column: Column, options: TableOptions) -> np.ndarray:
    """Return the time of each row, a number or days since 1970; NaN if it is missing."""
    cells = column(name)
    times, form = to_numbers(cells), detect_date_format(cells, options.kinds.get(name))
    if times is None and form is not None:
        times = days_since_1970(cells, form)
    if times is None:
        raise DataFormatError(
            f"the time column {quote(name)} of {where} must hold numbers or dates, got other text."
        )
    return times


def replace_labels(data: NodeData, path: Path, options: TableOptions = DEFAULT_OPTIONS) -> NodeData:
    """Return the record with its labels replaced by those of a table of ids and labels."""
    index = {str(name): number for number, name in enumerate(data.node_ids.tolist())}
    texts, _ = settle_labels(_read_labels(path, index, options)[0], options)
    labels, class_names = encode_labels(texts)
    return data.replace(labels=labels, class_names=class_names)


def read_table(path: Path, options: TableOptions) -> pd.DataFrame:
    """Read a features file as a frame, with ids and labels as text."""
    wanted = {options.id_column, options.label_column, options.group_column, "label", "split"}
    frame = read_frame(
        path,
        options,
        select_text=lambda names: {
            n for n in names if {n, n.strip(), n.strip().casefold()} & wanted or is_named_like_id(n)
        },
    )
    if not len(frame):
        notes = "".join(f"; {note}" for note in frame.attrs.get("notes", ()))
        raise DataFormatError(f"{quote_path(path)} must have at least one row, got none{notes}.")
    return frame


_MAX_NUMBER_CLASSES = 20  # more different numbers than this may be a quantity
_MOST_CLASSES = 1000  # more different labels than this are not classes


def settle_labels(texts: Sequence[str], options: TableOptions) -> tuple[list[str], tuple[str, ...]]:
    """Empty labels that mean "unknown", and merge those that differ only in case; with notes."""
    if not options.exact_labels and all(re.fullmatch(r"-?\d+(\.0+)?|", text) for text in texts):
        texts = [text.split(".")[0] for text in texts]  # 1.0: whole numbers beside gaps
    counts = Counter(text for text in texts if text)
    gone, notes = {text for text in counts if text in options.na}, []
    words = [text for text in counts if text == "-1" or is_placeholder(text)]
    exact = "with --set exact_labels=true it is a class of its own"
    if not options.exact_labels and len(set(counts) - {*gone, *words}) >= 2:
        for text in sorted(set(words) - gone):
            rows = f"{quote(text)} ({counts[text]:,} row{'s' * (counts[text] != 1)})"
            advice = "if it is a class, rename it" if text == "-1" else exact
            notes.append(f"labels: {rows} read as no label; {advice}")
        gone |= set(words)
    kept = {text: count for text, count in counts.items() if text not in gone}
    merged = {} if options.exact_labels else merge_spellings(kept)
    notes += [f"labels: {quote(a)} read as {quote(b)}; {exact}" for a, b in merged.items()]
    return ["" if text in gone else merged.get(text, text) for text in texts], tuple(notes)


def _check_classes(where: str, texts: Sequence[str], others: Sequence[str], column: Column) -> None:
    """Refuse labels that are a quantity, or of which every row has its own."""
    known = [text for text in texts if text]
    n_values, numbers = len(set(known)), to_numbers(pd.Series(known, dtype=object))
    is_quantity = numbers is not None and bool((np.floor(numbers) < numbers).any())
    is_quantity &= n_values > _MAX_NUMBER_CLASSES
    is_own = 2 * n_values > len(known) and n_values > _MAX_NUMBER_CLASSES
    if is_quantity or is_own or n_values > _MOST_CLASSES:
        what = "values" if numbers is None else "numbers"
        which = "" if numbers is None else ", which look like a quantity"
        likely = guess_label_column(others, column)
        raise InputError(
            f"the label column of {where} must hold classes, got {n_values:,} different {what} in "
            f"{len(known):,} labelled rows{which}. Group them into a few classes first, as with "
            "pandas.cut"
            + (f", or name another column, such as {quote(likely)}." if likely else ".")
        )


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
            f"{where} must give every row its own id, got {quote(twice)} twice. Remove or merge "
            "the repeated rows, or name another column with --id."
        )
    return index


def _read_labels(
    path: Path, index: dict[str, int], options: TableOptions
) -> tuple[list[str], list[str]]:
    """Return label texts in the order of ``index``, and the ids that are not in it."""
    first, find_id = read_first_row(path, options), id_finder(index)
    has_names = len(first) < 2 or not any(find_id(cell) in index for cell in first[:2])
    frame = read_frame(path, options, select_text=lambda names: names, header=has_names)
    names, where = list(map(str, frame)), quote_path(path)
    if len(names) < 2:
        raise DataFormatError(
            f"{where} must have a column of ids and one of labels, got {quote(names[0])} alone."
        )
    id_column = find_column(where, names, options.id_column, "id", "the id column") or names[0]
    label = find_column(where, names, options.label_column, "label", "the label column")
    if label is None and len(names) == 2:
        label = names[1 - names.index(id_column)]
    if label is None or label == id_column:
        raise InputError(
            f"the label column of {where} must be named, got columns {quote_some(names, 8)}. "
            "Give label_column (--label)."
        )
    plain = ((text, unescape_formula(text)) for text in to_text(frame[id_column]))
    texts = [other if other in index else text for text, other in plain]
    rows, unknown = match_ids(texts, index)
    is_again = (rows >= 0) & pd.Series(rows).duplicated().to_numpy()
    if is_again.any():
        raise DataFormatError(f"{where} must label {quote(texts[is_again.argmax()])} once.")
    refuse_unknown(path, unknown, options.on_unknown, index)
    label_of = dict(zip(rows.tolist(), map(unescape_formula, strip_cells(frame[label]))))
    return [label_of.get(row, "") for row in range(len(index))], unknown
