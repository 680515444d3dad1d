"""What leaves glnn: a learned graph in the format of its file name, and predictions as CSV."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._validation import check_choice
from glnn.data.arrays import canonical_ids
from glnn.data.files import shown
from glnn.data.graph_npz import write_graph_npz
from glnn.data.network_files import NETWORK_SUFFIXES, write_network_graph
from glnn.data.spreadsheet import safe_cell
from glnn.data.table_out import write_edge_table, write_frames
from glnn.exceptions import InputError

GRAPH_SUFFIXES = (".npz", ".csv", ".tsv", *NETWORK_SUFFIXES)


def write_graph(adjacency: Any, path: str | Path, ids: Any = None) -> None:
    """Write an undirected graph; the suffix of the path decides how.

    Parameters
    ----------
    adjacency
        A symmetric sparse matrix.
    path
        ``.npz`` (CSR, also for SciPy), ``.csv`` or ``.tsv`` (source, target, weight),
        ``.graphml`` or ``.gexf``. All but npz leave the diagonal out.
    ids
        The nodes' names; their numbers by default.
    """
    path = Path(path)
    suffix = check_choice("the suffix of the graph's path", path.suffix.lower(), GRAPH_SUFFIXES)
    graph = _checked_graph(adjacency)
    names = np.arange(graph.shape[0]) if ids is None else canonical_ids(ids, graph.shape[0])
    if suffix == ".npz":
        write_graph_npz(path, graph, None if ids is None else names)
    elif suffix in NETWORK_SUFFIXES:
        write_network_graph(path, graph, names)
    else:
        write_edge_table(path, graph, names)


def _checked_graph(adjacency: Any) -> sp.csr_matrix:
    if not sp.issparse(adjacency) or adjacency.shape[0] != adjacency.shape[1]:
        shape = getattr(adjacency, "shape", type(adjacency).__name__)
        raise InputError(f"adjacency must be a square sparse matrix, got {shape}.")
    graph = sp.csr_matrix(adjacency, copy=True)
    graph.sum_duplicates()
    graph.eliminate_zeros()
    if not np.isfinite(graph.data).all() or (graph != graph.T).nnz:
        raise InputError(
            "adjacency must be finite and symmetric, got a graph that is not. "
            "Make it undirected with graph.maximum(graph.T)."
        )
    return graph


def write_predictions(
    path: str | Path,
    ids: Any,
    labels: Sequence[Any] | np.ndarray,
    probabilities: Any,
    classes: Sequence[Any] | np.ndarray,
    *,
    given: Sequence[str] | None = None,
    held_out: Sequence[str] | None = None,
    spreadsheet_safe: bool = False,
) -> None:
    """Write one line a node: id, predicted label, its probability, and that of every class.

    Parameters
    ----------
    path
        A ``.csv`` or ``.tsv`` file.
    ids
        The nodes' names, or ``None`` for their numbers.
    labels
        The predicted class of each node, as it appears in ``classes``.
    probabilities
        Nodes x classes, in the order of ``classes``.
    classes
        The class names.
    given
        The label that each node was given, empty where there is none.
    held_out
        Whether a labelled node was predicted without its own label: ``yes`` or ``no``, empty for
        nodes without one.
    spreadsheet_safe
        Put an apostrophe before text that a spreadsheet would take for a formula.
    """
    table = np.asarray(probabilities, dtype=np.float64)
    names = [str(name) for name in np.asarray(classes).tolist()]
    chosen = [str(label) for label in np.asarray(labels).tolist()]
    nodes = np.arange(len(chosen)) if ids is None else np.asarray(ids)
    if table.shape != (len(chosen), len(names)) or nodes.shape != (len(chosen),):
        raise InputError(
            f"ids, labels and probabilities must have one row for each node and one column for "
            f"each of the {len(names)} classes, got {nodes.shape}, ({len(chosen)},), {table.shape}."
        )
    place = {name: column for column, name in enumerate(names)}
    strange = next((label for label in chosen if label not in place), None)
    if strange is not None:
        raise InputError(f"labels must be among classes, got {shown(strange)}.")
    columns: dict[str, Any] = {"id": nodes}
    columns |= {} if given is None else {"given_label": list(given)}
    columns["predicted"] = chosen
    columns["probability"] = table[np.arange(len(chosen)), [place[label] for label in chosen]]
    columns |= {f"p({name})": table[:, column] for name, column in place.items()}
    columns |= {} if held_out is None else {"held_out": list(held_out)}
    frame = pd.DataFrame(columns).map(_short)
    if spreadsheet_safe:
        frame = frame.map(safe_cell).rename(columns=safe_cell)
    write_frames(Path(path), [frame])


def _short(cell: Any) -> Any:
    return f"{cell:.6g}" if isinstance(cell, float) else cell
