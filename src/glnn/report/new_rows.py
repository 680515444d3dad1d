"""New rows for a finished run: read like its own, put in its columns, classified."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data import NodeData, read_tables
from glnn.data.edges import read_edges
from glnn.data.files import shown, shown_path
from glnn.data.graph_npz import read_graph_npz
from glnn.data.rows import column_names, open_table
from glnn.estimator import GLNNClassifier
from glnn.exceptions import CheckpointError, InputError


@dataclass(frozen=True, eq=False)
class NewPredictions:
    """Classes of new rows, by the ids of their table.

    ``accuracy`` is that of the rows whose label the table knows, if it has the label column.
    """

    ids: np.ndarray
    labels: np.ndarray
    probabilities: np.ndarray
    classes: list[str]
    notes: tuple[str, ...] = ()
    accuracy: float | None = None

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
        CSV, TSV or Parquet with the columns of the training data, found by name.
    links
        An edge list between ids of new rows and ids of the training data.
    """
    page = _read_page(run)
    model = GLNNClassifier.load(run)
    data = _read_new(table, page)
    features, notes = align_columns(data, page, table)
    joined, more = (None, ()) if links is None else _read_links(run, data, links)
    probabilities = model.predict_proba(features, joined)
    classes = [str(name) for name in model.classes_]
    labels = np.array(classes)[probabilities.argmax(1)]
    return NewPredictions(
        data.node_ids, labels, probabilities, classes, (*notes, *more), _accuracy(data, labels)
    )


def align_columns(
    data: NodeData, page: dict[str, Any], table: Path
) -> tuple[sp.csr_matrix, tuple[str, ...]]:
    """Return the features in the order of the training columns, and what was left out.

    One-hot columns of values that the new rows lack are zero; values and columns that training
    did not have are left out.
    """
    wanted, have = page["feature_names"], data.feature_names or ()
    if wanted is None:
        return data.features, ()  # no names: the model checks their number
    encoded = tuple(f"{column}=" for column in page["encoded_columns"])
    place = {name: number for number, name in enumerate(have)}
    missing = [n for n in wanted if n not in place and not _encoded_elsewhere(n, encoded, have)]
    if missing:
        more = ", ..." if len(missing) > 3 else ""
        raise InputError(
            f"{shown_path(table)} must have the columns of the training data, got none named "
            f"{', '.join(map(shown, missing[:3]))}{more}."
        )
    blank = sp.csr_matrix((data.n_nodes, 1), dtype=np.float32)
    parts = [data.features[:, place[n]] if n in place else blank for n in wanted]
    known = set(wanted)
    extra = [name for name in have if name not in known]
    more = f" and {len(extra) - 3} more" if len(extra) > 3 else ""
    note = f"features: left out {', '.join(map(shown, extra[:3]))}{more}"
    return sp.csr_matrix(sp.hstack(parts, format="csr")), (note,) if extra else ()


def _encoded_elsewhere(name: str, encoded: tuple[str, ...], have: tuple[str, ...]) -> bool:
    """Whether a one-hot column is absent only because no new row has its value."""
    prefix = next((start for start in encoded if name.startswith(start)), None)
    return prefix is not None and any(other.startswith(prefix) for other in have)


def _read_page(run: Path) -> dict[str, Any]:
    try:
        page = json.loads((run / "data.json").read_text(encoding="utf-8"))
        whole = page["format"] == "glnn data" and page["version"] == 1
    except FileNotFoundError:
        raise InputError(
            f"{shown_path(run)} must be a run folder of glnn fit, got none: data.json is missing."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise CheckpointError(f"{shown_path(run)} has a data.json that this glnn cannot read.")
    return dict(page)


def _read_new(table: Path, page: dict[str, Any]) -> NodeData:
    """Read the new table like the old one; the label column may be absent."""
    names = column_names(open_table(table))
    label = page["label_column"] or "label"
    data, _ = read_tables(
        table,
        None,
        None,
        page["id_column"],
        label if label in names else None,
        encode=page["encode"],
    )
    return data


def _read_links(run: Path, data: NodeData, links: Path) -> tuple[sp.csr_matrix, tuple[str, ...]]:
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


def _accuracy(data: NodeData, labels: np.ndarray) -> float | None:
    known = data.labelled
    if not known.size:
        return None
    truth = np.array(data.class_names)[data.labels[known]]
    return float((truth == labels[known]).mean())
