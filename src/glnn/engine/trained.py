"""What a classifier step leaves, and how two of them compare on the validation nodes."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from glnn.engine.classifier import ClassifierTask
from glnn.engine.task import Task

_CLEARLY_BETTER = 0.98
"""A second choice must have at most this share of the first one's validation loss."""

_COLLAPSE = 0.05
"""A round that loses this much validation accuracy has gone wrong."""


@dataclass(frozen=True)
class Trained:
    """One classifier step: the trained network, its predictions, how it did on validation."""

    task: ClassifierTask
    probabilities: np.ndarray
    validation_loss: float | None
    validation_accuracy: float | None


def predicted(task: Task) -> Float64[Tensor, "n c"]:
    """Return the class probabilities of every node in double precision, where the task is."""
    with torch.no_grad():
        return task.scores().double().softmax(1)


def probabilities_of(task: Task) -> np.ndarray:
    """Return the same on the host."""
    probabilities: np.ndarray = predicted(task).cpu().numpy()
    return probabilities


def is_better(tried: Trained, kept: Trained | None) -> bool:
    """Whether the validation loss of another choice is clearly lower."""
    assert tried.validation_loss is not None
    if kept is None or kept.validation_loss is None:
        return True
    return tried.validation_loss < _CLEARLY_BETTER * kept.validation_loss


def is_worse(trained: Trained | None, before: Trained | None) -> bool:
    """Whether validation loss and accuracy are both worse than in the round before."""
    if trained is None or before is None:
        return False
    if before.validation_loss is None or trained.validation_loss is None:
        return False
    assert trained.validation_accuracy is not None and before.validation_accuracy is not None
    has_higher_loss = trained.validation_loss > before.validation_loss
    return has_higher_loss and trained.validation_accuracy < before.validation_accuracy


def has_collapsed(trained: Trained | None, before: Trained | None) -> bool:
    """Whether a round has lost so much validation accuracy that it must have gone wrong."""
    now, then = (t.validation_accuracy if t is not None else None for t in (trained, before))
    return now is not None and then is not None and now < then - _COLLAPSE
