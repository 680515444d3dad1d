"""Every random number of a fit comes from generators made here; where it runs is checked here."""

from typing import Any

import numpy as np
import torch

from glnn.exceptions import InputError


def generator_for(seed: int, *stream: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return an independent generator for a numbered stream of one seed.

    Examples
    --------
    >>> a = torch.rand(1, generator=generator_for(0, 1))
    >>> b = torch.rand(1, generator=generator_for(0, 1))
    >>> bool(a == b)
    True
    """
    state = np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


def check_device(device: Any) -> str:
    """Return the name of a device that PyTorch has here.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu' or 'cuda', got {device!r}.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"device must exist, got {device!r}, but PyTorch sees no CUDA device here. Use 'cpu'."
        )
    return str(device)
