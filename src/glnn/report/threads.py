"""How many processor threads a run computes with."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 10_000
"""Below this many nodes, threads wait for each other longer than they work."""


@contextmanager
def threads_for(n_nodes: int, threads: int | None) -> Iterator[None]:
    """Compute with this many threads inside the block; by default one where the graph is small."""
    before = torch.get_num_threads()
    wanted = threads if threads is not None else 1 if n_nodes < SMALL else before
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
