"""Reading and writing of all file formats; the suffix of the path decides which.

Records, learned graphs, predictions, and a summary of a record for the terminal.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._utils import check_choice, did_you_mean, is_symmetric
from glnn.data.datasets import DATASETS, load_dataset, read_folder
from glnn.data.edges import SOURCE_NAMES, TARGET_NAMES, read_edge_list
from glnn.data.files import quote
from glnn.data.linqs import read_linqs
from glnn.data.network_files import (
    NETWORK_SUFFIXES,
    read_network,
    write_network,
    write_network_graph,
)
from glnn.data.node_data import (
    NodeData,
    are_equal,
    canonicalize_ids,
    check_weights,
    ids_from_text,
    symmetric_from_pairs,
)
from glnn.data.npz import (
    DEFAULT_GRAPH,
    NpzFile,
    read_graph_npz,
    read_node_npz,
    write_graph_npz,
    write_node_npz,
)
from glnn.data.planetoid import read_planetoid
from glnn.data.table_files import (
    TABLE_SUFFIXES,
    escape_formula,
    find_edge_table,
    read_first_row,
    write_edge_table,
    write_frame,
    write_node_table,
)
from glnn.data.table_text import DEFAULT_OPTIONS, TableOptions, table_suffix
from glnn.data.tables import read_tables
from glnn.exceptions import InputError

# Records

EDGE_LIST_SUFFIXES = (".edges", ".edgelist", ".txt", ".cites")
READ_SUFFIXES = (
    ".npz",
    *TABLE_SUFFIXES,
    *NETWORK_SUFFIXES,
    ".content",
    ".nodes",
    *EDGE_LIST_SUFFIXES,
)
WRITE_SUFFIXES = (".npz", ".csv", ".tsv", ".parquet", *NETWORK_SUFFIXES)


def read_data(
    path: str | Path,
    *,
    graph: str = DEFAULT_GRAPH,
    options: TableOptions = DEFAULT_OPTIONS,
    **changes: Any,
) -> NodeData:
    """Read a record from a file or folder of any supported format.

    ``path`` is an ``.npz``, ``.csv``, ``.tsv``, ``.xlsx``, ``.parquet``, ``.feather``, ``.jsonl``,
    ``.graphml``, ``.gexf``, ``.content`` or ``.nodes`` file (text may be compressed, as in
    ``.csv.gz``), an edge list (``.edges``, ``.edgelist``, ``.txt``, ``.cites``, or a table that
    begins with source and target), or a folder with the Planetoid or terror files, or one of its
    files ``ind.NAME.*`` if it has several sets. ``graph`` names one of several graphs, such as
    ``"loc_org"`` of Terror Attack. ``options`` and ``changes`` say how to use the columns of a
    table; see :func:`glnn.data.read_tables`. A graph without features gets the identity matrix.
    """
    path, options = Path(path), options.replace(**changes)
    if path.is_dir():
        return read_folder(path, graph)
    if path.name.startswith("ind.") and path.name.count(".") >= 2:
        return read_planetoid(path.parent, path.name.split(".")[1])
    suffix = check_choice(f"the suffix of {path.name}", table_suffix(path), READ_SUFFIXES)
    if suffix == ".npz":
        with NpzFile(path) as file:
            has_features = "features_shape" in file or "indptr" not in file
        if has_features:
            return read_node_npz(path, graph=graph)
        return _record_from_graph(path, *read_graph_npz(path))
    if suffix in NETWORK_SUFFIXES:
        return read_network(path, options)
    if suffix in (".content", ".nodes"):
        return read_linqs(path)
    if is_edge_list(path, options):
        matrix, ids = read_edge_list(path)
        return _record_from_graph(path, matrix, ids_from_text(ids))
    return read_tables(path, None, find_edge_table(path), options)[0]


def is_edge_table(path: Path, options: TableOptions = DEFAULT_OPTIONS) -> bool:
    """Whether the first two columns of a table are named source and target or similar."""
    first = [cell.strip().lower() for cell in read_first_row(path, options)[:2]]
    return len(first) == 2 and first[0] in SOURCE_NAMES and first[1] in TARGET_NAMES


def is_edge_list(path: Path, options: TableOptions = DEFAULT_OPTIONS) -> bool:
    """Whether a file is a list of edges, by its suffix or as a table of edges."""
    suffix = table_suffix(path)
    return suffix in EDGE_LIST_SUFFIXES or (
        suffix in TABLE_SUFFIXES and is_edge_table(path, options)
    )


def _record_from_graph(path: Path, graph: sp.csr_matrix, ids: np.ndarray | None) -> NodeData:
    n_nodes, coo = graph.shape[0], graph.tocoo()
    weights = check_weights(coo.data)
    return NodeData(
        features=sp.identity(n_nodes, dtype=np.float32, format="csr"),
        labels=np.full(n_nodes, -1, dtype=np.int64),
        graph=symmetric_from_pairs(coo.row, coo.col, n_nodes, weights),
        ids=ids,
        name=path.stem,
        provenance={"format": "a graph without features"},
    )


def write_data(data: NodeData, path: str | Path) -> None:
    """Write a record; the suffix of the path decides how.

    ``.npz`` holds everything. ``.csv``, ``.tsv`` and ``.parquet`` hold the nodes; the edges are
    written to a second file beside it (``people.csv``, ``people.edges.csv``). ``.graphml`` and
    ``.gexf`` hold both. All but npz store class names without numbers, so the order of the classes
    and classes without a node are lost. A graph without features and labels is written without its
    identity matrix; a table is then a list of edges, unless there are nodes without an edge.
    """
    path = Path(path)
    suffix = check_choice(f"the suffix of {path.name}", path.suffix.lower(), WRITE_SUFFIXES)
    alone = is_graph_only(data)
    if suffix == ".npz":
        write_node_npz(data, path)
    elif suffix in NETWORK_SUFFIXES and alone:
        write_network_graph(path, data.graph, data.node_ids)
    elif suffix in NETWORK_SUFFIXES:
        write_network(data, path)
    elif data.graph is not None and alone and np.diff(data.graph.indptr).all():
        write_edge_table(path, data.graph, data.node_ids)
    else:
        write_node_table(data, path)


def is_graph_only(data: NodeData) -> bool:
    """Whether a record has only a graph: no labels, no split, the identity as features."""
    if data.graph is None or data.splits or data.feature_names is not None or data.labelled.size:
        return False
    return are_equal(data.features, sp.identity(data.n_nodes, format="csr"))


# Records by name, and their summary


def open_data(source: str, options: TableOptions = DEFAULT_OPTIONS) -> NodeData:
    """Load the data set of that name, or read the file or folder at that path."""
    check_source(source)
    if source in DATASETS:
        return load_dataset(source)
    return read_data(Path(source), options=options)


def check_source(source: str) -> None:
    """Raise if there is neither a data set of that name nor a file or folder at that path."""
    if source not in DATASETS and not Path(source).exists():
        raise InputError(
            f"{quote(source, limit=200)} must be a file, a folder or one of {', '.join(DATASETS)}; "
            f"got neither.{did_you_mean(source, DATASETS)}"
        )


def iter_summary(data: NodeData) -> Iterator[tuple[str, str]]:
    """Yield the rows of a record's summary, (title, value)."""
    yield "name", data.name
    yield "nodes", f"{data.n_nodes:,}"
    yield "edges", "no graph" if data.graph is None else f"{data.n_edges:,}"
    yield "features", f"{data.n_features:,} ({data.features.nnz:,} entries other than 0)"
    sizes = np.bincount(data.labels[data.labelled], minlength=data.n_classes)
    yield "classes", ", ".join(f"{c} ({n})" for c, n in zip(data.class_names, sizes)) or "none"
    yield "unlabelled", f"{data.n_nodes - data.labelled.size:,}"
    if data.graph is not None:
        isolated = int((np.diff(data.graph.indptr) == 0).sum())
        yield "homophily", f"{data.homophily:.3f}"
        yield "without an edge", f"{isolated:,}"
    parts = ", ".join(f"{key} {nodes.size}" for key, nodes in data.splits.items())
    yield "public split", parts or "none"
    known, facts = DATASETS.get(data.name), dict(data.provenance)
    if known is not None:
        facts = {"origin": known.origin, "licence": known.licence} | facts
    yield from facts.items()
    if known is not None and known.graphs:
        yield "other graphs", ", ".join(known.graphs)


