"""The paper's sample of Pubmed, and records of some of the nodes of another."""

from typing import Any

import numpy as np

from glnn._validation import check_indices, check_integer
from glnn.data.node_data import SPLIT_KEYS, NodeData
from glnn.data.splits import make_split
from glnn.exceptions import InputError


def induced(data: NodeData, nodes: Any, **changes: Any) -> NodeData:
    """Return the record of some nodes, with the edges between them.

    Parameters
    ----------
    data
        The record.
    nodes
        Node numbers or a mask; their order becomes the order of the new record.
    **changes
        Fields to set, by name. Ids default to the old ids, or the old node numbers.

    Examples
    --------
    >>> data = NodeData.from_arrays(np.eye(3), [0, 1, 0], edges=[[0, 1], [1, 2]])
    >>> induced(data, [1, 2]).n_edges
    1
    """
    chosen = check_indices("nodes", nodes, data.n_nodes)
    place = np.full(data.n_nodes, -1, dtype=np.int64)
    place[chosen] = np.arange(chosen.size)
    kept = {key: place[data.splits[key]] for key in SPLIT_KEYS if key in data.splits}
    fields: dict[str, Any] = {
        "features": data.features[chosen],
        "labels": data.labels[chosen],
        "graph": None if data.graph is None else data.graph[chosen][:, chosen],
        "ids": data.node_ids[chosen],
        "splits": {key: rows[rows >= 0] for key, rows in kept.items()},
    }
    return data.replace(**{**fields, **changes})


def pubmed_star(data: NodeData, seed: int = 0, *, n_nodes: int = 3000) -> NodeData:
    """Return the paper's Pubmed*: a random sample of nodes with its own split.

    The paper samples 3,000 nodes, labels 60 of them (20 a class) and tests on 1,000. It names no
    validation nodes; 500 of the rest take that part.

    Parameters
    ----------
    data
        Pubmed.
    seed
        Number of the draw, of the sample and of the split.
    n_nodes
        Size of the sample.

    Returns
    -------
    NodeData
        Named ``pubmed_star``; ``ids`` are the node numbers in Pubmed, ``splits`` the split.
    """
    check_integer("seed", seed, low=0)
    check_integer("n_nodes", n_nodes, low=1, high=data.n_nodes)
    if n_nodes < 20 * data.n_classes + 2:
        raise InputError(f"n_nodes must leave nodes to test on, got {n_nodes}.")
    rng = np.random.default_rng([seed, 3000])
    chosen = np.sort(rng.choice(data.n_nodes, size=n_nodes, replace=False))
    origin = {**data.provenance, "sample": f"{n_nodes} nodes of {data.name}, seed {seed}"}
    sample = induced(data, chosen, name="pubmed_star", splits={}, provenance=origin)
    return sample.replace(splits=make_split(sample, "per_class", seed).as_dict())
