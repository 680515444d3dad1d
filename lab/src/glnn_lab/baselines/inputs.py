"""What the networks are fed: edges for PyTorch Geometric, a sparse first map, randomness."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glnn.nn.features import Features


@dataclass(frozen=True)
class Edges:
    """A graph as PyTorch Geometric wants it: both directions of every edge, with weights."""

    index: Int[Tensor, "2 e"]
    weight: Float[Tensor, "e"]
    n_nodes: int

    @classmethod
    def of(cls, graph: sp.csr_matrix) -> "Edges":
        """Read the entries of a symmetric CSR matrix."""
        coo = sp.coo_matrix(graph)
        index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        weight = torch.from_numpy(coo.data.astype(np.float32))
        return cls(index, weight, graph.shape[0])


class InputMap(nn.Module):
    r"""The first map of a network, :math:`X W`, with :math:`X` kept sparse.

    The layers of PyTorch Geometric take dense features. Since they are linear in their input
    before the first activation, :math:`P(X)W = P(XW)`: this module multiplies, and the layer
    behind it only passes messages, its own map fixed to the identity.
    """

    def __init__(self, n_in: int, n_out: int, n_blocks: int = 1) -> None:
        super().__init__()
        blocks = [nn.init.xavier_uniform_(torch.empty(n_in, n_out)) for _ in range(n_blocks)]
        self.weight = nn.Parameter(torch.cat(blocks, 1))

    def forward(self, x: Features) -> Float[Tensor, "n h"]:
        """Return the mapped features of every node."""
        return x @ self.weight


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed torch's global generator inside the block, and leave it as it was afterwards.

    Layers of PyTorch Geometric draw their first parameters and their dropout from that
    generator and accept no other.

    Examples
    --------
    >>> before = torch.get_rng_state()
    >>> with isolated_rng(0):
    ...     draw = torch.rand(1)
    >>> bool((before == torch.get_rng_state()).all())
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def draw_seed(generator: torch.Generator) -> int:
    """Draw a fresh seed from a generator."""
    return int(torch.randint(2**62, (1,), generator=generator))
