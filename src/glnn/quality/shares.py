r"""How frequent the classes are among rows without a label, where labels were not drawn evenly.

Twenty labels of each class say nothing about how frequent the classes are. Calibrated
probabilities :math:`q` were learned with the shares :math:`\pi^0` of the labels; where classes have
shares :math:`\pi` instead, they are :math:`\propto q_c\, \pi_c / \pi^0_c`. The likeliest
:math:`\pi` is the fixed point of

.. math:: \pi_c \leftarrow \frac1n \sum_i
          \frac{q_{ic}\, \pi_c / \pi^0_c}{\sum_d q_{id}\, \pi_d / \pi^0_d}

(Saerens, Latinne and Decaestecker 2002).
"""

import numpy as np
from jaxtyping import Float

from glnn.quality.metrics import Judged

_N_STEPS = 100

UNLIKE = 0.1
"""Shares differ clearly if so large a part of the rows would have to change its class."""


def shares_elsewhere(
    probabilities: Float[np.ndarray, "n c"], shares: Float[np.ndarray, "c"]
) -> Float[np.ndarray, "c"]:
    """Return the likeliest shares of the classes among rows without a label.

    Parameters
    ----------
    probabilities
        Their calibrated probabilities.
    shares
        Those of the labels, none of them zero.

    Examples
    --------
    >>> q = np.array([[0.9, 0.1]] * 9 + [[0.1, 0.9]])
    >>> bool(shares_elsewhere(q, np.array([0.5, 0.5]))[0] > 0.9)
    True
    """
    found = np.array(shares, dtype=np.float64)
    for _ in range(_N_STEPS):
        weighted = probabilities * (found / shares)
        found = (weighted / weighted.sum(1, keepdims=True)).mean(0)
    return found


def note_on_shares(
    judged: Judged, elsewhere: Float[np.ndarray, "n c"], names: np.ndarray
) -> list[str]:
    """Return a line where classes are clearly less or more frequent among rows without a label.

    It says what the accuracy is there: the recall of each class, weighted by its share.

    Parameters
    ----------
    judged
        Predictions of hidden labels.
    elsewhere
        Calibrated probabilities of the rows without a label.
    names
        The classes.
    """
    counts = np.bincount(judged.classes, minlength=judged.n_classes)
    if not len(elsewhere) or (counts == 0).any():
        return []
    shares = counts / counts.sum()
    found = shares_elsewhere(elsewhere, shares)
    if np.abs(found - shares).sum() / 2 < UNLIKE:
        return []
    right = judged.predicted == judged.classes
    recall = np.bincount(judged.classes, right, minlength=judged.n_classes) / counts
    most = int(np.abs(found - shares).argmax())
    return [
        f"classes seem to be otherwise frequent among rows without a label ({names[most]} about "
        f"{100 * found[most]:.0f} %, {100 * shares[most]:.0f} % among labels): accuracy there "
        f"about {100 * found @ recall:.0f} %"
    ]
