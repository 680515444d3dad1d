r"""How well a graph serves the labels, without training a network: a linear probe.

Features are spread over the graph, :math:`Z = \frac13 (I + \hat A + \hat A^2) X`, and a ridge
regression on :math:`Z` predicts the classes. Everything is needed at the labelled and validation
nodes alone, so the probe works with the kernel of those rows and takes a fraction of a second.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.engine.classifier import Labels, graph_tensors
from glnn.engine.trainer import Validation
from glnn.graph.prior import normalized
from glnn.graph.row_matrix import DEVICE_BYTES, row_matrix, to_device

_RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_MAX_NODES = 1000
"""So many labelled nodes, and so many validation nodes, tell two graphs apart."""


def probe_loss(
    adjacency: sp.csr_matrix,
    features: Any,
    labels: Labels,
    validation: Validation | None,
    seed: int,
    *,
    device: str | torch.device = "cpu",
) -> float:
    """Return the mean squared error of the best ridge on nodes that it was not fitted to.

    With validation nodes those are meant, otherwise every labelled node when it is left out.
    """
    nodes, classes, n_known = probed_nodes(labels, validation, seed)
    one_hot = np.eye(labels.n_classes)[classes]
    if torch.device(device).type != "cpu":
        resident = spread_on_device(adjacency, features, nodes, device)
        return loss_on_device(resident, to_device(one_hot, device), n_known)
    spread = spread_rows(adjacency, nodes) @ features
    rows = np.asarray(spread.toarray() if sp.issparse(spread) else spread, dtype=np.float64)
    return loss_of_rows(rows, one_hot, n_known)


def probed_nodes(
    labels: Labels, validation: Validation | None, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return nodes and their classes, those to fit to first, and how many those are."""
    rng = np.random.default_rng(seed)
    known = _some(labels.nodes.numpy(), labels.classes.numpy(), rng)
    if validation is None:
        return *known, len(known[0])
    asked = _some(validation.nodes.cpu().numpy(), validation.labels.cpu().numpy(), rng)
    nodes, classes = (np.concatenate(both) for both in zip(known, asked))
    return nodes, classes, len(known[0])


def loss_of_rows(rows: np.ndarray, one_hot: np.ndarray, n_known: int) -> float:
    """Return the error of the best ridge, given the spread features of the probed nodes."""
    targets = one_hot - 1 / one_hot.shape[1]
    kernel = rows @ rows[:n_known].T
    size = max(float(np.trace(kernel[:n_known])) / n_known, 1e-300)
    kernel += size  # a constant column of the same size is the intercept
    return min(_ridge_loss(kernel, targets, n_known, ridge * size) for ridge in _RIDGES)


def spread_rows(adjacency: sp.csr_matrix, nodes: np.ndarray, n_steps: int = 2) -> sp.csr_matrix:
    r"""Return the rows of :math:`\frac{1}{K+1}\sum_k \hat A^k` that belong to some nodes."""
    adj_hat, shape = normalized(adjacency), (len(nodes), adjacency.shape[0])
    picks = (np.ones(len(nodes)), (np.arange(len(nodes)), nodes))
    total = power = sp.csr_matrix(picks, shape=shape)
    for _ in range(n_steps):
        power = sp.csr_matrix(power @ adj_hat)
        total = total + power
    return sp.csr_matrix(total / (n_steps + 1))


def spread_on_device(
    adjacency: sp.csr_matrix,
    features: Any,
    nodes: np.ndarray,
    device: str | torch.device,
    n_steps: int = 2,
) -> Tensor:
    """Return the spread features of some nodes, by products over all of them, few columns a time.

    A GPU takes all nodes faster than a processor finds those two steps away.
    """
    _, adj_hat = graph_tensors(adjacency, torch.device(device), dtype=torch.float64)
    picked = to_device(nodes, device)
    step = max(1, DEVICE_BYTES // (32 * adjacency.shape[0]))
    parts = []
    for first in range(0, features.shape[1], step):
        columns = row_matrix(features[:, first : first + step], device=device).dense().double()
        spread = adj_hat.sum_of_powers(columns.contiguous(), n_steps)
        parts.append(spread[picked] / (n_steps + 1))
    return torch.cat(parts, 1)


def loss_on_device(rows: Tensor, one_hot: Tensor, n_known: int) -> float:
    """Return the same error as :func:`loss_of_rows`, in tensors."""
    targets = one_hot - 1 / one_hot.shape[1]
    kernel = rows @ rows[:n_known].T
    size = (kernel[:n_known].trace() / n_known).clamp_min(1e-300)
    kernel += size
    losses = []
    for ridge in _RIDGES:
        inverse = torch.linalg.inv(kernel[:n_known] + torch.diag(ridge * size.expand(n_known)))
        alpha = inverse @ targets[:n_known]
        errors = alpha / inverse.diagonal()[:, None]
        if len(kernel) > n_known:
            errors = kernel[n_known:] @ alpha - targets[n_known:]
        losses.append(errors.square().sum(1).mean())
    return float(torch.stack(losses).min())


def _ridge_loss(kernel: np.ndarray, targets: np.ndarray, n_known: int, ridge: float) -> float:
    r"""Errors on the rows below the first ``n_known``, or left out one by one where none are.

    With :math:`H = (K + \rho I)^{-1}` and :math:`\alpha = H T`, the error of a row that is left
    out is :math:`\alpha_i / H_{ii}`.
    """
    inverse = np.linalg.inv(kernel[:n_known] + ridge * np.eye(n_known))
    alpha = inverse @ targets[:n_known]
    if len(kernel) > n_known:
        errors = kernel[n_known:] @ alpha - targets[n_known:]
    else:
        errors = alpha / np.diag(inverse)[:, None]
    return float(np.square(errors).sum(1).mean())


def _some(
    nodes: np.ndarray, classes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    if len(nodes) <= _MAX_NODES:
        return nodes, classes
    picked = rng.choice(len(nodes), _MAX_NODES, replace=False)
    return nodes[picked], classes[picked]
