"""Products of compressed rows with narrow matrices on a CUDA device, one small kernel each.

Libraries take three kernels for such a product, and more time to balance the work than to do it
where rows are short. Here a program takes a row. The order of every sum is fixed.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.exceptions import SlowPathWarning

try:
    import triton
    import triton.language as tl
except ImportError:  # PyTorch for the host alone brings no Triton
    triton = None

ENABLED = True
"""Whether the kernel is used where it runs; ``False`` leaves all products to the library."""

LONGEST = 4096
"""Entries of a row from which on a library that splits rows is faster."""

_SHORT = 256
"""Entries of a row up to which one warp is enough."""

_MANY = 2**15
"""Rows from which on those beside a long one keep the device busy while it is done."""


def kernel(function: Callable[..., Any]) -> Any:
    """Return a function as a kernel of Triton's, or as it is where there is none."""
    if triton is None:
        return function
    function = inspect.unwrap(function)  # checks of types at run time are not for the device
    counts = [name for name in inspect.signature(function).parameters if name.startswith("n_")]
    counts.remove("n_columns")  # rows of 16 numbers are read faster if that is known
    return triton.jit(function, do_not_specialize=counts)


def is_kernel_ready(x: Tensor) -> bool:
    """Say whether products with this matrix can be taken by the kernel."""
    is_single = ENABLED and triton is not None and x.is_cuda and x.dtype == torch.float32
    return is_single and _runs(x.device)


@functools.cache
def _runs(device: torch.device) -> bool:
    """Try a product of one entry: a compiler may be missing, or the device too old."""
    offsets = torch.tensor([0, 1], dtype=torch.int32, device=device)
    x = torch.ones(1, 16, device=device)
    try:
        return bool((row_product(offsets, offsets[:1], x[0, :1], x, longest=1) == 1).all())
    except Exception as error:  # whatever it is, the library does without
        reason = str(error).strip().split("\n")[0]
        warnings.warn(
            f"products are left to the library, as no kernel runs: {reason}",
            SlowPathWarning,
            stacklevel=2,
        )
        return False


def row_product(
    offsets: Int[Tensor, "r1"],
    columns: Int[Tensor, "e"],
    values: Float[Tensor, "v"],
    x: Float[Tensor, "c d"],
    *,
    longest: int,
    source: Int[Tensor, "e"] | None = None,
    start: Float[Tensor, "r d"] | None = None,
    out: Float[Tensor, "r d"] | None = None,
) -> Float[Tensor, "r d"]:
    r"""Return :math:`S + A X` with the rows of :math:`A` compressed.

    Parameters
    ----------
    offsets, columns, values, source
        Entry ``e`` has ``values[source[e]]``, or ``values[e]`` without a source.
    x
        The dense matrix, contiguous.
    longest
        About the number of entries of the longest row.
    start
        What is added to the product, contiguous; ``None``: nothing.
    out
        Where the result goes; may be ``start``, not ``x``.
    """
    n_rows, n_columns = len(offsets) - 1, x.shape[1]
    out = x.new_empty(n_rows, n_columns) if out is None else out
    if out.numel() == 0:
        return out
    width = min(64, max(16, power_of_2(n_columns)))
    entries, n_warps = tile_of(longest, n_rows)
    # a kernel goes to the current device, wherever its data are
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        _row[(n_rows, -(-n_columns // width))](
            offsets,
            columns,
            columns if source is None else source,
            values,
            x,
            x if start is None else start,
            out,
            n_columns,
            HAS_SOURCE=source is not None,
            HAS_START=start is not None,
            ENTRIES=entries,
            WIDTH=width,
            num_warps=n_warps,
        )
    return out


def tile_of(longest: int, n_rows: int) -> tuple[int, int]:
    """Return how many entries of a row are taken at a time, and by how many warps.

    A long row is waited for where rows are few, and is worth a large tile, which costs four times
    as much on short ones. There are two sizes alone: each is compiled when it is first used.

    Examples
    --------
    >>> tile_of(30, 2000), tile_of(1000, 2000), tile_of(1000, 100_000)
    ((32, 1), (128, 4), (32, 1))
    """
    return (128, 4) if longest > _SHORT and n_rows < _MANY else (32, 1)


def power_of_2(number: int) -> int:
    """Return the least power of 2 that is not below a number.

    Examples
    --------
    >>> power_of_2(7), power_of_2(16)
    (8, 16)
    """
    return 1 << max(0, number - 1).bit_length()


@kernel
def _row(
    offsets,
    columns,
    source,
    values,
    x,
    start,
    out,
    n_columns,
    HAS_SOURCE: "tl.constexpr",
    HAS_START: "tl.constexpr",
    ENTRIES: "tl.constexpr",
    WIDTH: "tl.constexpr",
):
    row = tl.program_id(0)
    place = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = place < n_columns
    high = tl.load(offsets + row + 1)
    total = tl.zeros((ENTRIES, WIDTH), dtype=tl.float32)
    for first in range(tl.load(offsets + row), high, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        there = entry < high
        column = tl.load(columns + entry, mask=there, other=0).to(tl.int64)
        if HAS_SOURCE:
            entry = tl.load(source + entry, mask=there, other=0)
        value = tl.load(values + entry, mask=there, other=0.0)
        both = there[:, None] & inside[None, :]
        part = tl.load(x + column[:, None] * n_columns + place[None, :], mask=both, other=0.0)
        total += value[:, None] * part
    found = tl.sum(total, 0)
    place += row.to(tl.int64) * n_columns
    if HAS_START:
        found += tl.load(start + place, mask=inside, other=0.0)
    tl.store(out + place, found, mask=inside)
