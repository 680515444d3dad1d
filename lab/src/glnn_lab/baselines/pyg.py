"""PyTorch Geometric, imported when a method first needs it, and its messages made cheap."""

from typing import Any

import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.data.optional import need
from glnn.graph.sparse import SparseAdjacency


def layers() -> Any:
    """Return ``torch_geometric.nn``, or say which extra of glnn brings it."""
    return need("torch_geometric.nn")


def fused(layer: Any) -> Any:
    r"""Let a layer that sums :math:`\sum_j w_{ij} x_j` with fixed weights multiply instead.

    The weights that the layer itself computes in its first pass become a sparse matrix, which
    every later pass multiplies with: several times faster than gathering and scattering a row
    for each edge. The graph must be symmetric and the same in every pass.
    """
    stored: dict[str, Any] = {}

    def product(index: Int[Tensor, "2 e"], *, x: Float[Tensor, "n d"], **weights: Any) -> Tensor:
        if "matrix" not in stored:
            (weight,) = weights.values()
            stored["matrix"] = _matrix(index, weight, len(x))
        result: Tensor = stored["matrix"] @ x
        return result

    layer.propagate = product
    if hasattr(layer, "__norm__"):  # ChebConv would normalise anew in every pass
        compute = layer.__norm__

        def norm(*args: Any, **options: Any) -> Any:
            if "norm" not in stored:
                stored["norm"] = compute(*args, **options)
            return stored["norm"]

        layer.__norm__ = norm
    return layer


def _matrix(index: Int[Tensor, "2 e"], weight: Float[Tensor, "e"], n_nodes: int) -> SparseAdjacency:
    rows, columns = index.numpy()
    entries = sp.coo_matrix((weight.numpy(), (rows, columns)), shape=(n_nodes, n_nodes))
    return SparseAdjacency.from_scipy(entries, dtype=torch.float32)
