r"""A linear probe: how well the labels can be predicted with a graph, without training a network.

Features are propagated over the graph, :math:`Z = \frac13 (I + \hat A + \hat A^2) X`, and a ridge
regression on :math:`Z` predicts the classes. Everything is needed at the labelled and validation
nodes alone, so the probe works with the kernel of those rows and takes a fraction of a second.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from glnn.distributed import SINGLE_PROCESS, Partition, Peers
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation
from glnn.graph.adjacency import stored_entries
from glnn.graph.prior import inverse_sqrt
from glnn.graph.rows import silence_csr_warning, to_dense_array, to_device

_RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_LEAST_WEIGHT = 1e-9
_MAX_NODES = 1000  # labelled nodes, and validation nodes, that a probe uses at most


def probe_loss(
    adjacency: sp.csr_matrix,
    features: Any,
    labels: Labels,
    validation: Validation | None,
    seed: int,
    *,
    partition: Partition | None = None,
    device: str | torch.device = "cpu",
) -> float:
    """Return the mean squared error of the best ridge on nodes that it was not fitted to.

    With validation nodes those are meant, otherwise every labelled node when it is left out. Where
    labels have weights, each counts by its own. Over several processes graph and features are
    those of the partition's rows, labels are all.
    """
    partition = partition or Partition(labels.n_nodes, SINGLE_PROCESS)
    nodes, classes, weights, n_known = sample_nodes(labels, validation, seed)
    one_hot = torch.from_numpy(np.eye(labels.n_classes)[classes])
    rows = propagate_features(adjacency, features, nodes, partition, device)
    counted = torch.from_numpy(weights).to(device)
    return partition.peers.broadcast(loss_of_rows(rows, one_hot.to(device), n_known, counted))


class ProbeNodes(NamedTuple):
    """Nodes, their classes and weights, those to fit to first, and how many those are."""

    nodes: np.ndarray
    classes: np.ndarray
    weights: np.ndarray
    n_known: int


def sample_nodes(labels: Labels, validation: Validation | None, seed: int) -> ProbeNodes:
    """Return the nodes of a probe: all labelled and validation nodes, or a sample."""
    rng = np.random.default_rng(seed)
    found = [_sample_nodes(labels.nodes, labels.classes, labels.weights, rng)]
    if validation is not None:
        found.append(_sample_nodes(validation.nodes, validation.labels, validation.weights, rng))
    nodes, classes, weights = (np.concatenate(parts) for parts in zip(*found))
    return ProbeNodes(nodes, classes, weights, len(found[0][0]))


def propagate_features(
    block: sp.csr_matrix,
    features: Any,
    nodes: np.ndarray,
    partition: Partition,
    device: str | torch.device = "cpu",
) -> Float64[Tensor, "k d"]:
    r"""Return the rows of :math:`\frac13 (I + \hat A + \hat A^2) X` that belong to some nodes.

    The sum of powers is symmetric, so its rows at the nodes are its columns. Those of
    :math:`\hat A` have few entries, which all processes learn; each applies its rows of
    :math:`\hat A` to them, and adds what its rows of :math:`X` give.
    """
    adj_hat = _normalize(block, partition, device)
    place = torch.full((partition.n_nodes,), -1, device=device)
    place[to_device(nodes, device)] = torch.arange(len(nodes), device=device)
    steps = _columns(adj_hat, place, len(nodes))
    here = np.flatnonzero(partition.is_local(nodes))
    marks = to_device(np.stack([nodes[here] - partition.start, here]), device)
    ones = torch.ones(len(here), dtype=torch.float64, device=device)
    near = steps + _coo(marks, ones, steps.shape, is_sorted=False)
    weights = (
        near.coalesce() + torch.sparse.mm(adj_hat, _gather_sparse_rows(steps, partition))
    ) / 3
    own: Tensor = torch.sparse.mm(weights.t(), _tensor(features, device))
    return partition.peers.all_reduce(own.to_dense() if own.is_sparse else own)


def _normalize(
    block: sp.csr_matrix, partition: Partition, device: str | torch.device
) -> Float64[Tensor, "m n"]:
    r"""Return the rows that are here of :math:`D^{-1/2} A D^{-1/2}`."""
    own = np.asarray(block.sum(1), dtype=np.float64).ravel()
    roots = inverse_sqrt(own), inverse_sqrt(partition.all_gather_rows(own))
    left, right = (to_device(part, device) for part in roots)
    adjacency = _tensor(block, device)
    rows, columns = adjacency.indices()
    return _coo(adjacency.indices(), adjacency.values() * left[rows] * right[columns], block.shape)


def _columns(
    block: Float64[Tensor, "m n"], place: Int[Tensor, "n"], n_picked: int
) -> Float64[Tensor, "m k"]:
    """Return the picked columns, in their new places."""
    rows, columns = block.indices()
    kept = (place[columns] >= 0).nonzero().view(-1)
    places = torch.stack([rows[kept], place[columns[kept]]])
    shape = (block.shape[0], n_picked)
    return _coo(places, block.values()[kept], shape, is_sorted=False).coalesce()


def _gather_sparse_rows(
    block: Float64[Tensor, "m k"], partition: Partition
) -> Float64[Tensor, "n k"]:
    """Return all rows of a matrix with few entries."""
    rows, columns = block.indices()
    parts = (rows + partition.start, columns, block.values())
    rows, columns, values = (torch.cat(partition.peers.all_gather(part)) for part in parts)
    return _coo(torch.stack([rows, columns]), values, (partition.n_nodes, block.shape[1]))


def loss_of_rows(
    rows: Float64[Tensor, "k d"],
    one_hot: Float64[Tensor, "k c"],
    n_known: int,
    weights: Float64[Tensor, "k"],
) -> float:
    """Return the error of the best ridge, given the propagated features of its nodes."""
    targets = one_hot - 1 / one_hot.shape[1]
    kernel = rows @ rows[:n_known].T
    size = (kernel[:n_known].trace() / n_known).clamp_min(1e-300)
    kernel += size  # a constant column of the same size is the intercept
    losses = [ridge_loss(kernel, targets, n_known, ridge * size, weights) for ridge in _RIDGES]
    return float(torch.stack(losses).min())


def ridge_loss(
    kernel: Float64[Tensor, "k l"],
    targets: Float64[Tensor, "k c"],
    n_known: int,
    ridge: Float64[Tensor, ""],
    weights: Float64[Tensor, "k"],
) -> Float64[Tensor, ""]:
    r"""Errors on the rows below the first ``n_known``, or left out one by one where none are.

    With :math:`H = (K + \rho W^{-1})^{-1}`, :math:`W` the weights of the rows, and
    :math:`\alpha = H T`, the error of a row that is left out is :math:`\alpha_i / H_{ii}`. Squares
    of errors count by the weights, too.
    """
    inverse = torch.linalg.inv(kernel[:n_known] + torch.diag(ridge / weights[:n_known]))
    alpha = inverse @ targets[:n_known]
    if len(kernel) > n_known:
        errors, counted = kernel[n_known:] @ alpha - targets[n_known:], weights[n_known:]
    else:
        errors, counted = alpha / inverse.diagonal()[:, None], weights
    loss: Tensor = (errors.square().sum(1) * counted).mean() / counted.mean()
    return loss


def _tensor(matrix: Any, device: str | torch.device) -> Float64[Tensor, "n d"]:
    """Return a dense or sparse matrix in double precision."""
    if not sp.issparse(matrix):
        return torch.from_numpy(np.asarray(matrix)).to(device, torch.float64)
    matrix.sum_duplicates()  # sorts the rows, if they are not
    rows, columns, values = stored_entries(matrix, device)
    return _coo(torch.stack([rows, columns.long()]), values.double(), matrix.shape)


def _coo(
    places: Int[Tensor, "2 e"],
    values: Float64[Tensor, "e"],
    shape: tuple[int, ...],
    *,
    is_sorted: bool = True,
) -> Float64[Tensor, "n d"]:
    """Return a sparse matrix by its entries, each given once."""
    silence_csr_warning()  # products turn to compressed rows inside
    return torch.sparse_coo_tensor(
        places, values, shape, is_coalesced=is_sorted, check_invariants=False
    )


def _sample_nodes(
    nodes: Tensor, classes: Tensor, weights: Tensor | None, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Return nodes, classes and weights, which are 1 by default, of at most this many nodes."""
    counted = torch.ones(len(nodes)) if weights is None else weights.clamp_min(_LEAST_WEIGHT)
    parts = [part.cpu().numpy() for part in (nodes, classes, counted.double())]
    if len(nodes) <= _MAX_NODES:
        return tuple(parts)
    picked = rng.choice(len(nodes), _MAX_NODES, replace=False)
    return tuple(part[picked] for part in parts)


# Column weights learned from the predictions


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
