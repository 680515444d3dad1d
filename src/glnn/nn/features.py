"""Input features that stay sparse: products with a weight matrix, dropout on stored values."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.rows import CsrPattern, dense_rows, product, to_device

# --- dropout: Dropout whose randomness comes from a generator that the caller holds


def dropped(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Return ``x`` with each entry zero with probability ``rate``, the rest rescaled.

    Examples
    --------
    >>> dropped(torch.ones(2), 0.0, torch.Generator())
    tensor([1., 1.])
    """
    if rate == 0:
        return x
    return x * keep_mask(x, rate, generator)


def keep_mask(x: Float[Tensor, "..."], rate: float, generator: torch.Generator) -> Tensor:
    """Return a mask of ``x``'s shape: 0 where dropped, else the rescaling that keeps the mean.

    One random byte decides an entry, which is several times faster than a random float; the rate
    is therefore rounded to a multiple of 1/256, and the rescaling uses the rounded one. On a GPU
    numbers are cheap and kernels are not: there one draw makes the mask.
    """
    if x.is_cuda:
        mask = torch.empty_like(x).bernoulli_(1 / rescaling(rate), generator=generator)
        return mask.mul_(rescaling(rate))
    return mask_of(random_bytes(x.numel(), generator), x, rate)


def mask_of(drawn: Tensor, x: Float[Tensor, "..."], rate: float) -> Tensor:
    """Return the mask that random bytes, one for each entry of ``x``, stand for.

    A byte is kept from :func:`n_dropped_bytes` on. Cutting off below and above says so in
    numbers, five times faster than a comparison, whose truth values would be turned into numbers
    one by one.
    """
    kept = drawn.to(x.dtype).sub_(n_dropped_bytes(rate) - 1).clamp_(0, 1)
    return kept.mul_(rescaling(rate)).reshape(x.shape)


def n_dropped_bytes(rate: float) -> int:
    """Return how many of the 256 values of a byte drop an entry: the rate rounded to 1/256."""
    return round(256 * rate)


def rescaling(rate: float) -> float:
    """Return what kept entries are multiplied with, for the rounded rate."""
    return 256 / (256 - n_dropped_bytes(rate))


def random_bytes(n_bytes: int, generator: torch.Generator) -> Tensor:
    """Return random bytes, eight from each random word: the one place where noise is drawn."""
    words = torch.empty(-(-n_bytes // 8), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:n_bytes]


# --- features: Input features that stay sparse: products with a weight matrix, dropout on stored v


class Features:
    """Features ``X`` of all nodes, dense or CSR, for products ``X @ W`` inside a network.

    The transposed structure that the gradient needs is built once. ``dropped`` draws a new mask
    over the stored values alone: dropping a zero changes nothing.

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
        """Wrap a numpy array or a scipy sparse matrix.

        A sparse matrix with more than a third of its entries stored is cheaper dense.
        """
        if sp.issparse(matrix) and matrix.nnz * 3 <= matrix.shape[0] * matrix.shape[1]:
            csr = sp.csr_matrix(matrix)
            csr.sort_indices()
            offsets = torch.from_numpy(csr.indptr.astype(np.int64)).to(device)
            columns = torch.from_numpy(csr.indices.astype(np.int64)).to(device)
            source = torch.arange(csr.nnz, device=device)
            pattern = CsrPattern.compressed(csr.shape, offsets, columns, source)
            values = torch.tensor(csr.data, device=device, dtype=dtype)
            return cls(csr.shape, values, pattern, pattern.transposed())
        shared = to_device(dense_rows(matrix), "cpu")
        values = shared.to(device=device, dtype=dtype, copy=True)
        return cls(matrix.shape, values)

    @property
    def device(self) -> torch.device:
        """Where the values lie."""
        return self.values.device

    @property
    def is_sparse(self) -> bool:
        """Whether only some entries are stored."""
        return self._pattern is not None

    @property
    def pattern(self) -> CsrPattern:
        """Where the stored values of sparse features lie, in their order."""
        assert self._pattern is not None
        return self._pattern

    @property
    def transposed(self) -> CsrPattern:
        """Where they lie in the transposed matrix."""
        assert self._transposed is not None
        return self._transposed

    def columns(self, first: int, last: int) -> Float[Tensor, "n k"]:
        """Return the columns from ``first`` up to ``last``, dense.

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

    def dropped(self, rate: float, generator: torch.Generator) -> "Features":
        """Return the features with a share ``rate`` of the stored values dropped, rescaled."""
        values = dropped(self.values, rate, generator)
        return Features(self.shape, values, self._pattern, self._transposed)

    def product(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        """Return the product; no gradient flows through it."""
        if self._pattern is None:
            return self.values @ weight.detach()
        return product(self._pattern.filled(self.values), weight.detach())  # in its order

    def transposed_product(self, g: Float[Tensor, "n h"]) -> Float[Tensor, "d h"]:
        """Return the product of the transposed features, likewise."""
        if self._transposed is None:
            return self.values.T @ g
        return self._transposed.matmul(self.values, g.contiguous())

    def __matmul__(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        if self._pattern is None:
            return self.values @ weight
        return _FeatureProduct.apply(weight, self)  # type: ignore[no-any-return, no-untyped-call]


class _FeatureProduct(torch.autograd.Function):
    r""":math:`Z = X W` with :math:`\partial W = X^\top \partial Z`, as the features take both."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Features) -> Tensor:
        ctx.x = x
        return x.product(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.x.transposed_product(grads[0]), None
