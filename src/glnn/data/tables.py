"""A person's own table: features, labels and edges from files with ids."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice
from glnn.data.arrays import ids_from_text, sorted_class_names
from glnn.data.columns import FeatureColumns
from glnn.data.edges import NO_UNKNOWN, EdgeReport, UnknownIds, read_edges, refuse_unknown
from glnn.data.files import parsing, shown, shown_path
from glnn.data.node_data import SPLIT_KEYS, NodeData
from glnn.data.rows import TextTable, as_text, column_names, find_column, open_table
from glnn.exceptions import DataFormatError, InputError

ON_UNKNOWN = ("error", "drop")
ENCODE = ("error", "onehot")


@dataclass(frozen=True)
class TableReport:
    """What was left out, merged or encoded while reading; ``lines`` puts it in words."""

    unknown_label_ids: UnknownIds = NO_UNKNOWN
    edges: EdgeReport | None = None
    encoded_columns: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return one sentence for each thing the user should know."""
        said = []
        if self.unknown_label_ids.count:
            said.append(f"labels: left out {self.unknown_label_ids}")
        if self.edges is not None and self.edges.unknown.count:
            said.append(f"graph: left out {self.edges.unknown}, {self.edges.n_dropped} edges")
        if self.edges is not None and self.edges.n_self_loops:
            said.append(f"graph: left out {self.edges.n_self_loops} self loops")
        if self.edges is not None and self.edges.n_repeated:
            said.append(f"graph: merged {self.edges.n_repeated} repeated edges")
        if self.encoded_columns:
            said.append(f"features: one-hot encoded {', '.join(map(shown, self.encoded_columns))}")
        return tuple(said)


@dataclass(frozen=True)
class _FeatureTable:
    """What one pass over the features file gives."""

    features: sp.csr_matrix
    feature_names: tuple[str, ...]
    encoded: tuple[str, ...]
    ids: list[str] | None
    labels: list[str] | None
    splits: list[str] | None


def read_table_data(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    on_unknown: str = "error",
    encode: str = "error",
) -> NodeData:
    """Read features, and perhaps labels and edges, from tables; see :func:`read_tables`."""
    data, _ = read_tables(
        features_path, labels_path, graph_path, id_column, label_column, on_unknown, encode
    )
    return data


def read_tables(
    features_path: str | Path,
    labels_path: str | Path | None = None,
    graph_path: str | Path | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    on_unknown: str = "error",
    encode: str = "error",
) -> tuple[NodeData, TableReport]:
    """Read a data set from CSV, TSV or Parquet tables, and say what was left out.

    Parameters
    ----------
    features_path
        One row for each node. Columns are numbers, but for the id and label columns.
    labels_path
        A table of ids and labels; without it the label column of the features, if any.
        An empty label, or no row at all, leaves a node unlabelled.
    graph_path
        An edge list between ids; see :func:`glnn.data.edges.read_edges`.
    id_column
        The column of ids; by default ``id`` if there is one, else nodes are numbered from 0.
    label_column
        The column of labels; by default ``label`` if there is one.
    on_unknown
        What to do with labels and edges of ids that have no features: ``"error"`` or ``"drop"``.
    encode
        Text columns are refused by ``"error"``; ``"onehot"`` gives each value of a text column
        (at most 100) a column of 0 and 1.

    Returns
    -------
    tuple of NodeData and TableReport
        Classes are sorted by name, or by number where all names are whole numbers.
    """
    check_choice("on_unknown", on_unknown, ON_UNKNOWN)
    check_choice("encode", encode, ENCODE)
    path = Path(features_path)
    table = _read_features(path, id_column, label_column, encode, labels_path is not None)
    n_nodes = table.features.shape[0]
    ids = [str(k) for k in range(n_nodes)] if table.ids is None else table.ids
    index = _index_of(ids, path)
    unknown_labels, edge_report, graph = NO_UNKNOWN, None, None
    label_texts = table.labels or [""] * n_nodes
    if labels_path is not None:
        label_texts, unknown_labels = _read_labels(
            Path(labels_path), index, (id_column, label_column), on_unknown
        )
    if graph_path is not None:
        graph, edge_report = read_edges(graph_path, index, on_unknown=on_unknown)
    report = TableReport(unknown_labels, edge_report, table.encoded)
    labels, class_names = encode_labels(label_texts)
    data = NodeData(
        features=table.features,
        labels=labels,
        graph=graph,
        class_names=class_names,
        splits=_splits(table.splits),
        ids=None if table.ids is None else ids_from_text(ids),
        name=path.stem,
        provenance={
            "features": path.name,
            **{f"note {k}": s for k, s in enumerate(report.lines())},
        },
        feature_names=table.feature_names,
    )
    return data, report


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


