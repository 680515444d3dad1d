"""GraphML in and out: streamed through expat, with declarations and entities refused."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import ids_from_text, symmetric_from_pairs
from glnn.data.columns import FeatureColumns
from glnn.data.files import check_file, parsing, shown, shown_path
from glnn.data.node_data import SPLIT_KEYS, NodeData
from glnn.data.rows import TextTable
from glnn.data.tables import encode_labels
from glnn.exceptions import DataFormatError

MAX_DEPTH = 32
SMALL_TABLE = 20_000_000
MAX_CELLS_PER_BYTE = 20


@dataclass
class _Key:
    """A declared attribute of nodes or edges."""

    name: str
    domain: str
    default: str = ""


@dataclass
class _Document:
    """What the file said, before it becomes a record."""

    keys: dict[str, _Key] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    edges: list[dict[str, str]] = field(default_factory=list)


class _Handler:
    """Collects keys, nodes and edges from the parser's events."""

    def __init__(self) -> None:
        self.document = _Document()
        self.path: list[str] = []
        self.values: dict[str, str] = {}
        self.key: str | None = None
        self.text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self.path.append(tag)
        if len(self.path) > MAX_DEPTH:
            raise DataFormatError(f"a GraphML file must nest at most {MAX_DEPTH} deep.")
        if len(self.path) == 1 and tag != "graphml":
            raise DataFormatError(f"a GraphML file must begin with <graphml>, got <{tag[:40]}>.")
        if tag == "key":
            self.key = attributes["id"]
            name = attributes.get("attr.name", self.key)
            self.document.keys[self.key] = _Key(name, attributes.get("for", "all"))
        elif tag == "node":
            self._start_node(attributes["id"])
        elif tag == "edge":
            self.document.source.append(attributes["source"])
            self.document.target.append(attributes["target"])
            self.values = {}
            self.document.edges.append(self.values)
        elif tag == "data":
            self.key = attributes["key"]
        elif tag in ("hyperedge", "port"):
            raise DataFormatError(f"a GraphML file must hold plain edges, got <{tag}>.")
        self.text = []

    def _start_node(self, node: str) -> None:
        if "node" in self.path[:-1]:
            raise DataFormatError("a GraphML file must hold one flat graph, got a nested one.")
        if node in self.document.nodes:
            raise DataFormatError(f"a GraphML file must name {shown(node)} once, got it twice.")
        self.values = self.document.nodes[node] = {}

    def end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        content = "".join(self.text)
        parent = self.path[-2] if len(self.path) > 1 else ""
        if tag == "data" and self.key is not None and parent in ("node", "edge"):
            self.values[self.key] = content
        elif tag == "default" and self.key is not None and parent == "key":
            self.document.keys[self.key].default = content
        self.path.pop()
        self.text = []

    def characters(self, text: str) -> None:
        if self.path and self.path[-1] in ("data", "default"):
            self.text.append(text)


def _refuse_declaration(*_: Any) -> None:
    raise DataFormatError(
        "a GraphML file must have no document type or entity declarations, got one. "
        "Remove the <!DOCTYPE ...> line."
    )


def _parse(path: Path) -> _Document:
    handler = _Handler()
    parser = expat.ParserCreate()
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.characters
    parser.StartDoctypeDeclHandler = _refuse_declaration
    parser.EntityDeclHandler = _refuse_declaration
    parser.buffer_text = True
    with path.open("rb") as file:
        parser.ParseFile(file)
    return handler.document


def read_graphml(path: str | Path, *, encode: str = "error") -> NodeData:
    """Read a GraphML file as an undirected graph with features and labels.

    Parameters
    ----------
    path
        The file. The node attribute ``label`` holds the class, ``split`` the published split;
        the others are features, under the rule for table columns. Without any the features are
        the identity matrix. The edge attribute ``weight`` holds the weight. Directions are
        dropped.
    encode
        ``"error"`` or ``"onehot"``, for text attributes.

    Returns
    -------
    NodeData
        Nodes in the order of the file.
    """
    path = check_file(Path(path))
    with parsing(path, "GraphML"):
        document = _parse(path)
        if not document.nodes:
            raise DataFormatError(f"{shown_path(path)} must hold at least one node, got none.")
        return _record(path, document, encode)


