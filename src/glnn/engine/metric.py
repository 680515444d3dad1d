"""A metric learned from the task: how much each feature column says about the classes."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.distributed import SINGLE_PROCESS, Peers
from glnn.graph.rows import to_dense_array


def channel_weights(
    features: Any, probabilities: np.ndarray, peers: Peers = SINGLE_PROCESS
) -> np.ndarray:
    r"""Return the weight :math:`w_f \ge 0` of each column, mean one; processes have own rows.

    Non-negative columns (words): :math:`w_f = KL(p(c \mid f) \,\|\, p(c))`, smoothed by one
    count. Others: the correlation ratio :math:`\eta^2`, the share of the column's variance that
    lies between the classes. Both under the soft class probabilities.
    """
    stored = features.data if sp.issparse(features) else features
    lowest = -peers.all_reduce(-float(stored.min(initial=0.0)), "max")
    if lowest >= 0 and sp.issparse(features):
        weights = _word_weights(features, probabilities, peers)
    else:
        dense = np.asarray(to_dense_array(features), dtype=np.float64)
        weights = _variance_weights(dense, probabilities, peers)
    mean = weights.mean()
    return weights / mean if mean > 0 else np.ones_like(weights)


def _word_weights(features: sp.csr_matrix, probabilities: np.ndarray, peers: Peers) -> np.ndarray:
    prior = peers.all_reduce(probabilities.sum(0)) / peers.all_reduce(float(len(probabilities)))
    mass = peers.all_reduce(np.asarray(features.T @ probabilities))  # word x class
    given = (mass + prior) / (mass.sum(1, keepdims=True) + 1.0)
    return np.asarray((given * np.log(given / prior)).sum(1))


def _variance_weights(features: np.ndarray, probabilities: np.ndarray, peers: Peers) -> np.ndarray:
    size = peers.all_reduce(probabilities.sum(0))
    means = peers.all_reduce(probabilities.T @ features) / np.maximum(size, 1e-12)[:, None]
    centre = peers.all_reduce(features.sum(0)) / peers.all_reduce(float(len(features)))
    between = (size[:, None] * (means - centre) ** 2).sum(0)
    total = peers.all_reduce(((features - centre) ** 2).sum(0))
    share: np.ndarray = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    return share
