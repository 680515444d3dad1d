"""What the training loop needs to know of a method: a model and its objective."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.peers import ALONE, Peers


class Task(ABC):
    """A model with its objective: all that tells one method from another.

    The trainer calls :meth:`losses` once an epoch, minimises their sum, and evaluates
    :meth:`scores`. Randomness comes from generators that the task holds.

    With several ``peers`` the losses and their gradients are this process's share of sums over all
    of them, and the scores are those of its rows. The module is the same in every process.
    """

    module: nn.Module
    peers: Peers = ALONE

    @abstractmethod
    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this epoch (from 0)."""

    @abstractmethod
    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without randomness."""

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
