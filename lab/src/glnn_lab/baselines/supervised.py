"""The task of most methods: a network, and cross-entropy on the labelled nodes."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glnn.engine.seeding import generator_for
from glnn.engine.task import Task
from glnn.nn.features import Features
from glnn.quality.plain.base import INIT, NOISE, Baseline
from glnn.quality.plain.problem import NodeProblem
from glnn.quality.plain.scaling import row_normalized
from glnn_lab.baselines.inputs import draw_seed, isolated_rng


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