# Graphs and predictions

GRAPH_SUFFIXES = (".npz", ".csv", ".tsv", *NETWORK_SUFFIXES)


def write_graph(adjacency: Any, path: str | Path, ids: Any = None) -> None:
    """Write an undirected graph, a symmetric sparse matrix; the suffix of the path decides how.

    ``.npz`` (CSR, also for SciPy), ``.csv`` or ``.tsv`` (source, target, weight), ``.graphml`` or
    ``.gexf``; all but npz leave the diagonal out. ``ids`` name the nodes, by default their numbers.
    """
    path = Path(path)
    suffix = check_choice("the suffix of the graph's path", path.suffix.lower(), GRAPH_SUFFIXES)
    if not sp.issparse(adjacency) or adjacency.shape[0] != adjacency.shape[1]:
        shape = getattr(adjacency, "shape", type(adjacency).__name__)
        raise InputError(f"adjacency must be a square sparse matrix, got {shape}.")
    graph = sp.csr_matrix(adjacency, copy=True)
    graph.sum_duplicates()
    graph.eliminate_zeros()
    if not np.isfinite(graph.data).all() or not is_symmetric(graph):
        raise InputError(
            "adjacency must be finite and symmetric, got a graph that is not. "
            "Make it undirected with graph.maximum(graph.T)."
        )
    names = np.arange(graph.shape[0]) if ids is None else canonicalize_ids(ids, graph.shape[0])
    if suffix == ".npz":
        write_graph_npz(path, graph, None if ids is None else names)
    elif suffix in NETWORK_SUFFIXES:
        write_network_graph(path, graph, names)
    else:
        write_edge_table(path, graph, names)


