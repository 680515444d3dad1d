"""The spread features of a few nodes, with rows of graph and features over processes."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.parallel.graph_rows import GraphRows
from glnn.parallel.task import normalized_rows
from glnn.peers import Partition

_AT_ONCE = 64  # nodes


def spread_features(
    partition: Partition, block: sp.csr_matrix, features: Any, nodes: np.ndarray, n_steps: int = 2
) -> np.ndarray:
    r"""Return the rows of :math:`\frac{1}{K+1}\sum_k \hat A^k X` that belong to some nodes.

    The sum of powers is symmetric, so its rows at the nodes are its columns: it is applied to the
    indicators of a few nodes at a time, and every process adds what its rows of X give.
    """
    adj_hat = GraphRows(partition, normalized_rows(partition, block), dtype=torch.float64)
    parts = []
    for first in range(0, len(nodes), _AT_ONCE):
        some = nodes[first : first + _AT_ONCE]
        marks = torch.zeros(partition.n_rows, len(some), dtype=torch.float64)
        here = partition.has(some)
        marks[some[here] - partition.start, np.flatnonzero(here)] = 1.0
        weights = adj_hat.sum_of_powers(marks, n_steps).numpy() / (n_steps + 1)
        own = features.T @ weights if sp.issparse(features) else np.asarray(features).T @ weights
        parts.append(partition.peers.all_reduce(np.ascontiguousarray(own.T, dtype=np.float64)))
    return np.concatenate(parts)
