"""New rows for a finished run: read like its own, put in its columns, classified."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from glnn.data.edges import read_edges
from glnn.data.encode import ColumnCode, TableEncoder
from glnn.data.files import shown, shown_path
from glnn.data.node_data import ids_from_text
from glnn.data.npz import read_graph_npz
from glnn.data.table_text import TableOptions, as_text, stripped
from glnn.data.tables import index_of, read_table
from glnn.engine.archive import read_sealed
from glnn.engine.model import known_distributions, row_digests
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.quality.metrics import Interval, accuracy_interval
from glnn.report.text import count, percent, raw_lines

# --- judged_rows: The labels of a new table against its predictions: those that the fit has seen d


@dataclass(frozen=True)
class JudgedRows:
    """Rows with a label: how many are right of those whose label the fit has not seen.

    Parameters
    ----------
    n_right, n_judged
        Rows whose label it has not seen.
    n_seen
        Rows left out, as the fit has seen their label.
    """

    n_right: int
    n_judged: int
    n_seen: int

    @classmethod
    def of(
        cls, truth: Sequence[str], predicted: np.ndarray, seen: Bool[np.ndarray, "n"]
    ) -> "JudgedRows":
        """Count; an empty text is no label.

        Examples
        --------
        >>> seen = np.array([True, False, False])
        >>> JudgedRows.of(["u", "u", ""], np.array(["u", "v", "v"]), seen)
        JudgedRows(n_right=0, n_judged=1, n_seen=1)
        """
        known = np.array(truth, dtype=object) != ""
        judged = known & ~seen
        is_right = np.array(truth, dtype=object) == predicted.astype(object)
        return cls(int((is_right & judged).sum()), int(judged.sum()), int((known & seen).sum()))

    @property
    def accuracy(self) -> Interval | None:
        """Share that is right, with its interval; nothing without a row to judge."""
        return accuracy_interval(self.n_right, self.n_judged) if self.n_judged else None

    def lines(self) -> list[str]:
        """Return the accuracy in one line, none where the table has no label."""
        found = self.accuracy
        left_out = f"{count(self.n_seen, 'row')} whose label the fit has seen"
        if found is None:
            why = f"no accuracy: left out {left_out}, and no other row has a label"
            return [why] if self.n_seen else []
        said = (
            f"accuracy on {count(self.n_judged, 'row')} with a label that the fit has not seen: "
            f"{percent(found.value)} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
        )
        return [f"{said}; left out {left_out}" if self.n_seen else said]


def seen_rows(
    run: Path, model: GLNNClassifier, features: sp.csr_matrix, ids: np.ndarray | None
) -> Bool[np.ndarray, "n"]:
    """Return which rows of a table are nodes of the run whose label its fit was given.

    They are found by their ids; where run or table has none, by their values, as the model does.

    Parameters
    ----------
    run, model
        The folder that a fit left, and its model.
    features, ids
        The rows of the table.
    """
    given = model.fitted_nodes().labels >= 0
    _, known = read_graph_npz(run / "graph.npz")
    if known is not None and ids is not None:
        names = [str(name) for name in known[given].tolist()]
        return np.isin([str(name) for name in ids.tolist()], names)
    fitted = model._model
    digests = row_digests(model._checked(features, reset=False))
    equal, shares = known_distributions(digests, fitted.digests, given[:, None].astype(float))
    seen = np.zeros(len(equal), dtype=bool)
    seen[equal] = shares[:, 0] > 0
    return seen


# --- new_rows: New rows for a finished run: read like its own, put in its columns, classified

DATA_PAGE = ("glnn data", 3)
"""Kind and version of ``data.json``."""


@dataclass(frozen=True, eq=False)
class NewPredictions:
    """Classes of new rows, by the ids of their table.

    ``judged`` counts rows whose label the table knows, if it has the label column.
    """

    ids: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray
    classes: list[str]
    notes: tuple[str, ...]
    judged: JudgedRows

    @property
    def confidence(self) -> np.ndarray:
        """The probability of each row's label."""
        return np.asarray(self.probabilities.max(1))


