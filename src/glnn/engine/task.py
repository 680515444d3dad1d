"""What the training loop needs to know of a method: a model and its objective."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class Task(ABC):
    """A model with its objective: all that tells one method from another.

    The trainer calls :meth:`losses` once an epoch, minimises their sum, and evaluates
    :meth:`scores`. Randomness comes from generators that the task holds.
    """

    module: nn.Module

    @abstractmethod
    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the weighted terms of the objective by name, for this epoch (from 0)."""

    @abstractmethod
    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without randomness."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameters with their optimiser settings."""
        return [{"params": list(self.module.parameters())}]
