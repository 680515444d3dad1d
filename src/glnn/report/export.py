"""Export a learned graph: nodes with their class, edges with weight and origin."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._utils import check_choice, import_optional
from glnn.data.files import quote_path
from glnn.data.network_files import check_xml_text, write_network_file
from glnn.data.npz import write_graph_npz
from glnn.data.table_files import escape_formula, write_frame
from glnn.exceptions import InputError
from glnn.report.links import DROPPED, KEPT, merge_links
from glnn.report.results import Results

FORMATS = ("graphml", "gexf", "csv", "npz", "parquet")


def export_graph(
    results: Results, folder: Path, to: str, *, overwrite: bool = False
) -> tuple[Path, ...]:
    """Write the nodes and learned edges of a run to ``folder``; return the paths of the files.

    ``graphml`` and ``gexf`` are one file each; ``csv`` and ``parquet`` are a table of nodes and a
    table of edges; ``npz`` is a SciPy sparse matrix with the arrays ``ids``, ``class``,
    ``probability`` and ``given_label`` for nodes and ``is_given`` for entries.
    """
    check_choice("--to", to, FORMATS)
    stems = ("nodes", "edges") if to in ("csv", "parquet") else ("graph",)
    paths = tuple(folder / f"{stem}.{to}" for stem in stems)
    for path in paths:
        if path.exists() and not overwrite:
            raise InputError(
                f"{quote_path(path)} must not exist, got a file. "
                "Name another folder with --out, or replace it with --overwrite."
            )
    folder.mkdir(parents=True, exist_ok=True)
    if to == "npz":
        _write_npz(results, paths[0])
    elif len(paths) == 1:
        for text in (*results.ids.astype(str), *results.class_names):
            check_xml_text(text)
        write_network_file(build_network(results), paths[0])
    else:
        for path, frame in zip(paths, (node_frame(results), edge_frame(results))):
            write_frame(path, frame.map(escape_formula) if to == "csv" else frame)
    return paths


def node_frame(results: Results) -> pd.DataFrame:
    """Return a row for each node: id, predicted class, its probability, given label or ''."""
    names = np.array(results.class_names, dtype=object)
    return pd.DataFrame(
        {
            "id": results.ids.astype(str).astype(object),
            "class": names[results.predictions],
            "probability": results.probabilities.max(1),
            "given_label": results.given_labels,
        }
    )


def edge_frame(results: Results) -> pd.DataFrame:
    """Return a row for each learned edge; its origin is ``given`` or ``learned``.

    The column ``trust``, if known, is ``edge_trust_`` of the given edges.
    """
    links = merge_links(results.adjacency, results.given)
    links = links.pick(links.fate != DROPPED)
    ids = results.ids.astype(str).astype(object)
    frame = pd.DataFrame(
        {
            "source": ids[links.source],
            "target": ids[links.target],
            "weight": links.weight,
            "origin": np.where(links.fate == KEPT, "given", "learned"),
        }
    )
    if results.trust is None:
        return frame
    kept = np.asarray(results.trust[links.source, links.target], dtype=np.float64).ravel()
    return frame.assign(trust=np.where(links.fate == KEPT, kept, np.nan))


def build_network(results: Results) -> Any:
    """Return a ``networkx.Graph`` with the columns of both frames as attributes."""
    network = import_optional("networkx").Graph()
    nodes: list[Any] = node_frame(results).to_dict("records")
    edges: list[Any] = edge_frame(results).to_dict("records")
    network.add_nodes_from((node.pop("id"), node) for node in nodes)
    for edge in edges:  # an edge that was not given has no trust
        ends = edge.pop("source"), edge.pop("target")
        network.add_edge(*ends, **{name: part for name, part in edge.items() if part == part})
    return network


def _write_npz(results: Results, path: Path) -> None:
    learned = sp.csr_matrix(results.adjacency)
    nodes = node_frame(results)
    is_given = np.zeros(learned.nnz, dtype=bool)
    if results.given is not None:
        rows = np.repeat(np.arange(learned.shape[0]), np.diff(learned.indptr))
        is_given = np.asarray(results.given[rows, learned.indices]).ravel() != 0
    write_graph_npz(
        path,
        learned,
        nodes["id"].to_numpy(np.str_),
        is_given=is_given,
        probability=nodes["probability"].to_numpy(),
        **{name: nodes[name].to_numpy(np.str_) for name in ("class", "given_label")},
    )