def predict_rows(run: Path, table: Path, links: Path | None = None) -> NewPredictions:
    """Classify the rows of a table with the model of a run folder.

    Parameters
    ----------
    run
        The folder that a fit left.
    table
        CSV, TSV, Excel or Parquet with the columns of the training data, found by name.
    links
        An edge list between ids of new rows and ids of the training data.
    """
    page = read_page(run)
    model = GLNNClassifier.load(run)
    new = read_new(table, page)
    joined, more = (None, ()) if links is None else _read_links(run, new, links)
    probabilities = model.predict_proba(new.features, joined)
    classes = [str(name) for name in model.classes_]
    labels = np.array(classes)[probabilities.argmax(1)]
    seen = np.zeros(len(labels), dtype=bool)
    if any(new.labels):
        seen = seen_rows(run, model, new.features, new.ids)
    judged = JudgedRows.of(new.labels, labels, seen)
    notes = (*new.notes, *more, *raw_lines(model.calibration_))
    return NewPredictions(new.node_ids, labels, probabilities, classes, notes, judged)


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of a new table: features like those of training, ids and known labels."""

    features: sp.csr_matrix
    ids: np.ndarray | None
    labels: list[str]
    notes: tuple[str, ...]

    @property
    def node_ids(self) -> np.ndarray:
        """The rows' ids, or their numbers where they have none."""
        return np.arange(self.features.shape[0]) if self.ids is None else self.ids


def read_new(table: Path, page: dict[str, Any]) -> NewRows:
    """Read a new table with the columns, encodings and medians of the training data.

    Parameters
    ----------
    table
        The file. Columns that training did not have are left out; that of the labels may be
        absent.
    page
        What ``data.json`` of the run folder holds.
    """
    options = TableOptions(**page["options"])
    named = {"id_column": page["id_column"], "label_column": page["label_column"]}
    frame = read_table(table, options.changed(**named))
    encoder = _encoder(page)
    id_column = page["id_column"] if page["id_column"] in frame else None
    if id_column is None and options.id_column is not None:
        raise InputError(
            f"{shown_path(table)} must have the id column {shown(options.id_column)}, got none."
        )
    features = encoder.transform(frame, shown_path(table))
    texts = None if id_column is None else as_text(frame[id_column])
    if texts is not None:
        index_of(texts, shown_path(table))
    label = page["label_column"] or "label"
    labels = stripped(frame[label]) if label in frame else [""] * len(frame)
    notes = tuple(encoder.notes_on_new(frame, (id_column, label, "split")))
    return NewRows(features, None if texts is None else ids_from_text(texts), labels, notes)


def _encoder(page: dict[str, Any]) -> TableEncoder:
    """Return the encoder of the run, or one that takes columns of numbers by their names."""
    if page["encoder"] is not None:
        return TableEncoder.from_dict(page["encoder"])
    if page["feature_names"] is None:
        raise InputError(
            "the training data of this run must have named columns for new tables to be read, "
            "got none. Use GLNNClassifier.load in Python."
        )
    return TableEncoder(tuple(ColumnCode(name) for name in page["feature_names"]))


def read_page(run: Path) -> dict[str, Any]:
    """Return how the data of a run folder were read, or say that it is none."""
    path = run / "data.json"
    if not path.is_file():
        raise InputError(
            f"{shown_path(run)} must be a run folder of glnn fit, got none: data.json is missing."
        )
    return read_sealed(path, *DATA_PAGE, "Fit again")


def _read_links(run: Path, data: NewRows, links: Path) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    """Return new rows x training rows, and how many edges joined something else."""
    graph, ids = read_graph_npz(run / "graph.npz")
    n_old = graph.shape[0]
    old = [str(name) for name in (np.arange(n_old) if ids is None else ids).tolist()]
    if data.ids is None:
        raise InputError("the new rows must have an id column for --links, got none.")
    new = [str(name) for name in data.ids.tolist()]
    shared = sorted(set(old) & set(new))
    if shared:
        raise InputError(
            "ids of new rows must differ from those of the training data for --links, got "
            f"{shown(shared[0])} in both."
        )
    index = {name: number for number, name in enumerate([*old, *new])}
    joined, report = read_edges(links, index)
    across = joined[n_old:, :n_old]
    n_other = report.n_rows - report.n_repeated - report.n_self_loops - int(across.nnz)
    notes = (f"links: left out {n_other} edges that join no new row to a training row",)
    return sp.csr_matrix(across), notes if n_other else ()
