"""Records of some of the nodes of another."""

from typing import Any

import numpy as np

from glnn._validation import check_indices
from glnn.data.node_data import SPLIT_KEYS, NodeData


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
