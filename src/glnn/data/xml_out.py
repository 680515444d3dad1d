"""Writing graphs as XML: GraphML and GEXF, streamed edge by edge."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from glnn.data.arrays import upper_pairs
from glnn.data.files import atomic_write, shown
from glnn.data.node_data import NodeData
from glnn.exceptions import InputError

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
_GRAPHML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
_GEXF = '<gexf xmlns="http://gexf.net/1.3" version="1.3">\n'
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _checked(text: object) -> str:
    found = _FORBIDDEN.search(str(text))
    if found:
        raise InputError(
            f"text in an XML file must have no control characters, got {shown(text)}. "
            "Write CSV or npz instead."
        )
    return str(text)


def _attribute(text: object) -> str:
    """Quoted for an attribute; line ends are escaped, or a reader would turn them into blanks."""
    return quoteattr(_checked(text), _SPACES)


def _content(text: object) -> str:
    return escape(_checked(text), {"\r": "&#13;"})


def write_graphml(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write an undirected weighted graph as GraphML."""
    with atomic_write(path) as file:
        file.write(_HEAD + _GRAPHML)
        file.write(_key("w", "edge", "weight", "double"))
        file.write('<graph edgedefault="undirected">\n')
        file.writelines(f"<node id={_attribute(node)}/>\n" for node in ids)
        _write_edges(file, graph, ids)
        file.write("</graph>\n</graphml>\n")


def write_node_graphml(data: NodeData, path: Path) -> None:
    """Write a record as GraphML: features other than 0, labels, split and edges."""
    names = data.column_names
    taken = {"label", "split"}.intersection(names)
    if taken:
        raise InputError(f"feature_names must not be {min(taken)!r} in a GraphML file.")
    with atomic_write(path) as file:
        file.write(_HEAD + _GRAPHML)
        for j, name in enumerate(names):
            file.write(_key(f"f{j}", "node", name, "double", default="0"))
        file.write(_key("label", "node", "label", "string"))
        file.write(_key("split", "node", "split", "string") if data.splits else "")
        file.write(_key("w", "edge", "weight", "double") if data.graph is not None else "")
        file.write('<graph edgedefault="undirected">\n')
        file.writelines(_node_elements(data))
        if data.graph is not None:
            _write_edges(file, data.graph, data.node_ids)
        file.write("</graph>\n</graphml>\n")


def _key(key: str, domain: str, name: str, kind: str, default: str | None = None) -> str:
    start = f'<key id="{key}" for="{domain}" attr.name={_attribute(name)} attr.type="{kind}"'
    return f"{start}/>\n" if default is None else f"{start}><default>{default}</default></key>\n"


def _node_elements(data: NodeData) -> Iterator[str]:
    split = {int(node): key for key, nodes in data.splits.items() for node in nodes}
    features = data.features
    for row, node in enumerate(data.node_ids):
        start, end = features.indptr[row], features.indptr[row + 1]
        parts = [f"<node id={_attribute(node)}>"]
        for column, value in zip(features.indices[start:end], features.data[start:end]):
            parts.append(f'<data key="f{column}">{value}</data>')
        if data.labels[row] >= 0:
            parts.append(f'<data key="label">{_content(data.class_names[data.labels[row]])}</data>')
        if row in split:
            parts.append(f'<data key="split">{split[row]}</data>')
        yield "".join(parts) + "</node>\n"


def _write_edges(file: Any, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    quoted = [_attribute(node) for node in ids]
    file.writelines(
        f'<edge source={quoted[i]} target={quoted[j]}><data key="w">{w}</data></edge>\n'
        for i, j, w in _triples(graph)
    )


def _triples(graph: Any) -> Iterable[tuple[int, int, Any]]:
    rows, columns, weights = upper_pairs(graph)
    return zip(rows.tolist(), columns.tolist(), weights)


def write_gexf(
    path: Path,
    graph: Any,
    ids: Sequence[object] | np.ndarray,
    node_labels: Mapping[int, str] | None = None,
) -> None:
    """Write an undirected weighted graph as GEXF, for Gephi and the like."""
    captions = node_labels or {}
    quoted = [_attribute(node) for node in ids]
    with atomic_write(path) as file:
        file.write(_HEAD + _GEXF + '<graph defaultedgetype="undirected" mode="static">\n<nodes>\n')
        for row, node in enumerate(quoted):
            caption = _attribute(captions[row]) if row in captions else node
            file.write(f"<node id={node} label={caption}/>\n")
        file.write("</nodes>\n<edges>\n")
        for number, (i, j, w) in enumerate(_triples(graph)):
            ends = f"source={quoted[i]} target={quoted[j]}"
            file.write(f'<edge id="{number}" {ends} weight="{w}"/>\n')
        file.write("</edges>\n</graph>\n</gexf>\n")
