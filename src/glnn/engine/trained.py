"""What a classifier step leaves, and how two of them compare on the validation nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from glnn._threads import by_rows
from glnn.engine.classifier import ClassifierTask
from glnn.engine.row_task import RowTask
from glnn.engine.task import Task

_CLEARLY_BETTER = 0.98
"""A second choice must have at most this share of the first one's validation loss."""

_COLLAPSE = 0.05
"""A round that loses this much validation accuracy has gone wrong."""


@dataclass(frozen=True)
class Trained:
    """One classifier step: the trained network, its predictions, how it did on validation.

    ``temperature`` is how much its predictions are evened out where it answers with others.
    """

    task: ClassifierTask | RowTask
    probabilities: np.ndarray
    validation_loss: float | None
    validation_accuracy: float | None
    temperature: float = 1.0


def mean_answer(members: Sequence[Trained]) -> np.ndarray:
    """Return the probabilities of a classifier, or the mean of several at their temperatures."""
    if len(members) == 1:
        return members[0].probabilities

    def mean(*answers: np.ndarray) -> np.ndarray:
        evened = [tempered(answer, member.temperature) for answer, member in zip(answers, members)]
        return np.asarray(np.mean(evened, axis=0))

    return by_rows(mean, *(member.probabilities for member in members))


def tempered(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    r"""Return :math:`p^{1/T} / \sum_c p_c^{1/T}`.

    Examples
    --------
    >>> tempered(np.array([[0.8, 0.2]]), 0.5).round(4)
    array([[0.9412, 0.0588]])
    """
    return softened(logarithms(probabilities), temperature)


def softened(logs: np.ndarray, temperature: float) -> np.ndarray:
    """Return the same of logarithms, which do for many temperatures."""
    logits = logs / temperature
    powers = np.exp(logits - logits.max(1, keepdims=True))
    evened: np.ndarray = powers / powers.sum(1, keepdims=True)
    return evened


def logarithms(probabilities: np.ndarray) -> np.ndarray:
    """Return finite logarithms of probabilities."""
    logs: np.ndarray = np.log(np.maximum(probabilities, 1e-300))
    return logs


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
