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
    """Set each entry to zero with probability ``rate`` and rescale the others.

    Examples
    --------
    >>> apply_dropout(torch.ones(2), 0.0, torch.Generator())
    tensor([1., 1.])
    """
    if rate == 0:
        return x
    return x * keep_mask(x, rate, generator)


def keep_mask(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Return a dropout mask of ``x``'s shape: 0 or the rescaling factor.

    On the CPU each entry uses one random byte, several times faster than a random float; so the
    rate is rounded to a multiple of 1/256, and the factor is that of the rounded rate. On a GPU
    few kernels matter more than few random numbers, so the mask is drawn by ``bernoulli_``.
    """
    if x.is_cuda:
        mask = torch.empty_like(x).bernoulli_(1 / rescaling(rate), generator=generator)
        return mask.mul_(rescaling(rate))
    return mask_from_bytes(random_bytes(x.numel(), generator), x, rate)


def mask_from_bytes(values: Tensor, x: Float[Tensor, "..."], rate: float) -> Tensor:
    """Return the dropout mask of random bytes, one for each entry of ``x``.

    Entries with a byte of at least :func:`n_dropped_bytes` are kept. Subtracting and clamping is
    five times faster than a comparison and a conversion of its result to floats.
    """
    kept = values.to(x.dtype).sub_(n_dropped_bytes(rate) - 1).clamp_(0, 1)
    return kept.mul_(rescaling(rate)).reshape(x.shape)


def n_dropped_bytes(rate: float) -> int:
    """Return how many of the 256 values of a byte drop an entry."""
    return round(256 * rate)


def rescaling(rate: float) -> float:
    """Return the factor of kept entries, for the rounded rate."""
    return 256 / (256 - n_dropped_bytes(rate))


def random_bytes(n_bytes: int, generator: torch.Generator) -> Tensor:
    """Return random bytes, eight from each random 64-bit integer."""
    words = torch.empty(-(-n_bytes // 8), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:n_bytes]


# Features


class Features:
    """Features ``X`` of all nodes, dense or CSR, for products ``X @ W`` inside a network.

    The transposed pattern that the gradient needs is built once. Dropout applies to the stored
    values only: dropping a zero changes nothing.

    Examples
    --------
    >>> x = Features.of(sp.csr_matrix(np.eye(3, dtype=np.float32)))
    >>> x @ torch.ones(3, 1)
    tensor([[1.],
            [1.],
            [1.]])
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
        """Wrap a NumPy array or a SciPy sparse matrix.

        A sparse matrix with more than a third of its entries stored becomes dense, which is faster.

        Parameters
        ----------
        matrix
            Nodes x columns.
        device, dtype
            Device and type of the values.
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

    @property
    def is_sparse(self) -> bool:
        """Whether the features are CSR."""
        return self._pattern is not None

    @property
    def pattern(self) -> CsrPattern:
        """Pattern of the stored values (sparse features only)."""
        assert self._pattern is not None
        return self._pattern

    @property
    def transposed(self) -> CsrPattern:
        """Pattern of the transposed matrix (sparse features only)."""
        assert self._transposed is not None
        return self._transposed

    def columns(self, first: int, last: int) -> Float[Tensor, "n k"]:
        """Return the columns from ``first`` up to ``last`` (exclusive), dense.

        Examples
        --------
        >>> Features.of(sp.eye(3, format="csr", dtype=np.float32)).columns(1, 3)
        tensor([[0., 0.],
                [1., 0.],
                [0., 1.]])
        """
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
