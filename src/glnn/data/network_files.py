"""GraphML and GEXF, read and written by networkx after a pass that refuses what could do harm."""

import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._utils import need
from glnn.data.encode import TableEncoder
from glnn.data.files import atomic_write, check_file, parsing, shown, shown_path
from glnn.data.interop import add_weighted_edges, pairs_of_network
from glnn.data.node_data import NodeData, ids_from_text
from glnn.data.table_files import (
    label_texts,
    names_of,
    refuse_declarations,
    refuse_special_names,
    split_texts,
)
from glnn.data.table_text import DEFAULT, TableOptions
from glnn.data.tables import encode_labels, splits_from
from glnn.exceptions import DataFormatError, InputError

NETWORK_SUFFIXES = (".graphml", ".gexf")
MAX_BYTES = 2**30
SMALL_TABLE = 20_000_000
MAX_CELLS_PER_BYTE = 20
_FORBIDDEN = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FORMAT = {".graphml": "GraphML", ".gexf": "GEXF"}
_CLASS = {".graphml": "label", ".gexf": "class"}  # the label of GEXF is the node's caption


def read_network(path: str | Path, options: TableOptions = DEFAULT) -> NodeData:
    """Read a GraphML or GEXF file as an undirected graph with features and labels.

    Parameters
    ----------
    path
        The file. The node attribute ``label`` (``class`` in GEXF) holds the class, ``split`` the
        published split; the others are features, under the rules for table columns. Without any
        the features are the identity matrix. The edge attribute ``weight`` holds the weight.
        Directions are dropped.
    options
        What to do with text, dates and gaps in the attributes.

    Returns
    -------
    NodeData
        Nodes in the order of the file.
    """
    path = check_file(Path(path), max_bytes=MAX_BYTES)
    suffix = path.suffix.lower()
    with parsing(path, _FORMAT[suffix]):
        scan = _Scan(_FORMAT[suffix])
        with path.open("rb") as file:
            refuse_declarations(file, f"a {_FORMAT[suffix]} file", scan.start)
        network = _parsed(path, suffix)
        scan.check(network)
        return _record(path, network, options, has_graph=scan.has_graph)


class _Scan:
    """What networkx would pass over in silence: nested graphs, repeated ids, unknown ends."""

    def __init__(self, name: str) -> None:
        self.what = f"a {name} file"
        self.root = name.lower()
        self.ids: set[str] = set()
        self.has_graph = False

    def start(self, tag: str, attributes: dict[str, str], depth: int) -> None:
        if depth == 1 and tag != self.root:
            raise DataFormatError(f"{self.what} must begin with <{self.root}>, got <{tag[:40]}>.")
        if tag in ("hyperedge", "port"):
            raise DataFormatError(f"{self.what} must hold plain edges, got <{tag}>.")
        if tag == "graph" and depth > 2:
            raise DataFormatError(f"{self.what} must hold one flat graph, got a nested one.")
        if tag == "node":
            if attributes["id"] in self.ids:
                raise DataFormatError(
                    f"{self.what} must name {shown(attributes['id'])} once, got it twice."
                )
            self.ids.add(attributes["id"])
        self.has_graph |= tag == "edge"

    def check(self, network: Any) -> None:
        """Refuse a graph without nodes, and edges between nodes that the file lacks."""
        if not self.ids:
            raise DataFormatError(f"{self.what} must hold at least one node, got none.")
        strange = next((node for node in network if node not in self.ids), None)
        if strange is not None:
            raise DataFormatError(f"edges must join nodes of the file, got {shown(strange)}.")


def _parsed(path: Path, suffix: str) -> Any:
    networkx = need("networkx")
    read = networkx.read_graphml if suffix == ".graphml" else networkx.read_gexf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networkx speaks of keys without a type
        try:
            return read(path, node_type=str)
        except networkx.NetworkXException as error:
            raise ValueError(str(error)) from None


