"""Given labels that a fit without them contradicts: possible mistakes."""

from dataclasses import dataclass

import numpy as np

from glnn.quality.calibration import class_shares
from glnn.quality.held_out import HeldOut

UNLIKELY = 0.35
"""A given label is doubted below this part of what chance alone gives its class."""

SURE = 0.5
"""Least probability of the class that contradicts it."""


@dataclass(frozen=True, eq=False)
class Suspects:
    """Possible mistakes among the given labels, the likeliest first.

    Parameters
    ----------
    nodes
        Their numbers.
    given, predicted
        The class number that was given, and the one that is predicted without it.
    probability
        Calibrated probability of the predicted class.
    """

    nodes: np.ndarray
    given: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray

    def __len__(self) -> int:
        return len(self.nodes)


def suspect_labels(held_out: HeldOut, calibrated: np.ndarray) -> Suspects:
    r"""Find judged nodes whose label a fit without it contradicts with confidence.

    The calibrated probability :math:`q` of hidden labels knows how often labels are wrong, so it
    is never far below the share :math:`\pi_c` of a class unless something speaks against a label.
    Doubted is a label with :math:`q < 0.35\,\pi_c` where another class has at least one half.

    Parameters
    ----------
    held_out
        The judged nodes.
    calibrated
        Calibrated probabilities of every node.
    """
    nodes = held_out.judged
    given, q = held_out.classes[nodes], calibrated[nodes]
    own, predicted = q[np.arange(len(nodes)), given], q.argmax(1)
    confidence = q.max(1)
    shares, _ = class_shares(np.bincount(given, minlength=q.shape[1]))
    found = np.flatnonzero((own < UNLIKELY * shares[given]) & (confidence >= SURE))
    order = found[np.argsort(own[found] - confidence[found], kind="stable")]
    return Suspects(nodes[order], given[order], predicted[order], confidence[order])