def _read_features(
    path: Path, id_column: str | None, label_column: str | None, encode: str, separate_labels: bool
) -> _FeatureTable:
    table = open_table(path)
    names = column_names(table)
    id_place = find_column(path, names, id_column, "id", "the id column")
    wanted_label = None if separate_labels else label_column
    label_place = find_column(path, names, wanted_label, "label", "the label column")
    if separate_labels and (label_place is not None or label_column in names):
        raise InputError(
            f"labels must come from one file, got a label column in {shown_path(path)} and a "
            "labels file. Remove one of them."
        )
    if id_place is not None and id_place == label_place:
        raise InputError(f"ids and labels must be two columns, got {shown(names[id_place])} twice.")
    special = {"id": id_place, "label": label_place, "split": _split_place(table, names)}
    taken = {place for place in special.values() if place is not None}
    places = [place for place in range(len(names)) if place not in taken]
    if not places:
        raise DataFormatError(f"{shown_path(path)} must have at least one feature column.")
    columns = FeatureColumns(path, names, places, encode)
    columns.learn_categories(table)
    features, texts = _read_batches(table, columns, special)
    return _FeatureTable(
        features=features,
        feature_names=columns.feature_names(),
        encoded=tuple(names[place] for place in sorted(columns.categories)),
        ids=texts["id"] if id_place is not None else None,
        labels=texts["label"] if label_place is not None else None,
        splits=texts["split"] if special["split"] is not None else None,
    )


def _split_place(table: TextTable, names: tuple[str, ...]) -> int | None:
    """Find the column ``split``, if it holds nothing but train, val, test and empty cells."""
    if "split" not in names:
        return None
    place = names.index("split")
    allowed = {"", *SPLIT_KEYS}
    fits = all(allowed.issuperset(as_text(batch[place])) for batch in table.batches())
    return place if fits else None


def _read_batches(
    table: TextTable, columns: FeatureColumns, special: dict[str, int | None]
) -> tuple[sp.csr_matrix, dict[str, list[str]]]:
    blocks: list[sp.csr_matrix] = []
    texts: dict[str, list[str]] = {key: [] for key in special}
    n_rows = 0
    for batch in table.batches():
        blocks.append(columns.encode_batch(batch, n_rows))
        n_rows += blocks[-1].shape[0]
        for key, place in special.items():
            if place is not None:
                texts[key] += as_text(batch[place])
    if not blocks:
        raise DataFormatError(f"{shown_path(table.path)} must have at least one row, got none.")
    with parsing(table.path, "table"):
        return sp.vstack(blocks, format="csr"), texts


def _index_of(ids: list[str], path: Path) -> dict[str, int]:
    index = {text: k for k, text in enumerate(ids)}
    if "" in index:
        raise DataFormatError(
            f"{shown_path(path)} must give every row an id, got an empty one in row "
            f"{index[''] + 1}."
        )
    if len(index) != len(ids):
        twice = next(text for k, text in enumerate(ids) if index[text] != k)
        raise DataFormatError(
            f"{shown_path(path)} must give every row its own id, got {shown(twice)} twice. "
            "Remove or merge the repeated rows."
        )
    return index


def _read_labels(
    path: Path, index: dict[str, int], wanted: tuple[str | None, str | None], on_unknown: str
) -> tuple[list[str], UnknownIds]:
    """Labels in the order of the features; ids without a row stay unlabelled."""
    table = open_table(path)
    names = column_names(table)
    id_place = find_column(path, names, wanted[0], "id", "the id column") or 0
    label_place = find_column(path, names, wanted[1], "label", "the label column")
    if label_place is None and len(names) == 2:
        label_place = 1 - id_place
    if label_place is None or label_place == id_place:
        raise InputError(
            f"the label column of {shown_path(path)} must be named, got columns "
            f"{', '.join(map(shown, names[:8]))}. Give label_column (--label)."
        )
    labels = [""] * len(index)
    unknown: dict[str, None] = {}
    seen: set[str] = set()
    for batch in table.batches():
        for text, label in zip(as_text(batch[id_place]), as_text(batch[label_place])):
            if text in seen:
                raise DataFormatError(f"{shown_path(path)} must label {shown(text)} once.")
            seen.add(text)
            if text in index:
                labels[index[text]] = label
            else:
                unknown[text] = None
    if unknown and on_unknown == "error":
        raise refuse_unknown(UnknownIds.of(unknown), path)
    return labels, UnknownIds.of(unknown)


def _splits(texts: list[str] | None) -> dict[str, np.ndarray]:
    if texts is None:
        return {}
    column = np.array(texts)
    return {key: np.flatnonzero(column == key) for key in SPLIT_KEYS if key in column}
