"""What the networks are fed: edges for PyTorch Geometric, a sparse first map, randomness."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from glnn._utils import need
from glnn.engine.inputs import generator_for
from glnn.engine.tasks import Task
from glnn.graph.adjacency import SparseAdjacency
from glnn.nn.features import Features
from glnn.quality.rivals import INIT, NOISE, Baseline, NodeProblem, row_normalized

# --- inputs: What the networks are fed: edges for PyTorch Geometric, a sparse first map, randomnes


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


# --- pyg: PyTorch Geometric, imported when a method first needs it, and its messages made cheap


def layers() -> Any:
    """Return ``torch_geometric.nn``, or say which extra of glnn brings it."""
    return need("torch_geometric.nn")


def fused(layer: Any) -> Any:
    r"""Let a layer that sums :math:`\sum_j w_{ij} x_j` with fixed weights multiply instead.

    The weights that the layer itself computes in its first pass become a sparse matrix, which
    every later pass multiplies with: several times faster than gathering and scattering a row
    for each edge. The graph must be symmetric and the same in every pass.
    """
    stored: dict[str, Any] = {}

    def product(index: Int[Tensor, "2 e"], *, x: Float[Tensor, "n d"], **weights: Any) -> Tensor:
        if "matrix" not in stored:
            (weight,) = weights.values()
            stored["matrix"] = _matrix(index, weight, len(x))
        result: Tensor = stored["matrix"] @ x
        return result

    layer.propagate = product
    if hasattr(layer, "__norm__"):  # ChebConv would normalise anew in every pass
        compute = layer.__norm__

        def norm(*args: Any, **options: Any) -> Any:
            if "norm" not in stored:
                stored["norm"] = compute(*args, **options)
            return stored["norm"]

        layer.__norm__ = norm
    return layer


def _matrix(index: Int[Tensor, "2 e"], weight: Float[Tensor, "e"], n_nodes: int) -> SparseAdjacency:
    rows, columns = index.numpy()
    entries = sp.coo_matrix((weight.numpy(), (rows, columns)), shape=(n_nodes, n_nodes))
    return SparseAdjacency.from_scipy(entries, dtype=torch.float32)


# --- supervised: The task of most methods: a network, and cross-entropy on the labelled nodes


class Network(nn.Module):
    """A network on the features of all nodes; it holds the graph it passes messages on."""

    @abstractmethod
    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits; in training mode all dropout comes from ``noise``.

        Dropout inside layers of PyTorch Geometric comes from torch's global generator, which
        the task seeds from ``noise`` and restores.
        """


class SupervisedTask(Task):
    r"""Minimise :math:`-\frac{1}{|L|}\sum_{l \in L} \ln \mathrm{softmax}(Z_l)_{y_l}`.

    Parameters
    ----------
    problem, features
        The nodes, and their scaled features.
    make
        Makes the network; called once, with torch's global generator seeded and isolated.
    seed
        Where all randomness comes from.
    weight_decay, decayed
        The decay, and the prefix of the names of the parameters that it is put on: ``first``
        for the first layer alone, as Kipf and Welling have it; the empty prefix for all.
    """

    def __init__(
        self,
        problem: NodeProblem,
        features: Features,
        make: Callable[[], Network],
        seed: int,
        *,
        weight_decay: float,
        decayed: str = "",
    ) -> None:
        with isolated_rng(draw_seed(generator_for(seed, INIT))):
            self.module = make()
        self.features, self._decayed, self._weight_decay = features, decayed, weight_decay
        self.nodes = torch.from_numpy(problem.train)
        self.classes = torch.from_numpy(problem.labels[problem.train])
        self._noise = generator_for(seed, NOISE)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the cross-entropy of the labelled nodes."""
        self.module.train()
        with isolated_rng(draw_seed(self._noise)):
            logits = self.module(self.features, self._noise)
        return {"cross_entropy": functional.cross_entropy(logits[self.nodes], self.classes)}

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        self.module.eval()
        logits: Tensor = self.module(self.features, self._noise)
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameters with and without weight decay."""
        named = list(self.module.named_parameters())
        decayed = [p for name, p in named if name.startswith(self._decayed)]
        rest = [p for name, p in named if not name.startswith(self._decayed)]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": self._weight_decay},
            {"params": rest},
        ]
        return [group for group in groups if group["params"]]


class NetworkBaseline(Baseline):
    """A method that is one network on row-normalised features and cross-entropy.

    A subclass makes its network; ``decayed`` is the prefix of the names of the parameters with
    weight decay, as in :class:`SupervisedTask`.
    """

    decayed: ClassVar[str] = ""

    @abstractmethod
    def network(self, problem: NodeProblem, x: Features) -> Network:
        """Make the network, its first parameters drawn from torch's global generator."""

    def task(self, problem: NodeProblem, seed: int) -> SupervisedTask:
        """Put the network on row-normalised features before the labels."""
        x = Features.of(row_normalized(problem.features))
        return SupervisedTask(
            problem,
            x,
            lambda: self.network(problem, x),
            seed,
            weight_decay=self.settings.weight_decay,
            decayed=self.decayed,
        )


def rate(network: nn.Module, dropout: float) -> float:
    """Return the dropout rate that holds now: none outside training."""
    return dropout if network.training else 0.0
