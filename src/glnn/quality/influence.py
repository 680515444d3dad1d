r"""Which labelled nodes speak for which class at a node, and how much.

The nodes' rows :math:`z_i` (:mod:`glnn.quality.embedding`) say how far signals of one node reach
another. Linear regression of the classes on them, with ridge :math:`\rho`, gives each node the
scores :math:`f(i)`; leaving out the label of node :math:`l` changes them by

.. math:: f(i) - f_{-l}(i) = \frac{z_i^\top M z_l}{\rho}\; \frac{t_l - f(l)}{1 - h_l},
          \qquad h_l = \frac{z_l^\top M z_l}{\rho},
          \quad M = \Bigl(I + \tfrac1\rho \textstyle\sum_k z_k z_k^\top\Bigr)^{-1},

exactly and without fitting again: how far the label reaches, times how wrong the others would be
about it. The network is not linear, so this is an estimate of what it would do; how good a one
stands in ``docs/explain.md``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

_RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class LabelInfluence:
    r"""What every label adds to the scores of every node.

    Parameters
    ----------
    labelled, classes
        The labelled nodes and the numbers of their classes.
    reach
        For each node and label, :math:`z_i^\top M z_l / \rho`.
    surprise
        For each label and class, the error of the others' answer at the labelled node.
    """

    labelled: Int[np.ndarray, "l"]
    classes: Int[np.ndarray, "l"]
    reach: Float[np.ndarray, "n l"]
    surprise: Float[np.ndarray, "l c"]

    def at(self, node: int) -> Float[np.ndarray, "l c"]:
        """Return what each label adds to the score of each class at a node."""
        return np.asarray(self.reach[node][:, None] * self.surprise)


def label_influence(
    rows: Float[np.ndarray, "n d"],
    labelled: Int[np.ndarray, "l"],
    classes: Int[np.ndarray, "l"],
    n_classes: int,
    *,
    ridge: float = _RIDGE,
) -> LabelInfluence:
    """Return what leaving out each label would change, from the rows of the nodes.

    Parameters
    ----------
    rows
        The nodes' rows; a constant column is added, so that classes may differ in size.
    labelled, classes
        The labelled nodes and the numbers of their classes.
    n_classes
        Number of classes.
    ridge
        The ridge, above 0.

    Examples
    --------
    >>> rows = np.array([[1.0], [-1.0], [0.9]])
    >>> found = label_influence(rows, np.array([0, 1]), np.array([0, 1]), 2)
    >>> np.round(found.at(2), 2)
    array([[ 0.32, -0.32],
           [-0.02,  0.02]])
    """
    rows = np.hstack([rows, np.ones((len(rows), 1))])
    known, targets = rows[labelled], np.eye(n_classes)[classes] - 1 / n_classes
    spread = np.linalg.inv(np.eye(rows.shape[1]) + known.T @ known / ridge)
    reach = rows @ spread @ known.T / ridge
    answers = reach[labelled] @ targets  # the scores of the labelled nodes
    left = 1 - np.diag(reach[labelled])
    return LabelInfluence(labelled, classes, reach, (targets - answers) / left[:, None])
