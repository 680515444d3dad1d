"""A :class:`NodeData` as one npz file: the format of the published sets, with a few extras."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice
from glnn.data.arrays import checked_csr, symmetric_from_pairs, upper_pairs
from glnn.data.files import parsing
from glnn.data.node_data import SPLIT_KEYS, NodeData
from glnn.data.npz import NpzFile, text_array, write_npz
from glnn.exceptions import DataFormatError, InputError

DEFAULT_GRAPH = "default"


def read_node_npz(path: str | Path, *, graph: str = DEFAULT_GRAPH) -> NodeData:
    """Read a record from an npz file.

    Parameters
    ----------
    path
        The file. ``features_*`` (CSR) and ``labels`` must be there; ``edge_index``,
        ``class_names``, ``*_idx``, ``unlabeled_idx``, ``ids`` and ``feature_names`` may be.
    graph
        Which graph to take where the file holds more than one: ``"default"`` is ``edge_index``,
        ``"loc_org"`` is ``edge_index_loc_org``.

    Returns
    -------
    NodeData
        Labels of nodes in ``unlabeled_idx`` are -1.
    """
    path = Path(path)
    with NpzFile(path) as file, parsing(path, "npz"):
        shape = declared_shape(file)
        features = checked_csr(
            file.read("features_data", kinds="fiub", ndim=1),
            file.read("features_indices", kinds="iu", ndim=1),
            file.read("features_indptr", kinds="iu", ndim=1),
            shape,
        )
        return record_of(file, features).replace(graph=_graph(file, graph, shape[0]))


def record_of(file: NpzFile, features: sp.csr_matrix) -> NodeData:
    """Return these features with all else that a file knows of their rows, but for the graph."""
    labels = labels_of(file, features.shape[0])
    return NodeData(
        features=features,
        labels=labels,
        class_names=class_names_of(file, labels),
        splits=splits_of(file),
        ids=file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None,
        name=str(file.read("name", kinds="U", ndim=0)) if "name" in file else file.path.stem,
        provenance=_provenance(file),
        feature_names=_names(file, "feature_names") if "feature_names" in file else None,
    )


def declared_shape(file: NpzFile) -> tuple[int, int]:
    """Return the numbers of nodes and features, if what every array declares agrees with them."""
    if "features_shape" not in file:
        held = ", ".join(list(file.headers)[:6]) or "nothing"
        raise DataFormatError(
            f"{file.path.name} must hold features_shape and the other arrays of a data set, "
            f"got {held}."
        )
    declared = file.read("features_shape", kinds="iu", ndim=1)
    if declared.size != 2 or declared.min() < 1 or declared.max() >= 2**40:
        raise DataFormatError(
            f"features_shape in {file.path.name} must be two sensible sizes, got "
            f"{declared.tolist()[:4]}."
        )
    n_nodes, n_features = int(declared[0]), int(declared[1])
    expected = {"features_indptr": (n_nodes + 1,), "labels": (n_nodes,), "ids": (n_nodes,)}
    for name, shape in expected.items():
        if name in file and file.headers[name].shape != shape:
            raise DataFormatError(
                f"{name!r} in {file.path.name} must have shape {shape} for {n_nodes} nodes, got "
                f"{file.headers[name].shape}. Nothing was unpacked."
            )
    return n_nodes, n_features


def labels_of(file: NpzFile, n_nodes: int) -> np.ndarray:
    """Return the class numbers, -1 for unlabelled nodes."""
    if "labels" not in file:
        return np.full(n_nodes, -1, dtype=np.int64)
    labels = file.read("labels", kinds="iu", ndim=1).astype(np.int64)
    if "unlabeled_idx" in file:
        unlabelled = file.read("unlabeled_idx", kinds="iu", ndim=1)
        if unlabelled.size and (unlabelled.min() < 0 or unlabelled.max() >= n_nodes):
            raise DataFormatError("unlabeled_idx must hold node numbers, got others.")
        labels[unlabelled] = -1
    return labels


def splits_of(file: NpzFile) -> dict[str, np.ndarray]:
    """Return the nodes of each part of the split that the file has."""
    return {
        key: file.read(f"{key}_idx", kinds="iu", ndim=1)
        for key in SPLIT_KEYS
        if f"{key}_idx" in file
    }


def class_names_of(file: NpzFile, labels: np.ndarray) -> tuple[str, ...]:
    """Return the class names, or numbers where the file has none."""
    if "class_names" in file:
        return _names(file, "class_names")
    return tuple(str(c) for c in range(min(int(labels.max(initial=-1)) + 1, labels.size)))


def _names(file: NpzFile, name: str) -> tuple[str, ...]:
    return tuple(file.read(name, kinds="U", ndim=1).tolist())


def _graph(file: NpzFile, graph: str, n_nodes: int) -> sp.csr_matrix | None:
    pairs, weights = weighted_pairs(file, graph)
    if pairs is None:
        return None
    return symmetric_from_pairs(pairs[0], pairs[1], n_nodes, weights)


def weighted_pairs(
    file: NpzFile, graph: str = DEFAULT_GRAPH
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the pairs of a graph (2 x E) and their weights, ``None`` where there are none."""
    found = [name.removeprefix("edge_index_") for name in file.headers if "edge_index_" in name]
    check_choice("graph", graph, [DEFAULT_GRAPH, *sorted(found)])
    key = "edge_index" if graph == DEFAULT_GRAPH else f"edge_index_{graph}"
    if key not in file:
        return None, None
    pairs = file.read(key, kinds="iu", ndim=2)
    if pairs.shape[0] != 2:
        raise DataFormatError(f"{key} must have two rows, got {pairs.shape[0]}.")
    weight = None
    if "edge_weight" in file and graph == DEFAULT_GRAPH:
        weight = file.read("edge_weight", kinds="f", ndim=1)
        if weight.size != pairs.shape[1] or not np.isfinite(weight).all():
            raise DataFormatError("edge_weight must hold one finite number for each edge.")
    return pairs, weight


