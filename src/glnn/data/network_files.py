"""GraphML and GEXF files, read and written by networkx, after defusedxml has checked them."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from defusedxml import DefusedXmlException, ElementTree

from glnn._utils import import_optional
from glnn.data.arguments import edges_from_networkx
from glnn.data.encode import TableEncoder
from glnn.data.files import check_file, quote, quote_path, wrap_parse_errors, write_file
from glnn.data.node_data import NodeData, extract_links, ids_from_text, symmetric_from_pairs
from glnn.data.table_files import check_feature_names, label_texts, split_texts
from glnn.data.table_text import DEFAULT_OPTIONS, TableOptions
from glnn.data.tables import encode_labels, parse_splits
from glnn.exceptions import DataFormatError, InputError

NETWORK_SUFFIXES = (".graphml", ".gexf")
MAX_BYTES = 2**30
MIN_CELL_LIMIT = 20_000_000  # a table of attributes may always have this many cells
MAX_CELLS_PER_BYTE = 20  # ... or this many for each byte of the file
_NOT_XML = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FORMAT_NAMES = {".graphml": "GraphML", ".gexf": "GEXF"}
_CLASS_ATTRIBUTE = {".graphml": "label", ".gexf": "class"}  # "label" of GEXF is a caption


def read_network(path: str | Path, options: TableOptions = DEFAULT_OPTIONS) -> NodeData:
    """Read a GraphML or GEXF file as an undirected graph with features and labels.

    The node attribute ``label`` (``class`` in GEXF) is the class and ``split`` the published split;
    the others become features in the same way as the columns of a table. Without any, the features
    are the identity matrix. The edge attribute ``weight`` is the weight. Directions are dropped.
    """
    path = check_file(Path(path), max_bytes=MAX_BYTES)
    form = _FORMAT_NAMES[path.suffix.lower()]
    networkx = import_optional("networkx")
    read = networkx.read_graphml if form == "GraphML" else networkx.read_gexf
    with wrap_parse_errors(path, form):
        ids, has_graph = _check_elements(path)
        network = read(path, node_type=str)
        unknown = next((node for node in network if node not in ids), None)
        if unknown is not None:
            raise DataFormatError(f"edges must join nodes of the file, got {quote(unknown)}.")
        return _to_record(path, network, options, has_graph=has_graph)


def _check_elements(path: Path) -> tuple[set[str | None], bool]:
    """Return the ids of the nodes and whether there are edges.

    Entities are refused, and what networkx would ignore: nested graphs and repeated ids.
    """
    try:
        tree = ElementTree.parse(path, forbid_dtd=True)
    except DefusedXmlException:
        raise DataFormatError(
            f"{quote_path(path)} must have no document type or entity declarations, got one. "
            "Remove the <!DOCTYPE ...> line."
        ) from None
    found: dict[str, list[str | None]] = {"graph": [], "node": [], "edge": []}
    for element in tree.iter():
        found.setdefault(element.tag.rsplit("}", 1)[-1], []).append(element.get("id"))
    ids = set(found["node"])
    if len(found["graph"]) != 1 or not ids or len(ids) != len(found["node"]):
        raise DataFormatError(
            f"{quote_path(path)} must hold one flat graph whose nodes have distinct ids, got "
            f"{len(found['graph'])} graphs and {len(found['node'])} nodes with {len(ids)} ids."
        )
    return ids, bool(found["edge"])


def _to_record(path: Path, network: Any, options: TableOptions, *, has_graph: bool) -> NodeData:
    suffix = path.suffix.lower()
    frame, where = _attribute_frame(path, network), quote_path(path)
    special = [name for name in (_CLASS_ATTRIBUTE[suffix], "split") if name in frame]
    captions = ["label"] if suffix == ".gexf" else []
    texts = {name: [str(cell).strip() for cell in frame[name]] for name in special}
    names = [name for name in map(str, frame) if name not in (*special, *captions)]
    features = sp.identity(len(frame), dtype=np.float32, format="csr")
    feature_names = None
    if names:
        encoder = TableEncoder.fit(where, names, frame.__getitem__, options)
        features, feature_names = encoder.transform(frame, where), encoder.feature_names
    labels, class_names = encode_labels(texts.get(_CLASS_ATTRIBUTE[suffix], [""] * len(frame)))
    _, source, target, weights = edges_from_networkx(network)
    return NodeData(
        features=features,
        labels=labels,
        graph=symmetric_from_pairs(source, target, len(frame), weights) if has_graph else None,
        class_names=class_names,
        splits=parse_splits(texts["split"]) if "split" in texts else {},
        ids=ids_from_text(list(network)),
        name=path.stem,
        provenance={"format": _FORMAT_NAMES[suffix]},
        feature_names=feature_names,
    )


def _attribute_frame(path: Path, network: Any) -> pd.DataFrame:
    """Return nodes x attributes; missing values are the declared default or empty text."""
    default = network.graph.get("node_default", {})
    rows = [values for _, values in network.nodes(data=True)]
    names = list(dict.fromkeys([*(name for values in rows for name in values), *default]))
    n_nodes = network.number_of_nodes()
    if len(names) * n_nodes > max(MIN_CELL_LIMIT, MAX_CELLS_PER_BYTE * path.stat().st_size):
        raise DataFormatError(
            f"{quote_path(path)} must declare a sensible size, got {len(names):,} attributes of "
            f"{n_nodes:,} nodes."
        )
    columns = {
        str(name): [values.get(name, default.get(name, "")) for values in rows] for name in names
    }
    return pd.DataFrame(columns, index=range(n_nodes), dtype=object)


def write_network(data: NodeData, path: Path) -> None:
    """Write a record as GraphML or GEXF, by the suffix; features equal to 0 are not written."""
    suffix = path.suffix.lower()
    check_feature_names(data, _FORMAT_NAMES[suffix], _CLASS_ATTRIBUTE[suffix])
    network = import_optional("networkx").Graph()
    names = [check_xml_text(name) for name in data.column_names]
    network.graph["node_default"] = dict.fromkeys(names, 0.0)
    labels, splits, features = label_texts(data), split_texts(data), data.features
    for row, node in enumerate(data.node_ids.tolist()):
        span = slice(features.indptr[row], features.indptr[row + 1])
        cells = zip(features.indices[span].tolist(), features.data[span].tolist())
        values: dict[str, Any] = {} if row else dict.fromkeys(names, 0.0)
        values |= {names[column]: value for column, value in cells}
        if labels[row]:
            values[_CLASS_ATTRIBUTE[suffix]] = check_xml_text(labels[row])
        if splits[row]:
            values["split"] = splits[row]
        network.add_node(check_xml_text(node), **values)
    write_network_file(network, path, data.graph)


def write_network_graph(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write an undirected weighted graph as GraphML or GEXF, by the suffix."""
    network = import_optional("networkx").Graph()
    network.add_nodes_from(check_xml_text(node) for node in ids)
    write_network_file(network, path, graph)


def write_network_file(network: Any, path: Path, graph: sp.csr_matrix | None = None) -> None:
    """Write a networkx graph as GraphML or GEXF, by the suffix, atomically.

    The edges of a symmetric matrix ``graph`` between its nodes, in their order, are added first.
    """
    if graph is not None:
        links, names = extract_links(graph), list(network)
        ends = zip(links.row.tolist(), links.col.tolist(), links.data.tolist())
        network.add_weighted_edges_from((names[i], names[j], w) for i, j, w in ends)
    networkx, out = import_optional("networkx"), io.BytesIO()
    is_gexf = path.suffix.lower() == ".gexf"
    (networkx.write_gexf if is_gexf else networkx.write_graphml_xml)(network, out)
    # networkx writes an attribute name="" of the graph, which GEXF does not allow.
    written = out.getvalue().replace(b' name=""', b"", 1) if is_gexf else out.getvalue()
    write_file(path, written)


def check_xml_text(text: object) -> str:
    """Check that XML can hold a text; a carriage return would be read as a line end."""
    if _NOT_XML.search(str(text)):
        raise InputError(
            f"text in an XML file must have no control characters, got {quote(text)}. "
            "Write CSV or npz instead."
        )
    return str(text)
