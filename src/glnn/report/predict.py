"""Read new rows like the training data of a run, classify them, and score those with a label."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from glnn.data.edges import read_edges
from glnn.data.encode import ColumnCode, TableEncoder
from glnn.data.files import quote, quote_path
from glnn.data.node_data import ids_from_text
from glnn.data.table_text import TableOptions, strip_cells, to_text
from glnn.data.tables import index_ids, read_table, settle_labels
from glnn.engine.archive import read_record, write_record
from glnn.engine.model import digest_rows, lookup_training_rows
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.quality.metrics import accuracy_interval
from glnn.report.results import find_run_file
from glnn.report.sources import Source
from glnn.report.text import UNCALIBRATED, format_count, format_percent

# How the data of a run were read

DATA_FORMAT = ("glnn data", 5)  # kind and version of data.json


@dataclass(frozen=True)
class DataDescription:
    """How the data of a run were read, to read new rows in the same way: ``data.json``."""

    feature_names: tuple[str, ...] | None
    options: TableOptions
    encoder: TableEncoder | None  # None if the data were no table
    id_column: str | None
    label_column: str | None
    source: dict[str, Any] = field(default_factory=dict)  # where the data are: Source.describe

    @classmethod
    def of(cls, source: Source) -> "DataDescription":
        """Describe the data of a source."""
        report, options = source.report, source.options
        plan = None if report is None else report.columns
        return cls(
            source.data.feature_names,
            options,
            None if report is None else report.encoder,
            None if plan is None else plan.id,
            options.label_column or (None if plan is None else plan.label),
            source.describe(),
        )

    def write(self, path: Path) -> None:
        """Write ``data.json``."""
        write_record(path, *DATA_FORMAT, self)

    @classmethod
    def read(cls, run: Path) -> "DataDescription":
        """Read ``data.json`` of a run folder."""
        return read_record(find_run_file(run, "data.json"), *DATA_FORMAT, cls, "Fit again")

    def make_encoder(self) -> TableEncoder:
        """Return the encoder of the run, or one that takes numeric columns by their names."""
        if self.encoder is not None:
            return self.encoder
        if self.feature_names is None:
            raise InputError(
                "the training data of this run must have named columns for new tables to be read, "
                "got none. Use GLNNClassifier.load in Python."
            )
        return TableEncoder(tuple(ColumnCode(name) for name in self.feature_names))


# New rows


def describe_accuracy(
    truth: Sequence[str], predicted: np.ndarray, seen: Bool[np.ndarray, "n"]
) -> list[str]:
    """Return the accuracy on rows with a label in one line; an empty text is no label.

    Rows whose label was used in training (``seen``) are left out. No line if no row has a label.
    """
    labels = np.array(truth, dtype=object)
    known = labels != ""
    judged = known & ~seen
    n_judged, n_seen = int(judged.sum()), int((known & seen).sum())
    left_out = f"left out {format_count(n_seen, 'row')} used in training"
    if not n_judged:
        return [f"no accuracy: {left_out}, and no other row has a label"] if n_seen else []
    found = accuracy_interval(int((labels == predicted)[judged].sum()), n_judged)
    line = (
        f"accuracy on {format_count(n_judged, 'row')} with a label not used in training: "
        f"{format_percent(found.value)} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    )
    return [f"{line}; {left_out}" if n_seen else line]


def find_training_rows(
    model: GLNNClassifier, features: sp.csr_matrix, ids: np.ndarray | None
) -> Bool[np.ndarray, "n"]:
    """Return which rows of a table are nodes of the run whose label was used in training.

    They are found by their ids or, if run or table has none, by their values.
    """
    given = model.fitted_nodes().labels >= 0
    if model.row_names_ is not None and ids is not None:
        return np.isin(ids.astype(str), model.row_names_[given].astype(str))
    digests = digest_rows(model._check_features(features, reset=False))
    known = model._model.digests
    equal, shares = lookup_training_rows(digests, known, given[:, None].astype(float))
    seen = np.zeros(len(equal), dtype=bool)
    seen[equal] = shares[:, 0] > 0
    return seen


def run_ids(model: GLNNClassifier) -> np.ndarray:
    """Return the ids of the nodes of a run, or their numbers if they have none."""
    names = model.row_names_
    return np.arange(len(model.label_distributions_)) if names is None else np.asarray(names)


@dataclass(frozen=True, eq=False)
class NewPredictions:
    """Predicted classes of the rows of a table."""

    ids: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray
    classes: list[str]
    notes: tuple[str, ...]
    accuracy: list[str]  # a line on the rows with a label, if there are any
    id_name: str = "id"  # of the id column in the training data


def predict_rows(run: Path, table: Path, links: Path | None = None) -> NewPredictions:
    """Classify the rows of a table with the model of a run folder.

    ``links`` is an edge list between ids of new rows and ids of the training data.
    """
    description = DataDescription.read(run)
    model = GLNNClassifier.load(run)
    new = read_new_rows(table, description)
    joined, more = (None, ()) if links is None else _read_links(model, new, links)
    probabilities = model.predict_proba(new.features, joined)
    classes = [str(name) for name in model.classes_]
    labels = np.array(classes)[probabilities.argmax(1)]
    seen = np.zeros(len(labels), dtype=bool)
    if any(new.labels):
        seen = find_training_rows(model, new.features, new.ids)
    accuracy = describe_accuracy(new.labels, labels.astype(object), seen)
    notes = (*new.notes, *more, *[UNCALIBRATED] * model.calibration_.is_identity)
    ids = np.arange(len(labels)) if new.ids is None else new.ids
    id_name = description.id_column or "id"
    return NewPredictions(ids, labels, probabilities, classes, notes, accuracy, id_name)


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of a new table: features as in training, ids and labels."""

    features: sp.csr_matrix
    ids: np.ndarray | None
    labels: list[str]
    notes: tuple[str, ...]