def _provenance(file: NpzFile) -> dict[str, str]:
    if "provenance" not in file:
        return {}
    pairs = file.read("provenance", kinds="U", ndim=2)
    if pairs.shape[1] != 2:
        raise DataFormatError("provenance must hold pairs of text.")
    return {str(key): str(value) for key, value in pairs.tolist()}


def write_node_npz(
    data: NodeData, path: str | Path, *, other_graphs: Mapping[str, sp.csr_matrix] | None = None
) -> None:
    """Write a record as npz, readable by :func:`read_node_npz` and ``numpy.load`` alike.

    Parameters
    ----------
    data
        The record.
    path
        Where to write; an existing file is replaced, whole or not at all.
    other_graphs
        More graphs on the same nodes, by name, without weights.
    """
    unlabelled = np.flatnonzero(data.labels < 0)
    arrays = {
        "features_data": data.features.data,
        "features_indices": data.features.indices,
        "features_indptr": data.features.indptr,
        "features_shape": np.array(data.features.shape, dtype=np.int64),
        "labels": np.maximum(data.labels, 0),
        "class_names": text_array(data.class_names),
        "name": np.array(data.name, dtype=np.str_),
    }
    if unlabelled.size:
        arrays["unlabeled_idx"] = unlabelled
    if data.graph is not None:
        rows, columns, weights = upper_pairs(data.graph)
        arrays["edge_index"] = np.stack([rows, columns])
        if (weights != 1).any():
            arrays["edge_weight"] = weights
    for name, other in (other_graphs or {}).items():
        arrays[f"edge_index_{name}"] = np.stack(upper_pairs(other)[:2])
    arrays.update({f"{key}_idx": nodes for key, nodes in data.splits.items()})
    if data.ids is not None:
        arrays["ids"] = data.ids
    if data.feature_names is not None:
        arrays["feature_names"] = text_array(data.feature_names)
    if data.provenance:
        arrays["provenance"] = text_array_2d(data)
    write_npz(Path(path), arrays)


def text_array_2d(data: NodeData) -> np.ndarray:
    """Return the provenance as a table of two columns."""
    pairs = [[key, value] for key, value in data.provenance.items()]
    if any("\0" in text for pair in pairs for text in pair):
        raise InputError("provenance must not hold NUL characters.")
    return np.array(pairs, dtype=np.str_)
