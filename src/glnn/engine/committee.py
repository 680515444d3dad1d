r"""Classifiers that validation nodes cannot tell apart answer together: the mean of their answers.

Each is first given the temperature :math:`T` at which :math:`p^{1/T}` has the lowest loss on the
validation nodes: heads differ much in how sure they are, which says nothing about who is right.
Then two of them are compared node by node: with :math:`d_i` the difference of their losses
:math:`-\ln p_{i, y_i}`, one is worse if the mean of :math:`d` exceeds its standard error, and
likewise with mistakes in place of losses. The worse one is told apart if it is worse in both:
losses on predictions make networks sure of their mistakes, which costs loss and no accuracy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from glnn._threads import mapped
from glnn.engine.trained import logarithms, softened
from glnn.engine.trainer import Validation

HOPELESS = 2.0
"""Standard errors by which a classifier must be worse to be given up."""

_TEMPERATURES = tuple(2 ** (k / 4) for k in range(-10, 21))
_LEAST = 1e-6
"""No answer counts as less probable: one wrong answer of a sure classifier must not decide."""


@dataclass(frozen=True)
class Contest:
    """Answers of several classifiers, node by node on the validation nodes that are here.

    Parameters
    ----------
    temperatures, losses, mistakes
        Of each classifier: its best temperature, its losses there, and ones where it is wrong.
    validation
        The nodes.
    """

    temperatures: Sequence[float]
    losses: Sequence[Float64[Tensor, "v"]]
    mistakes: Sequence[Float64[Tensor, "v"]]
    validation: Validation

    @classmethod
    def of(cls, answers: Sequence[np.ndarray], validation: Validation) -> "Contest":
        """Compare class probabilities of all nodes, one array a classifier."""
        validation = validation.to(torch.device("cpu"))
        nodes = validation.nodes.numpy()
        judged = [answer[nodes] for answer in answers]
        logs = [logarithms(answer) for answer in judged]
        temperatures = [_best_temperature(own, validation) for own in logs]
        losses = [_losses(*pair, validation) for pair in zip(logs, temperatures)]
        return cls(temperatures, losses, [_mistakes(a, validation) for a in judged], validation)

    def kept(self, n_errors: float = 1.0) -> dict[int, float]:
        """Return the places of the best and of those not worse by this many standard errors.

        The best comes first; each has its temperature.
        """
        best = int(np.argmin([mean_and_error(loss, self.validation)[0] for loss in self.losses]))

        def is_worse(numbers: Sequence[Float64[Tensor, "v"]], place: int) -> bool:
            mean, error = mean_and_error(numbers[place] - numbers[best], self.validation)
            return mean > n_errors * error

        kept = {best: self.temperatures[best]}
        for place, temperature in enumerate(self.temperatures):
            is_apart = [is_worse(self.losses, place), is_worse(self.mistakes, place)]
            if place != best and not all(is_apart):
                kept[place] = temperature
        return kept


def mean_and_error(numbers: Float64[Tensor, "v"], validation: Validation) -> tuple[float, float]:
    """Return the mean over the validation nodes of all processes, and its standard error."""
    sums = torch.stack([numbers.sum(), numbers.square().sum()])
    count = len(validation.nodes) if validation.n_labels is None else validation.n_labels
    mean, square = (validation.peers.all_reduce_(sums) / count).tolist()
    return mean, math.sqrt(max(0.0, square - mean**2) / max(1, count - 1))


def _best_temperature(logs: np.ndarray, validation: Validation) -> float:
    """Return the temperature of the lowest loss on the validation nodes."""
    losses = mapped(lambda t: _losses(logs, t, validation).sum(), _TEMPERATURES, logs.size)
    sums = torch.stack(losses)
    return _TEMPERATURES[int(validation.peers.all_reduce_(sums).argmin())]


def _losses(logs: np.ndarray, temperature: float, validation: Validation) -> Float64[Tensor, "v"]:
    """Return the losses of the validation nodes that are here, times their weights."""
    labels = validation.labels.numpy()
    right = softened(logs, temperature)[np.arange(len(labels)), labels]
    return _weighted(-np.log(np.maximum(right, _LEAST)), validation)


def _mistakes(judged: np.ndarray, validation: Validation) -> Float64[Tensor, "v"]:
    """Return one for each validation node here that has another class, times its weight."""
    wrong = judged.argmax(1) != validation.labels.numpy()
    return _weighted(wrong.astype(np.float64), validation)


def _weighted(numbers: np.ndarray, validation: Validation) -> Float64[Tensor, "v"]:
    """Return a number for each validation node here, times its weight."""
    found = torch.from_numpy(numbers)
    return found if validation.weights is None else found * validation.weights.double()
