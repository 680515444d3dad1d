"""Given labels that a fit without them contradicts: possible mistakes."""

from dataclasses import dataclass

import numpy as np

from glnn.quality.held_out import HeldOut


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
    """Find judged nodes whose label a fit without it contradicts with confidence.

    A prediction is confident if its probability is at least the mean probability that its class
    has at nodes with that label: as sure as the fit usually is where it agrees.

    Parameters
    ----------
    held_out
        The judged nodes.
    calibrated
        Calibrated probabilities of every node.
    """
    nodes = held_out.judged
    given, q = held_out.classes[nodes], calibrated[nodes]
    predicted = q.argmax(1)
    confidence = q[np.arange(len(nodes)), predicted]
    usual = usual_confidence(q, given)
    found = np.flatnonzero((predicted != given) & (confidence >= usual[predicted]))
    doubt = confidence[found] - q[found, given[found]]
    order = found[np.argsort(-doubt, kind="stable")]
    return Suspects(nodes[order], given[order], predicted[order], confidence[order])


def usual_confidence(probabilities: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return for each class its mean probability at the nodes that have it; 1 without such nodes.

    Examples
    --------
    >>> usual_confidence(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 0]))
    array([0.8, 1. ])
    """
    n_classes = probabilities.shape[1]
    count = np.bincount(classes, minlength=n_classes)
    own = probabilities[np.arange(len(classes)), classes]
    total = np.bincount(classes, own, minlength=n_classes)
    return np.divide(total, count, out=np.ones(n_classes), where=count > 0)
