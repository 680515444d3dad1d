r"""Layout of a graph in the plane: a spectral start, then gradient descent as in t-SNE.

With :math:`p_{ij}` the graph scaled so that each node has the same weight and all entries sum to
one, and :math:`q_{ij} = (1 + |y_i - y_j|^2)^{-1}`, the positions follow the gradient

.. math:: \sum_j \Big(p_{ij} - \frac{q_{ij}}{Z}\Big)\, q_{ij}\, (y_i - y_j), \quad
          Z = \sum_{k \ne l} q_{kl},

of van der Maaten's t-SNE with the graph in place of its neighbourhoods. The repulsion and
:math:`Z` are computed by convolution on a grid, so that the cost of a step is linear in the number
of nodes and edges.
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from scipy import fft

from glnn.graph.prior import normalize_adjacency

_N_DIRECTIONS, _N_POWERS = 16, 40  # of the spectral start
_N_STEPS = 250
_N_EARLY = 90  # first steps, with stronger attraction (t-SNE's early exaggeration)
_JITTER = 0.3  # standard deviation of the noise added to positions
_STEP = 0.3  # spacing of the grid; the kernel of a node has a width of about one
_MOST_POINTS = 180  # largest number of grid points along a side
_GRAVITY = 2e-3  # keeps small separate parts from drifting away


def plane_layout(
    adjacency: sp.csr_matrix,
    groups: np.ndarray | None = None,
    start: Float[np.ndarray, "n 2"] | None = None,
) -> Float[np.ndarray, "n 2"]:
    """Return a position for each node, about in the unit disc; it depends on the input only.

    ``adjacency`` is symmetric and non-negative. Nodes without an edge lie on a ring around the
    others, sorted by ``groups``. With ``start``, positions of an earlier layout, each part of the
    graph stays about where it was.
    """
    rng = np.random.default_rng(0)
    graph = sp.csr_matrix(adjacency, dtype=np.float64, copy=True)
    graph.setdiag(0)
    graph.eliminate_zeros()
    linked = np.flatnonzero(np.diff(graph.indptr))
    places = np.zeros((graph.shape[0], 2))
    if linked.size:
        inner = graph[linked][:, linked]
        share = sp.diags(1 / np.asarray(inner.sum(1)).ravel()) @ inner
        both = sp.csr_matrix(share + share.T)  # each node has the same weight
        if start is None:
            first = spectral_layout(inner, rng)
        else:
            first = start[linked] / max(float(start[linked].std()), 1e-12)
        found = _optimize(both / both.sum(), first, rng)
        radius = np.linalg.norm(found, axis=1, keepdims=True)
        unit = max(float(np.quantile(radius, 0.99)), 1e-12)
        places[linked] = found / np.maximum(unit, radius / 1.05)  # the last 1 % at the border
    alone = np.setdiff1d(np.arange(graph.shape[0]), linked)
    order = alone if groups is None else alone[np.argsort(groups[alone], kind="stable")]
    angle = 2 * np.pi * np.arange(len(order)) / max(len(order), 1)
    places[order] = 1.15 * np.column_stack([np.cos(angle), np.sin(angle)])
    return places


def spectral_layout(graph: sp.csr_matrix, rng: np.random.Generator) -> Float[np.ndarray, "n 2"]:
    """Return the two main directions of the graph's diffusion, with noise to separate equal nodes.

    The leading eigenvectors come from a subspace iteration with a fixed number of steps, which is
    deterministic; they are weighted by the eighth power of their eigenvalue.
    """
    n_nodes = graph.shape[0]
    jitter = rng.standard_normal((n_nodes, 2))
    width = min(_N_DIRECTIONS, n_nodes)
    hat = normalize_adjacency(graph)
    basis = np.linalg.qr(rng.standard_normal((n_nodes, width)))[0]
    for _ in range(_N_POWERS):
        basis = np.linalg.qr(basis + hat @ basis)[0]
    values, rotation = np.linalg.eigh(basis.T @ (hat @ basis))
    diffused = (basis @ rotation) * np.maximum(values, 0.0) ** 8
    left, sizes, _ = np.linalg.svd(diffused - diffused.mean(0), full_matrices=False)
    left *= np.where(left[np.abs(left).argmax(0), np.arange(left.shape[1])] < 0, -1, 1)
    places = np.zeros((n_nodes, 2))
    places[:, : min(2, width)] = (left * sizes)[:, :2]
    return np.asarray(places / max(float(places.std()), 1e-12) + _JITTER * jitter)


def _optimize(
    affinities: sp.csr_matrix, places: Float[np.ndarray, "n 2"], rng: np.random.Generator
) -> Float[np.ndarray, "n 2"]:
    """Run gradient descent with momentum.

    Noise is added once after the early steps, which can collapse a connected component into a
    single point, where the gradient vanishes.
    """
    n_nodes = len(places)
    rows = np.repeat(np.arange(n_nodes), np.diff(affinities.indptr))
    rate, speed = max(n_nodes / 12, 20.0), np.zeros_like(places)
    for step in range(_N_STEPS):
        early = step < _N_EARLY
        if step == _N_EARLY:
            places = places + _JITTER * rng.standard_normal(places.shape)
        # sum_j p_ij q_ij (y_i - y_j)
        x, y = (place[affinities.indices] - place[rows] for place in places.T)
        near = affinities.data / (1 + (x**2 + y**2))
        pull = sp.csr_matrix((near, affinities.indices, affinities.indptr), shape=affinities.shape)
        gradient = np.asarray(pull.sum(1)).reshape(-1, 1) * places - pull @ places
        gradient = gradient * (8.0 if early else 1.0) - _repulsion(places)
        gradient += _GRAVITY * places / n_nodes
        speed = (0.5 if early else 0.8) * speed - rate * gradient
        length = np.linalg.norm(speed, axis=1, keepdims=True)
        places = places + speed * np.minimum(1.0, 5.0 / np.maximum(length, 1e-12))
        places = places - places.mean(0)
    return places


def _repulsion(places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    r"""Return :math:`\sum_j q_{ij}^2 (y_i - y_j) / Z`, the sums by convolution on a grid.

    Each node is distributed over the four grid points around it. With
    :math:`S_0 = \sum_j q_{ij}^2` and :math:`S_1 = \sum_j q_{ij}^2 y_j` the force is
    :math:`(y_i S_0 - S_1) / Z`, in which a node's own share cancels.
    """
    low, width = places.min(0), max(float(np.ptp(places, 0).max()), 1.0)
    side = int(np.clip(np.ceil(width / _STEP), 16, _MOST_POINTS - 2)) + 2
    side = int(fft.next_fast_len(side, real=True))
    step = width / (side - 2)
    at = (places - low) / step
    whole = at.astype(np.int64)
    right, up = (at - whole).T
    corners = [(a, b) for a in (0, 1) for b in (0, 1)]
    points = np.stack([(whole[:, 0] + a) * side + whole[:, 1] + b for a, b in corners])
    shares = np.stack([(right if a else 1 - right) * (up if b else 1 - up) for a, b in corners])
    fields = np.stack(
        [
            np.bincount(points.ravel(), (shares * c).ravel(), side * side).reshape(side, side)
            for c in (np.ones(len(places)), *places.T)
        ]
    )
    far = np.minimum(np.arange(2 * side), 2 * side - np.arange(2 * side)) * step
    near = 1 / (1 + far[:, None] ** 2 + far**2)
    size = (2 * side, 2 * side)
    waves = fft.rfft2(fields, size)
    sums = fft.irfft2(waves * fft.rfft2(near**2), size)[:, :side, :side]
    reached = fft.irfft2(waves[0] * fft.rfft2(near), size)[:side, :side]
    total = float((fields[0] * reached).sum() - len(places))  # Z: pairs of different nodes
    s0, *s1 = ((part.ravel()[points] * shares).sum(0) for part in sums)
    return np.asarray((places * s0[:, None] - np.stack(s1, 1)) / max(total, 1e-12))