def write_predictions(
    path: str | Path,
    ids: Any,
    labels: Sequence[Any] | np.ndarray,
    probabilities: Any,
    classes: Sequence[Any] | np.ndarray,
    *,
    given: Sequence[str] | None = None,
    held_out: Sequence[str] | None = None,
    id_name: str = "id",
    spreadsheet_safe: bool = False,
) -> None:
    """Write a CSV or TSV row for each node: id, predicted class, its probability, all of them.

    ``probabilities`` are nodes x ``classes``; ``ids`` are names, or ``None`` for numbers. ``given``
    is the known label of each node, empty if it has none; ``held_out`` says ``yes`` or ``no``
    whether a labelled node was predicted without its own label; ``id_name`` is the name of the
    first column, ``id`` if another column has that name. ``spreadsheet_safe`` puts an apostrophe
    before text that a spreadsheet would take for a formula.
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
    column_of = {name: column for column, name in enumerate(names)}
    unknown = next((label for label in chosen if label not in column_of), None)
    if unknown is not None:
        raise InputError(f"labels must be among classes, got {quote(unknown)}.")
    frame = pd.DataFrame(index=range(len(chosen)))
    if given is not None:
        frame["given_label"] = list(given)
    frame["predicted"] = chosen
    frame["probability"] = table[np.arange(len(chosen)), [column_of[label] for label in chosen]]
    frame[[f"p({name})" for name in names]] = table
    if held_out is not None:
        frame["held_out"] = list(held_out)
    frame.insert(0, "id" if id_name in frame else id_name, nodes)
    frame = frame.map(lambda cell: f"{cell:.6g}" if isinstance(cell, float) else cell)
    if spreadsheet_safe:
        frame = frame.map(escape_formula).rename(columns=escape_formula)
    write_frame(Path(path), frame)
