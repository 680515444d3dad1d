r"""What to label next: the nodes whose labels would move uncertain predictions most.

Linear regression of the classes on the nodes' rows :math:`z_i` (:mod:`glnn.quality.embedding`),
with ridge :math:`\rho`, knows each node up to the covariance

.. math:: \Sigma_{ij} = z_i^\top M z_j, \qquad
          M = \Bigl(I + \tfrac{1}{\rho} \textstyle\sum_{l} z_l z_l^\top\Bigr)^{-1},

summed over the labelled nodes :math:`l`. A label at :math:`v` would lower the variance of node
:math:`i` by :math:`\Sigma_{iv}^2 / (\Sigma_{vv} + \rho)`. The node that lowers it most, each node
weighted by how uncertain its prediction is (:func:`attention`), comes first; then it counts as
labelled. So no two suggestions say the same, and outliers, which speak for nobody else, come late.
"""

import numpy as np
from jaxtyping import Float, Int

_RIDGE = 1.0


def uncertainty(probabilities: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n"]:
    r"""Return the entropy :math:`-\sum_c p_c \ln p_c / \ln C`: 0 for a sure node, 1 for chance.

    Examples
    --------
    >>> uncertainty(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1., 0.])
    """
    logarithm = np.log(np.where(probabilities > 0, probabilities, 1.0))
    entropy = np.abs((probabilities * logarithm).sum(1))  # every part has one sign
    return np.asarray(entropy / np.log(probabilities.shape[1]))


def attention(probabilities: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n"]:
    """Return how much each node's variance counts: its uncertainty plus the mean of all.

    Networks are often sure of nodes that they get wrong, so half of the weight goes to all nodes
    alike.

    Examples
    --------
    >>> attention(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1.5, 0.5])
    """
    own = uncertainty(probabilities)
    return np.asarray(own + own.mean())


def most_telling(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, "n"],
    labelled: Int[np.ndarray, "l"],
    pool: Int[np.ndarray, "m"],
    k: int,
    *,
    ridge: float = _RIDGE,
) -> tuple[Int[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    r"""Return the nodes to label, best first, and how much variance each would take away.

    Parameters
    ----------
    rows
        The nodes' rows :math:`z_i`.
    weights
        How much the variance of each node counts.
    labelled, pool
        Nodes with a label, and those that may be suggested.
    k
        How many to suggest, at most as many as there are in the pool.
    ridge
        The variance :math:`\rho > 0` of a label around what rows say of it.
    """
    known = rows[labelled]
    spread = np.linalg.inv(np.eye(rows.shape[1]) + known.T @ known / ridge)
    weighted = rows.T @ (weights[:, None] * rows)
    may, chosen, gains = np.asarray(pool), [], []
    for _ in range(min(k, len(may))):
        near = rows[may] @ spread
        variance = np.einsum("md,md->m", near, rows[may])
        gain = np.einsum("md,md->m", near @ weighted, near) / (variance + ridge)
        best = int(gain.argmax())
        chosen.append(int(may[best]))
        gains.append(float(gain[best]))
        spread -= np.outer(near[best], near[best]) / (variance[best] + ridge)
        may = np.delete(may, best)
    return np.array(chosen, dtype=np.int64), np.array(gains)
