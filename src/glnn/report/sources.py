"""Find and read the data that a user names (a data set, table or other file), and split labels."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_integer
from glnn.data import DATASETS, NodeData, Split, TableReport, make_split, read_tables
from glnn.data.datasets import BUILT_IN
from glnn.data.files import quote, quote_path
from glnn.data.formats import is_edge_list, is_edge_table, open_data
from glnn.data.row_source import RecordSource, open_rows
from glnn.data.splits import class_sizes
from glnn.data.table_files import TABLE_SUFFIXES, find_edge_table
from glnn.data.table_text import DEFAULT_OPTIONS, TableOptions, table_suffix
from glnn.data.tables import guess_label_column, replace_labels
from glnn.exceptions import InputError

if TYPE_CHECKING:  # it imports PyTorch, which takes seconds and is not needed to read data
    from glnn.distributed import Peers

DEFAULT_PER_CLASS = 20
NO_GRAPH = Path("none")  # as an edge list: the graph of the data is ignored


@dataclass(frozen=True, eq=False)
class Source:
    """The data of a run: a name or path, how to read and split them, and, once read, the data.

    With several processes each keeps the feature values of its own rows only, and reads no others
    if the format allows. Only process 0 has the whole given graph, to count its edges.
    """

    name: str  # a data set's name, or the path of a file or folder
    labels: Path | None = None  # table of labels by id
    graph: Path | None = None  # edge list by ids; the path "none": ignore a given graph
    options: TableOptions = DEFAULT_OPTIONS  # how to use the columns of a table
    labels_per_class: int | None = None  # see choose_split
    seed: int = 0  # of the split
    peers: "Peers | None" = None  # None: a single process

    @property
    def is_split(self) -> bool:
        """Whether there are several processes."""
        return self.peers is not None and self.peers.size > 1

    @property
    def is_table(self) -> bool:
        """Whether the source is a table with a row for each node."""
        path = Path(self.name)
        if self.name in DATASETS or table_suffix(path) not in TABLE_SUFFIXES:
            return False
        return path.exists() and not is_edge_table(path, self.options)

    @property
    def no_graph(self) -> bool:
        """Whether a given graph is ignored."""
        return self.graph == NO_GRAPH

    @property
    def adjacent_edge_file(self) -> Path | None:
        """The edge list in the same folder as a table, if nothing is said about its graph."""
        return find_edge_table(Path(self.name)) if self.is_table and self.graph is None else None

    @cached_property
    def rows(self) -> RecordSource:
        """The data by rows: for several processes from the file if its format allows."""
        graph = None if self.no_graph else self.graph or self.adjacent_edge_file
        if not self.is_table:
            self._check_table_options()
        if self.is_split and self.name not in DATASETS and Path(self.name).is_file():
            found = open_rows(Path(self.name), self.options, graph, self.labels)
            if found is not None:
                return found
        if self.is_table:
            return RecordSource(*read_tables(self.name, self.labels, graph, self.options))
        data = open_data(self.name, self.options)
        if self.labels is not None:
            data = replace_labels(data, self.labels, self.options)
        return RecordSource(data.replace(graph=None) if self.no_graph else data)

    @cached_property
    def data(self) -> NodeData:
        """The data that were read; without feature values if there are several processes."""
        rows = self.rows
        if self.peers is None or self.peers.size == 1:
            return rows.data
        if self.peers.rank == 0 and not self.no_graph:
            return rows.record.replace(graph=rows.graph_rows(slice(None)))
        return rows.record

    @cached_property
    def split(self) -> Split:
        """Which labels are for training, validation and test."""
        return choose_split(self.data, self.labels_per_class, self.seed)

    @property
    def visible_labels(self) -> np.ndarray:
        """The labels for training and validation; all other nodes are unlabelled."""
        return self.data.visible_labels(np.concatenate([self.split.train, self.split.val]))

    @cached_property
    def local_rows(self) -> tuple[Any, sp.csr_matrix | None]:
        """Features and given graph of the rows of this process."""
        if self.peers is None or self.peers.size == 1:
            return self.data.features, self.data.graph
        from glnn.distributed import Partition

        own = Partition(self.rows.record.n_nodes, self.peers).rows
        return self.rows.features(own), None if self.no_graph else self.rows.graph_rows(own)

    @property
    def report(self) -> TableReport | None:
        """How the columns of a table became features."""
        return self.rows.report

    @property
    def fold_columns(self) -> dict[str, Any]:
        """Groups and times of the rows of a table, which say what folds hide together."""
        report = self.report
        return {} if report is None else {"groups": report.groups, "times": report.times}

    @property
    def id_name(self) -> str:
        """The name of the id column in the user's table."""
        return (self.report and self.report.columns.id) or "id"

    @property
    def table(self) -> Any:
        """The user's table without ids and labels, or the features of other data.

        ``None`` with several processes.
        """
        if self.is_split:
            return None
        if self.report is None or self.report.frame is None:
            return self.data.features
        plan = self.report.columns
        return self.report.frame.drop(columns=[plan.id, plan.label, plan.split], errors="ignore")

    @property
    def digest(self) -> str:
        """A hash of the data."""
        return self.rows.digest

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out or encoded."""
        beside = self.adjacent_edge_file
        found = () if beside is None else (f"graph: taken from {beside.name}",)
        return found + (self.report.lines() if self.report else ())

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns of a table, and what was done with each."""
        return tuple(self.report.column_rows()) if self.report else ()

    def describe(self) -> dict[str, Any]:
        """Return where the source is, to open it again with its options; ready for JSON."""
        files: dict[str, Any] = {"name": self.name, "labels": self.labels, "graph": self.graph}
        for key, path in files.items():
            if path is not None and path not in (*DATASETS, NO_GRAPH) and Path(path).exists():
                files[key] = str(Path(path).resolve())
        return files | {"graph": str(NO_GRAPH) if self.no_graph else files["graph"]}

    def suggest_label(self) -> str | None:
        """Return a question that suggests a label column for a table without one, or ``None``."""
        report, likely = self.report, None
        if report and report.frame is not None and not report.columns.label and not self.labels:
            likely = guess_label_column(report.columns.features, report.frame.__getitem__)
        if likely is None:
            return None
        asked = f"Is it {quote(likely)}? Then add --label {quote(likely)}."
        return f"{quote_path(Path(self.name))} has no column named 'label'. {asked}"

    def _check_table_options(self) -> None:
        own, path, is_set = self.options, Path(self.name), self.name in DATASETS
        given: dict[str, Any] = {
            "--graph": None if self.no_graph else self.graph,
            "--group": own.group_column,
            "--time": own.time_column,
            "--features": own.features,
            "--drop": own.drop,
        }
        if is_set or not path.is_file() or not is_edge_list(path, own):
            given |= {"--labels": self.labels, "--id": own.id_column, "--label": own.label_column}
        if is_set:
            given |= {"--as": own.kinds, "--na": own.na, "--sheet": own.sheet}
            given |= {"--source": own.source_column, "--target": own.target_column}
            given["--weight"] = own.weight_column
        option = next((name for name, value in given.items() if value), None)
        if option is not None and (is_set or path.exists()):
            raise InputError(
                f"{option} must come with a table ({', '.join(TABLE_SUFFIXES)}), got it with "
                f"{quote(self.name)}."
            )


