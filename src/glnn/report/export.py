"""A learned graph for other programs: nodes with their class, edges with weight and origin."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._utils import check_choice, need
from glnn.data.files import shown_path
from glnn.data.network_files import checked_text, write_network_file
from glnn.data.npz import write_graph_npz
from glnn.data.table_files import safe_cell, write_frames
from glnn.exceptions import InputError
from glnn.report.page.page_data import DROPPED, KEPT, PageData, links_of

FORMATS = ("graphml", "gexf", "csv", "npz", "parquet")


def export_page(
    page: PageData, folder: Path, to: str, *, overwrite: bool = False
) -> tuple[Path, ...]:
    """Write nodes and learned edges of a run; return the files.

    Parameters
    ----------
    page
        The run.
    folder
        Where the files go; it is made if it is not there.
    to
        ``graphml`` and ``gexf`` are one file each, for Gephi and the like; ``csv`` and ``parquet``
        are a table of nodes and one of edges; ``npz`` is a matrix that SciPy reads, with arrays
        ``ids``, ``class``, ``probability``, ``given_label`` for nodes and ``is_given`` for entries.
        All of them grow with the number of edges.
    overwrite
        Replace files that are there.
    """
    check_choice("--to", to, FORMATS)
    stems = ("nodes", "edges") if to in ("csv", "parquet") else ("graph",)
    paths = tuple(folder / f"{stem}.{to}" for stem in stems)
    for path in paths:
        if path.exists() and not overwrite:
            raise InputError(
                f"{shown_path(path)} must not be there yet, got a file. "
                "Name another folder with --out, or replace it with --overwrite."
            )
    folder.mkdir(parents=True, exist_ok=True)
    if to == "npz":
        _write_npz(page, paths[0])
    elif len(paths) == 1:
        for text in (*page.nodes.ids, *page.class_names):
            checked_text(text)
        write_network_file(network_of(page), paths[0])
    else:
        for path, frame in zip(paths, (node_frame(page), edge_frame(page))):
            write_frames(path, [frame.map(safe_cell) if to == "csv" else frame])
    return paths


def node_frame(page: PageData) -> pd.DataFrame:
    """Return a row a node: id, predicted class, its probability, given label or empty text."""
    nodes, names = page.nodes, np.array(page.class_names, dtype=object)
    known = nodes.seen & (nodes.truth >= 0)
    return pd.DataFrame(
        {
            "id": list(nodes.ids),
            "class": names[nodes.predicted],
            "probability": nodes.probabilities[np.arange(len(nodes)), nodes.predicted],
            "given_label": np.where(known, names[nodes.truth], ""),
        }
    )


def edge_frame(page: PageData) -> pd.DataFrame:
    """Return a row an edge of the learned graph; its origin is ``given`` or ``learned``.

    Where it is known, ``trust`` is the share of a given edge's weight that was kept.
    """
    links = links_of(page.graphs.learned, page.graphs.given)
    links = links.pick(links.fate != DROPPED)
    ids = np.array(page.nodes.ids, dtype=object)
    frame = pd.DataFrame(
        {
            "source": ids[links.source],
            "target": ids[links.target],
            "weight": links.weight,
            "origin": np.where(links.fate == KEPT, "given", "learned"),
        }
    )
    if page.graphs.trust is None:
        return frame
    kept = np.asarray(page.graphs.trust[links.source, links.target], dtype=np.float64).ravel()
    return frame.assign(trust=np.where(links.fate == KEPT, kept, np.nan))


def network_of(page: PageData) -> Any:
    """Return a ``networkx.Graph`` with the columns of both frames as attributes."""
    network = need("networkx").Graph()
    nodes: list[Any] = node_frame(page).to_dict("records")
    edges: list[Any] = edge_frame(page).to_dict("records")
    network.add_nodes_from((node.pop("id"), node) for node in nodes)
    for edge in edges:  # an edge that was not given has no trust
        ends = edge.pop("source"), edge.pop("target")
        network.add_edge(*ends, **{name: part for name, part in edge.items() if part == part})
    return network


def _write_npz(page: PageData, path: Path) -> None:
    learned = sp.csr_matrix(page.graphs.learned)
    nodes = node_frame(page).astype({"id": str, "class": str, "given_label": str})
    given = page.graphs.given
    rows = np.repeat(np.arange(learned.shape[0]), np.diff(learned.indptr))
    is_given = np.zeros(learned.nnz, dtype=bool)
    if given is not None:
        keys = sp.coo_matrix(given)
        is_given = np.isin(
            rows * learned.shape[0] + learned.indices,
            keys.row.astype(np.int64) * learned.shape[0] + keys.col,
        )
    write_graph_npz(
        path,
        learned,
        nodes["id"].to_numpy(np.str_),
        is_given=is_given,
        probability=nodes["probability"].to_numpy(),
        **{name: nodes[name].to_numpy(np.str_) for name in ("class", "given_label")},
    )
