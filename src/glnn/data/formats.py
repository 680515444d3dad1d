"""One door for every format: ``read_data`` and ``write_data`` go by the name of the file."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice
from glnn.data.arrays import ids_from_text, symmetric_from_pairs
from glnn.data.edges import SOURCE_NAMES, TARGET_NAMES, read_edge_list
from glnn.data.files import shown_path
from glnn.data.graph_npz import read_graph_npz
from glnn.data.interop import to_scipy
from glnn.data.linqs import (
    attack_graph,
    read_linqs,
    read_linqs_nodes,
    read_terror_attack,
    read_terrorists_rel,
)
from glnn.data.network_files import (
    NETWORK_SUFFIXES,
    read_network,
    write_network,
    write_network_graph,
)
from glnn.data.node_data import NodeData
from glnn.data.node_npz import DEFAULT_GRAPH, read_node_npz, write_node_npz
from glnn.data.npz import NpzFile
from glnn.data.options import DEFAULT, TableOptions
from glnn.data.planetoid import read_planetoid
from glnn.data.table_file import TABLE_SUFFIXES, first_row
from glnn.data.table_out import edges_beside, write_edge_table, write_node_table
from glnn.data.table_text import AS_FOUND, TableFormat
from glnn.data.tables import read_table_data
from glnn.exceptions import InputError

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
    name: str | None = None,
    graph: str = DEFAULT_GRAPH,
    options: TableOptions = DEFAULT,
    **changes: Any,
) -> NodeData:
    """Read a record from a file or folder of any format that glnn knows.

    Parameters
    ----------
    path
        An ``.npz``, ``.csv``, ``.tsv``, ``.xlsx``, ``.parquet``, ``.graphml``, ``.gexf``,
        ``.content`` or ``.nodes`` file, an edge list (``.edges``, ``.edgelist``, ``.txt``,
        ``.cites``, or a table that begins with source and target), or a folder with the
        Planetoid or terror files.
    name
        Which data set of a Planetoid folder to read.
    graph
        Which graph to take where there are several: ``"loc_org"`` for Terror Attack.
    options, **changes
        How to use the columns of a table; see :func:`glnn.data.tables.read_tables`.

    Returns
    -------
    NodeData
        A graph without features gets the identity matrix as features.
    """
    path, options = Path(path), options.changed(**changes)
    if path.is_dir():
        return _read_folder(path, name, graph)
    if path.name.startswith("ind.") and path.name.count(".") >= 2:
        return read_planetoid(path.parent, name or path.name.split(".")[1])
    suffix = check_choice(f"the suffix of {path.name}", path.suffix.lower(), READ_SUFFIXES)
    if suffix == ".npz":
        return _read_npz(path, graph)
    if suffix in NETWORK_SUFFIXES:
        return read_network(path, options)
    if suffix == ".content":
        return read_linqs(path)
    if suffix == ".nodes":
        return _read_nodes(path)
    if is_edge_list(path, options.form):
        matrix, ids = read_edge_list(path)
        return _graph_only(path, matrix, ids_from_text(ids))
    beside = edges_beside(path)
    edges = beside if beside.is_file() else None
    return read_table_data(path, None, edges, options)


def _read_folder(folder: Path, name: str | None, graph: str) -> NodeData:
    if (folder / "terrorist_attack.nodes").is_file():
        return read_terror_attack(folder, graph=attack_graph(graph))
    if (folder / "TerroristRel.labels").is_file():
        return read_terrorists_rel(folder)
    return read_planetoid(folder, name)


def _read_npz(path: Path, graph: str) -> NodeData:
    with NpzFile(path) as file:
        alone = "features_shape" not in file and "indptr" in file
    if not alone:
        return read_node_npz(path, graph=graph)
    matrix, ids = read_graph_npz(path)
    return _graph_only(path, matrix, ids)


def _read_nodes(path: Path) -> NodeData:
    """Read a ``.nodes`` file, and the ``.edges`` and ``.labels`` beside it if they are there."""
    edges, labels = path.with_suffix(".edges"), path.with_suffix(".labels")
    return read_linqs_nodes(
        path, edges if edges.is_file() else None, labels if labels.is_file() else None
    )


def is_edge_table(path: Path, form: TableFormat = AS_FOUND) -> bool:
    """Whether a table begins with columns named source and target, or the like."""
    first = [cell.strip().lower() for cell in first_row(path, form)[:2]]
    return len(first) == 2 and first[0] in SOURCE_NAMES and first[1] in TARGET_NAMES


def is_edge_list(path: Path, form: TableFormat = AS_FOUND) -> bool:
    """Whether a file has edges alone: by its suffix, or as a table of them."""
    suffix = path.suffix.lower()
    return suffix in EDGE_LIST_SUFFIXES or (suffix in TABLE_SUFFIXES and is_edge_table(path, form))


def _graph_only(path: Path, graph: sp.csr_matrix, ids: np.ndarray | None) -> NodeData:
    n_nodes = graph.shape[0]
    coo = graph.tocoo()
    if coo.data.size and not (np.isfinite(coo.data) & (coo.data >= 0)).all():
        raise InputError(f"weights of {shown_path(path)} must be finite and at least 0.")
    return NodeData(
        features=sp.identity(n_nodes, dtype=np.float32, format="csr"),
        labels=np.full(n_nodes, -1, dtype=np.int64),
        graph=symmetric_from_pairs(coo.row, coo.col, n_nodes, coo.data.astype(np.float64)),
        ids=ids,
        name=path.stem,
        provenance={"format": "a graph without features"},
    )


def write_data(data: NodeData, path: str | Path) -> None:
    """Write a record; the suffix of the path decides how.

    Parameters
    ----------
    data
        The record.
    path
        ``.npz`` holds everything; ``.csv``, ``.tsv`` and ``.parquet`` hold the nodes, with the
        edges in a second file beside (``people.csv``, ``people.edges.csv``); ``.graphml`` and
        ``.gexf`` hold both. All but npz name classes and do not number them, so that the order of
        the classes is lost, and with it classes without a member. A graph alone is written as
        such, without its identity matrix of features: a table is then a list of edges, unless
        there are nodes without an edge.
    """
    path = Path(path)
    suffix = check_choice(f"the suffix of {path.name}", path.suffix.lower(), WRITE_SUFFIXES)
    alone = is_graph_alone(data)
    if suffix == ".npz":
        write_node_npz(data, path)
    elif suffix in NETWORK_SUFFIXES and alone:
        write_network_graph(path, data.graph, data.node_ids)
    elif suffix in NETWORK_SUFFIXES:
        write_network(data, path)
    elif alone and np.diff(to_scipy(data).indptr).all():
        write_edge_table(path, data.graph, data.node_ids)
    else:
        write_node_table(data, path)


def is_graph_alone(data: NodeData) -> bool:
    """Whether a record says nothing but its edges: no labels, the identity for features."""
    if data.graph is None or data.splits or data.feature_names is not None or data.labelled.size:
        return False
    identity = sp.identity(data.n_nodes, dtype=data.features.dtype, format="csr")
    return bool(data.features.shape == identity.shape and (data.features != identity).nnz == 0)