def _record(path: Path, document: _Document, encode: str) -> NodeData:
    ids = list(document.nodes)
    special = {"label": _column(document, "label"), "split": _column(document, "split")}
    if special["split"] is not None and not {"", *SPLIT_KEYS}.issuperset(special["split"]):
        special["split"] = None
    features, names = _features(path, document, special, encode)
    labels, class_names = encode_labels(special["label"] or [""] * len(ids))
    split = np.array(special["split"] or [""] * len(ids))
    return NodeData(
        features=features,
        labels=labels,
        graph=_graph(document, ids),
        class_names=class_names,
        splits={key: np.flatnonzero(split == key) for key in SPLIT_KEYS if key in split},
        ids=ids_from_text(ids),
        name=path.stem,
        provenance={"format": "GraphML"},
        feature_names=names,
    )


def _column(document: _Document, name: str) -> list[str] | None:
    """Return the values of the node attribute of that name, or nothing if there is none."""
    for key, declared in document.keys.items():
        if declared.name == name and declared.domain in ("node", "all"):
            return [values.get(key, declared.default) for values in document.nodes.values()]
    return None


def _features(
    path: Path, document: _Document, special: dict[str, list[str] | None], encode: str
) -> tuple[sp.csr_matrix, tuple[str, ...] | None]:
    names = [
        key.name
        for key in document.keys.values()
        if key.domain in ("node", "all") and special.get(key.name) is None
    ]
    n_nodes = len(document.nodes)
    if not names:
        return sp.identity(n_nodes, dtype=np.float32, format="csr"), None
    if len(set(names)) != len(names):
        raise DataFormatError(f"{shown_path(path)} must name each attribute once.")
    limit = max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size)
    if len(names) * n_nodes > limit:
        raise DataFormatError(
            f"{shown_path(path)} must declare a sensible size, got {len(names):,} attributes of "
            f"{n_nodes:,} nodes."
        )
    table = _AttributeTable(path, document, names)
    columns = FeatureColumns(path, names, range(len(names)), encode)
    columns.learn_categories(table)
    blocks = [columns.encode_batch(batch, row) for row, batch in table.numbered()]
    return sp.vstack(blocks, format="csr"), columns.feature_names()


class _AttributeTable(TextTable):
    """The feature attributes of the nodes, as batches of columns."""

    def __init__(self, path: Path, document: _Document, names: Iterable[str]) -> None:
        self.path, self.first_row = path, tuple(names)
        wanted = set(self.first_row)
        self._keys = [
            (key, declared.default)
            for key, declared in document.keys.items()
            if declared.domain in ("node", "all") and declared.name in wanted
        ]
        self._nodes = list(document.nodes.values())
        self._size = max(1, 200_000 // len(self._keys))

    def batches(self, *, skip_first: bool = True) -> Iterator[list[Any]]:
        """Yield the columns of the next nodes."""
        for _, batch in self.numbered():
            yield batch

    def numbered(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield batches with the number of their first node."""
        for start in range(0, len(self._nodes), self._size):
            nodes = self._nodes[start : start + self._size]
            yield start, [[node.get(key, default) for node in nodes] for key, default in self._keys]


def _graph(document: _Document, ids: list[str]) -> sp.csr_matrix | None:
    """Return the edges, or nothing where the file has none and no weights are declared."""
    index = {node: row for row, node in enumerate(ids)}
    strange = next((n for n in (*document.source, *document.target) if n not in index), None)
    if strange is not None:
        raise DataFormatError(f"edges must join nodes of the file, got {shown(strange)}.")
    key, default = next(
        (
            (key, declared.default)
            for key, declared in document.keys.items()
            if declared.name == "weight" and declared.domain in ("edge", "all")
        ),
        (None, ""),
    )
    if key is None and not document.edges:
        return None
    texts = [values.get(key, default) or "1" for values in document.edges] if key else None
    weights = None if texts is None else np.array(texts, dtype=np.float64)
    if weights is not None and not ((weights >= 0) & np.isfinite(weights)).all():
        raise DataFormatError("weights must be finite and at least 0, got others.")
    i = np.array([index[node] for node in document.source], dtype=np.int64)
    j = np.array([index[node] for node in document.target], dtype=np.int64)
    return symmetric_from_pairs(i, j, len(ids), weights)
