"""What the training loop needs to know of a method: a model and its objective."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.engine.settings import HeadSettings
from glnn.peers import ALONE, Peers

Measure = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Loss and accuracy of scores."""


class Task(ABC):
    """A model with its objective: all that tells one method from another.

    The trainer calls :meth:`losses` once an epoch, minimises their sum, and evaluates
    :meth:`scores`. Randomness comes from generators that the task holds.

    With several ``peers`` the losses and their gradients are this process's share of sums over all
    of them, and the scores are those of its rows. The module is the same in every process.
    """

    module: nn.Module
    peers: Peers = ALONE
    max_gradient: float | None = None
    """Longer gradients are cut to this length; ``None``: none are."""

    @abstractmethod
    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this epoch (from 0)."""

    @abstractmethod
    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without randomness."""

    def judged(self, measure: Measure) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return loss and accuracy on the validation nodes, as numbers that stay on the device.

        ``measure`` returns them for the scores of every node that is here; a task that has those
        of the validation nodes at less cost need not ask it.
        """
        return measure(self.scores())

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameters with their optimiser settings."""
        return [{"params": list(self.module.parameters())}]


class RampedTask(Task):
    """A task in which an epoch's number plays no part but for the share of some weights.

    Its losses are a function of tensors alone, so a process that is alone may record an epoch and
    replay it.
    """

    @abstractmethod
    def ramp(self, epoch: int) -> float:
        """Return the share of their weight that ramped terms have in this epoch."""

    @abstractmethod
    def terms(self, ramp: float | Float[Tensor, ""]) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this share."""

    @abstractmethod
    def generators(self) -> list[torch.Generator]:
        """Return the generators that the terms draw from."""

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of this epoch."""
        return self.terms(self.ramp(epoch))


class HeadTask(RampedTask):
    """A head by its settings, with one generator of all its noise."""

    settings: HeadSettings
    _noise: torch.Generator

    def ramp(self, epoch: int) -> float:
        """Return the share of their weight that the losses on predictions have."""
        return min(1.0, epoch / self.settings.ramp_epochs)

    def generators(self) -> list[torch.Generator]:
        """Return the generator of everything that is drawn."""
        return [self._noise]