def _record(path: Path, network: Any, options: TableOptions, *, has_graph: bool) -> NodeData:
    suffix = path.suffix.lower()
    frame, where = _attributes(path, network), shown_path(path)
    special = [name for name in (_CLASS[suffix], "split") if name in frame]
    captions = ["label"] if suffix == ".gexf" else []
    texts = {name: [str(cell).strip() for cell in frame[name]] for name in special}
    splits = splits_from(texts["split"]) if "split" in texts else {}
    names = [name for name in names_of(frame) if name not in (*special, *captions)]
    features, feature_names = _features(where, frame, names, options)
    labels, class_names = encode_labels(texts.get(_CLASS[suffix], [""] * len(frame)))
    return NodeData(
        features=features,
        labels=labels,
        graph=pairs_of_network(network) if has_graph else None,
        class_names=class_names,
        splits=splits,
        ids=ids_from_text(list(network)),
        name=path.stem,
        provenance={"format": _FORMAT[suffix]},
        feature_names=feature_names,
    )


def _attributes(path: Path, network: Any) -> pd.DataFrame:
    """Return nodes x attributes, with declared defaults and empty text where there is none."""
    default = network.graph.get("node_default", {})
    rows = [values for _, values in network.nodes(data=True)]
    names = list(dict.fromkeys([*(name for values in rows for name in values), *default]))
    n_nodes = network.number_of_nodes()
    if len(names) * n_nodes > max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size):
        raise DataFormatError(
            f"{shown_path(path)} must declare a sensible size, got {len(names):,} attributes of "
            f"{n_nodes:,} nodes."
        )
    columns = {
        str(name): [values.get(name, default.get(name, "")) for values in rows] for name in names
    }
    return pd.DataFrame(columns, index=range(n_nodes), dtype=object)


def _features(
    where: str, frame: pd.DataFrame, names: Sequence[str], options: TableOptions
) -> tuple[sp.csr_matrix, tuple[str, ...] | None]:
    if not names:
        return sp.identity(len(frame), dtype=np.float32, format="csr"), None
    encoder = TableEncoder.fit(where, names, frame.__getitem__, options)
    return encoder.transform(frame, where), encoder.feature_names


def write_network(data: NodeData, path: Path) -> None:
    """Write a record as GraphML or GEXF, by the suffix; features of 0 are left to the default."""
    suffix = path.suffix.lower()
    refuse_special_names(data, _FORMAT[suffix])
    if _CLASS[suffix] in data.column_names:
        raise InputError(f"feature_names must not be {_CLASS[suffix]!r}. Rename the feature.")
    network = need("networkx").Graph()
    names = [checked_text(name) for name in data.column_names]
    network.graph["node_default"] = dict.fromkeys(names, 0.0)
    labels, splits, features = label_texts(data), split_texts(data), data.features
    for row, node in enumerate(data.node_ids.tolist()):
        span = slice(features.indptr[row], features.indptr[row + 1])
        cells = zip(features.indices[span].tolist(), features.data[span].tolist())
        values: dict[str, Any] = {} if row else dict.fromkeys(names, 0.0)
        values |= {names[column]: value for column, value in cells}
        if labels[row]:
            values[_CLASS[suffix]] = checked_text(labels[row])
        if splits[row]:
            values["split"] = splits[row]
        network.add_node(checked_text(node), **values)
    if data.graph is not None:
        add_weighted_edges(network, data.graph, [str(node) for node in data.node_ids])
    write_network_file(network, path)


def write_network_graph(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write an undirected weighted graph as GraphML or GEXF, by the suffix."""
    network = need("networkx").Graph()
    names = [checked_text(node) for node in ids]
    network.add_nodes_from(names)
    add_weighted_edges(network, graph, names)
    write_network_file(network, path)


def write_network_file(network: Any, path: Path) -> None:
    """Write a networkx graph as GraphML or GEXF, by the suffix, whole or not at all."""
    networkx, out = need("networkx"), io.BytesIO()
    if path.suffix.lower() == ".gexf":
        networkx.write_gexf(network, out)
        written = out.getvalue().replace(b' name=""', b"", 1)  # of the graph: GEXF knows none
    else:
        networkx.write_graphml_xml(network, out)
        written = out.getvalue()
    with atomic_write(path, "wb") as file:
        file.write(written)


def checked_text(text: object) -> str:
    """Return text that XML can hold; a carriage return would come back as a line end."""
    if _FORBIDDEN.search(str(text)):
        raise InputError(
            f"text in an XML file must have no control characters, got {shown(text)}. "
            "Write CSV or npz instead."
        )
    return str(text)
