"""Common parts of the baseline networks: inputs, layers of PyTorch Geometric, training task."""

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

from glnn._utils import import_optional
from glnn.engine.inputs import make_generator
from glnn.engine.tasks import TrainingTask
from glnn.graph.pairs import SparseAdjacency
from glnn.nn.features import Features
from glnn.quality.rivals import NodeProblem, normalize_row_sums
from glnn_lab.baselines.base import INIT, NOISE, Baseline


@dataclass(frozen=True)
class Edges:
    """A graph in the format of PyTorch Geometric: both directions of every edge, with weights."""

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
    before the first activation, :math:`P(X)W = P(XW)`: this module computes :math:`XW`, and the
    layer after it only passes messages, with the identity as its own map.
    """

    def __init__(self, n_in: int, n_out: int, n_blocks: int = 1) -> None:
        super().__init__()
        blocks = [nn.init.xavier_uniform_(torch.empty(n_in, n_out)) for _ in range(n_blocks)]
        self.weight = nn.Parameter(torch.cat(blocks, 1))

    def forward(self, x: Features) -> Float[Tensor, "n h"]:
        """Return the mapped features of every node."""
        return x @ self.weight


@contextmanager
def isolate_rng(seed: int) -> Iterator[None]:
    """Seed torch's global generator inside the block, and restore it afterwards.

    Layers of PyTorch Geometric draw their first parameters and their dropout from that
    generator and accept no other.

    Examples
    --------
    >>> before = torch.get_rng_state()
    >>> with isolate_rng(0):
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


# Layers of PyTorch Geometric, imported on first use


def import_layers() -> Any:
    """Import ``torch_geometric.nn``, or raise an error that names the extra to install."""
    return import_optional("torch_geometric.nn")


def fuse_messages(layer: Any) -> Any:
    r"""Replace the message passing :math:`\sum_j w_{ij} x_j` of a layer by a sparse product.

    The weights that the layer computes in its first pass are stored as a sparse matrix for all
    later passes. This is several times faster than gathering and scattering a row per edge. The
    graph must be symmetric and the same in every pass.
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


# The supervised task


class Network(nn.Module):
    """A network on the features of all nodes; it holds the graph it passes messages on."""

    @abstractmethod
    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits; in training mode all dropout comes from ``noise``.

        Dropout inside layers of PyTorch Geometric comes from torch's global generator, which
        the task seeds from ``noise`` and restores.
        """


class SupervisedTask(TrainingTask):
    r"""Minimise :math:`-\frac{1}{|L|}\sum_{l \in L} \ln \mathrm{softmax}(Z_l)_{y_l}`.

    ``make`` builds the network; it is called once, with torch's global generator seeded.
    ``decayed`` is the prefix of the names of the parameters with weight decay: ``first`` for the
    first layer only, as in Kipf and Welling, and the empty prefix for all.
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
        with isolate_rng(draw_seed(make_generator(seed, INIT))):
            self.module = make()
        self.features, self._decayed, self._weight_decay = features, decayed, weight_decay
        self.nodes = torch.from_numpy(problem.train)
        self.classes = torch.from_numpy(problem.labels[problem.train])
        self._noise = make_generator(seed, NOISE)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the cross-entropy of the labelled nodes."""
        self.module.train()
        with isolate_rng(draw_seed(self._noise)):
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
    """A baseline with one network on row-normalised features and the cross-entropy.

    A subclass builds its network; ``decayed`` is the prefix of the names of the parameters with
    weight decay, as in :class:`SupervisedTask`.
    """

    decayed: ClassVar[str] = ""

    @abstractmethod
    def network(self, problem: NodeProblem, x: Features) -> Network:
        """Build the network; initial parameters come from torch's global generator."""

    def task(self, problem: NodeProblem, seed: int) -> SupervisedTask:
        """Build the training task on row-normalised features."""
        x = Features.of(normalize_row_sums(problem.features))
        return SupervisedTask(
            problem,
            x,
            lambda: self.network(problem, x),
            seed,
            weight_decay=self.settings.weight_decay,
            decayed=self.decayed,
        )


def current_dropout(network: nn.Module, dropout: float) -> float:
    """Return the dropout rate in training mode, else 0."""
    return dropout if network.training else 0.0
