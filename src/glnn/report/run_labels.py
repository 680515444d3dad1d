"""Which labels the fit of a run may see, and which class is which."""

import numpy as np

from glnn.data import NodeData, Split


def visible_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return what the estimator may see: classes of training and validation nodes.

    Classes are whole numbers where all names are, otherwise names.
    """
    seen = np.concatenate([split.train, split.val])
    if all(name == str(_whole(name)) for name in data.class_names):
        y = np.full(data.n_nodes, -1, dtype=np.int64)
        y[seen] = np.array([int(name) for name in data.class_names])[data.labels[seen]]
        return y
    named = np.full(data.n_nodes, "", dtype=object)
    named[seen] = np.array(data.class_names, dtype=object)[data.labels[seen]]
    return named.astype(np.str_)


def hidden_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return the classes of the test nodes, which no fit sees; -1 elsewhere."""
    hidden = np.full(data.n_nodes, -1, dtype=np.int64)
    hidden[split.test] = data.labels[split.test]
    return hidden


def class_numbers(data: NodeData, classes: np.ndarray) -> np.ndarray:
    """Return the class number in ``data`` of each of the estimator's classes."""
    place = {name: number for number, name in enumerate(data.class_names)}
    return np.array([place[str(name)] for name in classes], dtype=np.int64)


def _whole(name: str) -> int | None:
    return int(name) if name.isascii() and name.removeprefix("-").isdigit() else None