def read_new_rows(table: Path, description: DataDescription) -> NewRows:
    """Read a new table with the columns, encodings and medians of the training data.

    Columns that are not in the training data are left out; the label column may be missing.
    """
    options, encoder = description.options, description.make_encoder()
    id_column, label = description.id_column, description.label_column or "label"
    frame = read_table(table, options.replace(id_column=id_column, label_column=label))
    id_column = id_column if id_column in frame else None
    if id_column is None and options.id_column is not None:
        raise InputError(
            f"{quote_path(table)} must have the id column {quote(options.id_column)}, got none."
        )
    features = encoder.transform(frame, quote_path(table))
    texts = None if id_column is None else to_text(frame[id_column])
    labels = [""] * len(frame)
    if label in frame:
        labels, _ = settle_labels(strip_cells(frame[label]), options)
    unused = (id_column, label, "split", options.group_column, options.time_column)
    notes = tuple(encoder.notes_on_new(frame, unused))
    return NewRows(features, None if texts is None else ids_from_text(texts), labels, notes)


def _read_links(
    model: GLNNClassifier, data: NewRows, links: Path
) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    """Return the links from new rows to training rows, and a note on all other edges."""
    if data.ids is None:
        raise InputError("the new rows must have an id column for --links, got none.")
    old, new = (ids.astype(str).tolist() for ids in (run_ids(model), data.ids))
    shared = sorted(set(old) & set(new))
    if shared:
        raise InputError(
            "ids of new rows must differ from those of the training data for --links, got "
            f"{quote(shared[0])} in both."
        )
    joined, report = read_edges(links, index_ids([*old, *new], "a table with --links"))
    across = joined[len(old) :, : len(old)]
    n_other = report.n_rows - report.n_repeated - report.n_self_loops - int(across.nnz)
    notes = (f"links: left out {n_other} edges that join no new row to a training row",)
    return sp.csr_matrix(across), notes if n_other else ()
