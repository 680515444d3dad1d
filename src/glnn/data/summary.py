"""A record in words, and opening one by name or path."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from glnn._validation import did_you_mean
from glnn.data.files import one_line, shown
from glnn.data.formats import read_data
from glnn.data.node_data import NodeData
from glnn.data.node_npz import DEFAULT_GRAPH
from glnn.data.options import DEFAULT, TableOptions
from glnn.data.registry import DATASETS, load_dataset
from glnn.exceptions import InputError


def open_named(
    source: str,
    *,
    name: str | None = None,
    graph: str = DEFAULT_GRAPH,
    options: TableOptions = DEFAULT,
) -> NodeData:
    """Return the data set of that name, or the data in the file or folder of that path.

    Parameters
    ----------
    source
        A name of :data:`glnn.data.registry.DATASETS`, or a path.
    name, graph, options
        See :func:`glnn.data.formats.read_data`.
    """
    if source in DATASETS:
        return load_dataset(source, graph=graph)
    path = Path(source)
    if path.exists():
        return read_data(path, name=name, graph=graph, options=options)
    raise InputError(
        f"{shown(source, limit=200)} must be a file, a folder or one of {', '.join(DATASETS)}; "
        f"got neither.{did_you_mean(source, DATASETS)}"
    )


def summary_rows(data: NodeData) -> Iterator[tuple[str, str]]:
    """Yield what to show of a record, as pairs of a word and its value, fit for a terminal."""
    for key, value in _rows(data):
        yield one_line(key), one_line(value, limit=2000)


def _rows(data: NodeData) -> Iterator[tuple[str, str]]:
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
    known = DATASETS.get(data.name)
    if known is not None:
        yield from {"origin": known.origin, "licence": known.licence}.items()
        if known.graphs:
            yield "other graphs", ", ".join(known.graphs)
    shown_already = {"origin", "licence"} if known is not None else set()
    yield from ((k, v) for k, v in data.provenance.items() if k not in shown_already)
