"""Dropout whose randomness comes from a generator that the caller holds."""

import torch
from jaxtyping import Float
from torch import Tensor


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
