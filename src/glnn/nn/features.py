"""Input features of a network, dense or sparse, and dropout with an explicit generator."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.rows import CsrMatrix, CsrPattern, csr_matmul, to_dense_array, to_device

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
    values = words.view(torch.uint8)[: x.numel()].to(x.dtype)
    # a comparison, and a conversion of its result to floats, takes five times as long
    return values.sub_(round(256 * rate) - 1).clamp_(0, 1).mul_(factor).reshape(x.shape)


def rescaling(rate: float) -> float:
    """Return the factor of kept entries, for the rate rounded to a multiple of 1/256."""
    return 256 / (256 - round(256 * rate))


# Features


class Features:
    """Features ``X`` of all nodes, dense or CSR, for products ``X @ W`` inside a network.

    The transposed pattern that the gradient needs is built once. Dropout applies to the stored
    values only: dropping a zero changes nothing.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        values: Tensor,
        pattern: CsrPattern | None = None,
        transposed: CsrPattern | None = None,
    ) -> None:
        self.shape, self.values = shape, values
        self._pattern, self._transposed = pattern, transposed

    @classmethod
    def of(
        cls,
        matrix: Any,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "Features":
        """Wrap a NumPy array or a SciPy sparse matrix, nodes x columns.

        A sparse matrix with more than a third of its entries stored becomes dense, which is faster.
        """
        if sp.issparse(matrix) and matrix.nnz * 3 <= matrix.shape[0] * matrix.shape[1]:
            csr = sp.csr_matrix(matrix)
            csr.sort_indices()
            offsets = torch.from_numpy(csr.indptr.astype(np.int64)).to(device)
            columns = torch.from_numpy(csr.indices.astype(np.int64)).to(device)
            source = torch.arange(csr.nnz, device=device)
            pattern = CsrPattern.from_compressed(csr.shape, offsets, columns, source)
            values = torch.tensor(csr.data, device=device, dtype=dtype)
            return cls(csr.shape, values, pattern, pattern.transpose())
        shared = to_device(to_dense_array(matrix), "cpu")
        values = shared.to(device=device, dtype=dtype, copy=True)
        return cls(matrix.shape, values)

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self.values.device

    def columns(self, first: int, last: int) -> Float[Tensor, "n k"]:
        """Return the columns from ``first`` up to ``last`` (exclusive), dense."""
        if self._transposed is None:
            return self.values[:, first:last].contiguous()
        n_rows, width = self.shape[0], last - first
        offsets = self._transposed.offsets[first : last + 1].long()
        stored = slice(int(offsets[0]), int(offsets[-1]))
        numbers = torch.arange(width, device=self.device).repeat_interleave(offsets.diff())
        places = self._transposed.columns[stored].long() * width + numbers
        dense = self.values.new_zeros(n_rows * width)
        dense.index_add_(0, places, self.values[self._transposed.source[stored]])
        return dense.view(n_rows, width)

    def apply_dropout(self, rate: float, generator: torch.Generator) -> "Features":
        """Drop stored values with probability ``rate`` and rescale the others."""
        values = apply_dropout(self.values, rate, generator)
        return Features(self.shape, values, self._pattern, self._transposed)

    def product(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        """Return ``X @ weight`` without a gradient."""
        if self._pattern is None:
            return self.values @ weight.detach()
        return csr_matmul(CsrMatrix(self._pattern, self.values), weight.detach())  # in its order

    def transpose_product(self, g: Float[Tensor, "n h"]) -> Float[Tensor, "d h"]:
        """Return ``X.T @ g`` without a gradient."""
        if self._transposed is None:
            return self.values.T @ g
        return self._transposed.matmul(self.values, g.contiguous())

    def __matmul__(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        if self._pattern is None:
            return self.values @ weight
        return _FeatureProduct.apply(weight, self)  # type: ignore[no-any-return, no-untyped-call]


class _FeatureProduct(torch.autograd.Function):
    r""":math:`Z = X W` with the gradient :math:`\partial W = X^\top \partial Z`."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Features) -> Tensor:
        ctx.x = x
        return x.product(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.x.transpose_product(grads[0]), None