def choose_split(data: NodeData, labels_per_class: int | None, seed: int) -> Split:
    """Return the split of the labels into training, validation and test.

    With ``labels_per_class`` that many training labels of each class are drawn, and all other
    known labels are for the test. Without it: the published split if there is one, 20 labels a
    class for the data sets that come with glnn. In all other data every known label is for
    training.
    """
    n_known = int((class_sizes(data) > 0).sum())
    if n_known < 2:
        got = "one class only. Label rows of another one; is --label the right column?"
        if n_known == 0:
            got = "no label at all. Name the column with --label, or the file with --labels."
        raise InputError(f"{quote(data.name)} must have labels of at least two classes, got {got}")
    if "-1" in data.class_names:
        raise InputError(
            "a class must not be named '-1', which marks rows without a label. "
            "Leave those cells empty, or rename the class."
        )
    if labels_per_class is not None:
        return _split_per_class(data, labels_per_class, seed)
    if {"train", "test"}.issubset(data.splits):
        return make_split(data, "public", seed)
    if data.name in BUILT_IN:
        return _split_per_class(data, DEFAULT_PER_CLASS, seed)
    none = data.labelled[:0]
    val = data.splits.get("val", none)
    train = data.splits.get("train", np.setdiff1d(data.labelled, val))
    return Split(train, val, none, name="all known labels", seed=seed, dataset=data.name)


def _split_per_class(data: NodeData, labels_per_class: int, seed: int) -> Split:
    count = check_integer("--labels-per-class", labels_per_class, low=1)
    sizes = class_sizes(data)
    n_rest = max(0, int(sizes.sum() - count * (sizes > 0).sum()))
    return make_split(data, "per_class", seed, n_per_class=count, n_val=0, n_test=n_rest)
