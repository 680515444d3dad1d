"""Settings of a network, its input features, dense or sparse, and dropout with a generator."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.rows import CsrMatrix, differentiable_product, to_dense_array, to_device

# Settings


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Sizes of a network; each head takes those that it has."""

    n_hidden: int = 16  # hidden units
    dropout: float = 0.5
    drop_node: float = 0.0  # ``propagation``: share of nodes dropped in a view
    n_steps: int = 2  # propagation steps over the graph


# Dropout


def apply_dropout(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Set each entry to zero with probability ``rate`` and rescale the others."""
    return x if rate == 0 else x * keep_mask(x, rate, generator)


def keep_mask(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Return a dropout mask of ``x``'s shape: 0 or the rescaling factor.

    On the CPU each entry uses one random byte, several times faster than a random float; so the
    rate is rounded to a multiple of 1/256, and the factor is that of the rounded rate. On a GPU
    few kernels matter more than few random numbers, so the mask is drawn by ``bernoulli_``.
    """
    factor = rescaling(rate)
    if x.is_cuda:
        return torch.empty_like(x).bernoulli_(1 / factor, generator=generator).mul_(factor)
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    cut = round(256 * rate)
    # bytes below the cut become cut - 1, all others the cut; most passes are over bytes
    values = words.view(torch.uint8)[: x.numel()].clamp_(max(0, cut - 1), cut).to(x.dtype)
    return values.sub_(cut - 1).mul_(factor).reshape(x.shape)


def rescaling(rate: float) -> float:
    """Return the factor of kept entries, for the rate rounded to a multiple of 1/256."""
    return 256 / (256 - round(256 * rate))


# Features


@dataclass(frozen=True, eq=False)
class Features:
    """Features ``X`` of all nodes, dense or CSR, for products ``X @ W`` inside a network.

    Dropout applies to the stored values only: dropping a zero changes nothing.
    """

    shape: tuple[int, int]
    values: Tensor
    # of the matrix and its transpose, built once; None: dense
    patterns: tuple[CsrMatrix, CsrMatrix] | None = None

    @classmethod
    def of(
        cls, matrix: Any, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
    ) -> "Features":
        """Wrap a NumPy array or a SciPy sparse matrix, nodes x columns.

        A sparse matrix with more than a third of its entries stored becomes dense, which is faster.
        """
        if sp.issparse(matrix) and matrix.nnz * 3 <= matrix.shape[0] * matrix.shape[1]:
            csr = sp.csr_matrix(matrix, copy=True)
            csr.sort_indices()
            stored = CsrMatrix.from_scipy(csr, device)
            pattern = stored.with_values(torch.arange(csr.nnz, device=device))
            return cls(csr.shape, stored.values.to(dtype), (pattern, pattern.transpose()))
        shared = to_device(to_dense_array(matrix), "cpu")
        values = shared.to(device=device, dtype=dtype, copy=True)
        return cls(matrix.shape, values)

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self.values.device

    def columns(self, first: int, last: int) -> Float[Tensor, "n k"]:
        """Return the columns from ``first`` up to ``last`` (exclusive), dense."""
        if self.patterns is None:
            return self.values[:, first:last].contiguous()
        block = self.patterns[1].block(slice(first, last))
        return block.with_values(self.values[block.values]).to_dense().T.contiguous()

    def apply_dropout(self, rate: float, generator: torch.Generator) -> "Features":
        """Drop stored values with probability ``rate`` and rescale the others."""
        values = apply_dropout(self.values, rate, generator)
        return Features(self.shape, values, self.patterns)

    def product(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        """Return ``X @ weight`` without a gradient."""
        if self.patterns is None:
            return self.values @ weight.detach()
        return self.patterns[0].with_values(self.values).spmm(weight.detach())

    def transpose_product(self, g: Float[Tensor, "n h"]) -> Float[Tensor, "d h"]:
        """Return ``X.T @ g`` without a gradient."""
        if self.patterns is None:
            return self.values.T @ g
        transposed = self.patterns[1]
        values = self.values.index_select(0, transposed.values)  # much faster than an index
        return transposed.with_values(values).spmm(g.contiguous())

    def __matmul__(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        if self.patterns is None:
            return self.values @ weight
        return differentiable_product(weight, self.product, self.transpose_product)
