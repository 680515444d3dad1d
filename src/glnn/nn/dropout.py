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
    """Return a mask of ``x``'s shape: ``1 / (1 - rate)`` where kept, 0 where dropped."""
    mask = torch.empty_like(x).bernoulli_(1 - rate, generator=generator)
    return mask.mul_(1 / (1 - rate))
