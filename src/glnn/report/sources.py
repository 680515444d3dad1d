"""From what a user names to data with labels: a data set, a table with its files, any format."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_integer
from glnn.data import DATASETS, NodeData, Split, TableReport, make_split, read_tables
from glnn.data.datasets import EMBEDDED
from glnn.data.files import shown, shown_path
from glnn.data.formats import is_edge_list, is_edge_table, open_named
from glnn.data.npz import DEFAULT_GRAPH
from glnn.data.row_source import RecordSource, RowSource, open_source
from glnn.data.splits import PAPER_COUNTS, class_sizes
from glnn.data.table_files import TABLE_SUFFIXES, edges_beside, names_of
from glnn.data.table_text import DEFAULT, TableOptions
from glnn.data.tables import likely_label, plan_columns, read_table, with_label_table
from glnn.distributed import ALONE, Partition, Peers
from glnn.exceptions import InputError

DEFAULT_PER_CLASS = 20


@dataclass(frozen=True)
class Source:
    """Where the data come from: a name or path, and how to read a table.

    Parameters
    ----------
    name
        A data set's name, or the path of a file or folder.
    labels, graph
        Further tables: labels by id, edges by ids.
    options
        How to use the columns of a table.
    variant
        Which graph of a published set that has several.
    set_name
        Which set of a Planetoid folder.
    """

    name: str
    labels: Path | None = None
    graph: Path | None = None
    options: TableOptions = DEFAULT
    variant: str = DEFAULT_GRAPH
    set_name: str | None = None

    @property
    def is_table(self) -> bool:
        """Whether the name is that of a table, with a row for each node."""
        path = Path(self.name)
        if self.name in DATASETS or path.suffix.lower() not in TABLE_SUFFIXES:
            return False
        return path.exists() and not is_edge_table(path, self.options.form)

    @property
    def is_edge_list(self) -> bool:
        """Whether the name is that of a file with edges alone."""
        path = Path(self.name)
        return (
            self.name not in DATASETS and path.is_file() and is_edge_list(path, self.options.form)
        )

    def open(self) -> "OpenedSource":
        """Read the data; say what was left out or encoded."""
        source = self._in_memory()
        return OpenedSource.of(self, source, source.data)

    def rows(self) -> RowSource:
        """Return the data by rows: from the file where its format allows, else from memory."""
        path = Path(self.name)
        is_file = self.name not in DATASETS and path.is_file() and self.variant == DEFAULT_GRAPH
        if not is_file or self.is_edge_list or path.suffix.lower() not in (".npz", ".parquet"):
            return self._in_memory()
        if not self.is_table:
            self._refuse_table_options()
        return open_source(path, self.options, self.graph, self.labels)

    @property
    def edges_found(self) -> Path | None:
        """The edge list that lies beside a table, if no other one is named."""
        beside = edges_beside(Path(self.name))
        return beside if self.is_table and self.graph is None and beside.is_file() else None

    def label_question(self) -> str | None:
        """Ask whether a column holds the labels of a table that names none; ``None``: none may."""
        if not self.is_table or self.labels is not None:
            return None
        frame = read_table(Path(self.name), self.options)
        columns = (names_of(frame), frame.__getitem__)
        plan = plan_columns(self.name, *columns, self.options, own_labels=True)
        likely = likely_label(plan.features, frame.__getitem__) if plan.label is None else None
        if likely is None:
            return None
        asked = f"Is it {shown(likely)}? Then add --label {shown(likely)}."
        return f"{shown_path(Path(self.name))} has no column named 'label'. {asked}"

    def _in_memory(self) -> RecordSource:
        if self.is_table:
            graph = self.graph or self.edges_found
            return RecordSource(*read_tables(self.name, self.labels, graph, self.options))
        self._refuse_table_options()
        data = open_named(self.name, name=self.set_name, graph=self.variant, options=self.options)
        if self.labels is not None:
            data = with_label_table(data, self.labels, self.options)
        return RecordSource(data)

    def _refuse_table_options(self) -> None:
        given = {
            "--labels": self.labels,
            "--graph": self.graph,
            "--id": self.options.id_column,
            "--label": self.options.label_column,
        }
        if self.is_edge_list:  # labels by id are all that it lacks
            given = {"--graph": self.graph}
        option = next((name for name, value in given.items() if value is not None), None)
        if option is not None and (self.name in DATASETS or Path(self.name).exists()):
            raise InputError(
                f"{option} must come with a table ({', '.join(TABLE_SUFFIXES)}), got it with "
                f"{shown(self.name)}."
            )


class TakenRows(NamedTuple):
    """Some rows of the data: of their features, and of the given graph if there is one."""

    features: Any
    graph: sp.csr_matrix | None


@dataclass(frozen=True)
class OpenedSource:
    """Data as they were read, with what a user should know about the reading.

    ``report`` tells how a table's columns became features; ``None`` for other formats.
    ``known_digest`` is there where the data lack the values that it is made of.
    """

    source: Source
    data: NodeData
    notes: tuple[str, ...] = ()
    report: TableReport | None = None
    known_digest: str | None = None

    @classmethod
    def of(cls, source: Source, rows: RowSource, data: NodeData) -> "OpenedSource":
        """Keep what is known of where ``data`` were read from."""
        beside, report = source.edges_found, rows.report
        found = () if beside is None else (f"graph: taken from {beside.name}",)
        return cls(source, data, found + (report.lines() if report else ()), report)

    @property
    def digest(self) -> str:
        """A text that changes with the data."""
        return self.known_digest or RecordSource(self.data).digest

    def without_graph(self) -> "OpenedSource":
        """Return the same data with the given graph left out."""
        return dataclasses.replace(self, data=self.data.replace(graph=None))


@dataclass(frozen=True)
class Reading:
    """What to read and which labels to show: enough to open the same data twice."""

    source: Source
    no_graph: bool = False
    labels_per_class: int | None = None
    seed: int = 0

    def open(self, peers: Peers = ALONE) -> tuple[OpenedSource, Split, TakenRows]:
        """Read the data, choose the split, and take the rows of this process.

        Of several processes none keeps feature values of other rows, and where the format allows
        it does not read them. The given graph is whole in process 0 alone, which counts its edges.
        """
        if peers.size == 1:
            opened = self.source.open()
            opened = opened.without_graph() if self.no_graph else opened
            rows = TakenRows(opened.data.features, opened.data.graph)
        else:
            opened, rows = self._open_part(peers)
        return opened, choose_split(opened.data, self.labels_per_class, self.seed), rows

    def _open_part(self, peers: Peers) -> tuple[OpenedSource, TakenRows]:
        source = self.source.rows()
        own = Partition(source.record.n_nodes, peers).rows
        rows = TakenRows(source.features(own), None if self.no_graph else source.graph_rows(own))
        data, digest = source.record, None
        if peers.rank == 0:
            whole = None if self.no_graph else source.graph_rows(slice(None))
            data, digest = data.replace(graph=whole), source.digest
        opened = OpenedSource.of(self.source, source, data)
        return dataclasses.replace(opened, known_digest=digest), rows


def choose_split(data: NodeData, labels_per_class: int | None, seed: int) -> Split:
    """Return which labels train and which are kept for the test.

    Parameters
    ----------
    data
        The record.
    labels_per_class
        Draw this many training labels of each class; all other known labels test. ``None``: the
        published split where there is one, the paper's for the terror sets, 20 a class for the
        data sets that come with glnn. Elsewhere every known label trains, and none tests.
    seed
        Number of the draw.
    """
    _check_labels(data)
    if labels_per_class is not None:
        return _per_class(data, labels_per_class, seed)
    if {"train", "test"}.issubset(data.splits):
        return make_split(data, "public", seed)
    if data.name in PAPER_COUNTS:
        return make_split(data, "paper", seed)
    if data.name in EMBEDDED:
        return _per_class(data, DEFAULT_PER_CLASS, seed)
    none = np.empty(0, dtype=np.int64)
    train = data.splits.get("train", np.setdiff1d(data.labelled, data.splits.get("val", none)))
    parts = {"train": train, "val": data.splits.get("val", none)}
    return Split(**parts, test=none, name="all known labels", seed=seed, dataset=data.name)


def _per_class(data: NodeData, labels_per_class: int, seed: int) -> Split:
    count = check_integer("--labels-per-class", labels_per_class, low=1)
    sizes = class_sizes(data)
    n_rest = int(sizes.sum() - count * (sizes > 0).sum())
    kept = {"n_val": 0, "n_test": max(0, n_rest)}
    return make_split(data, "per_class", seed, n_per_class=count, **kept)


def _check_labels(data: NodeData) -> None:
    """Refuse data without two classes, and a class whose name means unlabelled elsewhere."""
    n_known = int((class_sizes(data) > 0).sum())
    if n_known < 2:
        got, advice = (
            ("no label at all", "Name the column with --label, or the file with --labels.")
            if n_known == 0
            else ("one class only", "Label rows of another one; is --label the right column?")
        )
        raise InputError(
            f"{shown(data.name)} must have labels of at least two classes, got {got}. {advice}"
        )
    if "-1" in data.class_names:
        raise InputError(
            "a class must not be named '-1', which marks rows without a label. "
            "Leave those cells empty, or rename the class."
        )
