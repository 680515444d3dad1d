r"""Which labelled nodes speak for which class at a node, and how much.

The network sees a node as its features spread over the learned graph, the row :math:`z_i`. A wide
network of two layers that is trained on such rows acts, near its start, as a linear model with the
kernel (Jacot, Gabriel and Hongler 2018)

.. math:: \kappa(u, v) = \frac{|u||v|}{2\pi}\bigl(\sin\theta + 2 (\pi - \theta) \cos\theta\bigr),

:math:`\theta` the angle of the rows :math:`u, v` with a constant column added. Logistic regression
with this kernel :math:`K` between the labelled nodes, scores :math:`f = K \alpha`, probabilities
:math:`p = \mathrm{softmax}(f)`, minimises :math:`-\sum_l \ln p_{l, y_l} + \frac{\lambda}{2}
\mathrm{tr}(\alpha^\top K \alpha)`. One Newton step on the problem without the label of :math:`l`
leads from its optimum to

.. math:: \alpha_{-l} = \alpha - (\lambda I + W K)^{-1}_{\cdot l}
          \bigl(I - W_l \Sigma_{ll}\bigr)^{-1} (t_l - p_l),
          \qquad \Sigma = K (\lambda I + W K)^{-1},

with :math:`W` the blocks :math:`\mathrm{diag}(p_k) - p_k p_k^\top`: how far the label reaches,
times how wrong the others would be about it. The effect of a label at a node is the difference of
the two probabilities. How well this agrees with fits without the label stands in
``docs/explain.md``.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import softmax

RIDGE = 0.1
"""The weight of the penalty, chosen with the constant on draws 0 to 3 of three small tables."""

_CONSTANT = 1.0
"""The square of the constant column, where rows have a mean square of one."""


@dataclass(frozen=True, eq=False)
class LabelInfluence:
    r"""What every label adds to the class probabilities of nodes.

    Parameters
    ----------
    rows
        The rows of all nodes, scaled.
    labelled, classes
        The labelled nodes and the numbers of their classes.
    alpha
        The solution with all labels.
    moves
        For each label what it adds to the solution.
    """

    rows: Float[np.ndarray, "n d"]
    labelled: Int[np.ndarray, "l"]
    classes: Int[np.ndarray, "l"]
    alpha: Float[np.ndarray, "l c"]
    moves: Float[np.ndarray, "l l c"]

    def at(self, node: int) -> Float[np.ndarray, "l c"]:
        """Return what each label adds to the probability of each class at a node."""
        near = network_kernel(self.rows[[node]], self.rows[self.labelled])[0]
        scores = near @ self.alpha
        without = scores - np.einsum("k,lkc->lc", near, self.moves)
        return np.asarray(softmax(scores) - softmax(without, 1))


def label_influence(
    rows: Float[np.ndarray, "n d"],
    labelled: Int[np.ndarray, "l"],
    classes: Int[np.ndarray, "l"],
    n_classes: int,
    *,
    ridge: float = RIDGE,
) -> LabelInfluence:
    """Return what leaving out each label would change, from the rows of the nodes.

    Costs memory and time of a dense matrix with a row for each label and class.

    Parameters
    ----------
    rows
        The nodes' rows; a constant column is added.
    labelled, classes
        The labelled nodes and the numbers of their classes.
    n_classes
        Number of classes.
    ridge
        The penalty's weight, above 0.

    Examples
    --------
    >>> rows = np.array([[1.0], [-1.0], [0.9]])
    >>> found = label_influence(rows, np.array([0, 1]), np.array([0, 1]), 2).at(2)
    >>> bool(found[0, 0] > 0.1), bool(np.isclose(found[0, 0], -found[0, 1]))
    (True, True)
    """
    rows = rows / np.sqrt(max(float(np.square(rows).sum(1).mean()), 1e-30))
    kernel = network_kernel(rows[labelled], rows[labelled])
    targets = np.eye(n_classes)[classes]
    alpha = _logistic(kernel, targets, ridge)
    moves = _moves(kernel, targets, softmax(kernel @ alpha, 1), ridge)
    return LabelInfluence(rows, labelled, classes, alpha, moves)


def network_kernel(
    first: Float[np.ndarray, "m d"], second: Float[np.ndarray, "k d"]
) -> Float[np.ndarray, "m k"]:
    """Return how alike a wide network finds rows; see the equation above.

    Examples
    --------
    >>> rows = np.array([[3.0, 4.0], [-3.0, -4.0]])
    >>> np.round(network_kernel(rows, rows), 1)
    array([[26. , -1.4],
           [-1.4, 26. ]])
    """
    products = first @ second.T + _CONSTANT
    lengths = [np.sqrt(np.square(rows).sum(1) + _CONSTANT) for rows in (first, second)]
    both = np.outer(*lengths)
    cosine = np.clip(products / both, -1.0, 1.0)
    angle = np.arccos(cosine)
    return np.asarray(both * (np.sin(angle) + 2 * (np.pi - angle) * cosine) / (2 * np.pi))


def _logistic(
    kernel: Float[np.ndarray, "l l"], targets: Float[np.ndarray, "l c"], ridge: float
) -> Float[np.ndarray, "l c"]:
    """Return the minimiser, found in coordinates in which the penalty is a plain square."""
    shape = targets.shape
    jitter = 1e-10 * np.trace(kernel) * np.eye(len(kernel))  # equal rows may both be labelled
    root = np.linalg.cholesky(kernel + jitter)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        scores = root @ weights
        p = softmax(scores, 1)
        total = np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1)) + scores.max(1)
        value = (total - (scores * targets).sum(1)).sum() + ridge / 2 * np.square(weights).sum()
        return float(value), (root.T @ (p - targets) + ridge * weights).ravel()

    options = {"maxiter": 2000, "ftol": 0.0, "gtol": 1e-9}
    found = minimize(loss, np.zeros(targets.size), jac=True, method="L-BFGS-B", options=options)
    p = softmax(root @ found.x.reshape(shape), 1)
    return np.asarray((targets - p) / ridge)  # where the gradient is zero


def _moves(
    kernel: Float[np.ndarray, "l l"],
    targets: Float[np.ndarray, "l c"],
    p: Float[np.ndarray, "l c"],
    ridge: float,
) -> Float[np.ndarray, "l l c"]:
    """Return for each label what one Newton step without it takes off the solution."""
    n_labels, n_classes = targets.shape
    blocks = p[:, :, None] * (np.eye(n_classes) - p[:, None, :])  # W
    curved = np.einsum("kcd,kl->kcld", blocks, kernel).reshape(p.size, p.size)
    inverse = np.linalg.inv(ridge * np.eye(p.size) + curved)  # (λI + WK)^-1
    columns = inverse.reshape(n_labels, n_classes, n_labels, n_classes)
    spread = np.einsum("lk,kcld->lcd", kernel, columns)  # Σ_ll
    wrong = np.linalg.solve(np.eye(n_classes) - blocks @ spread, (targets - p)[:, :, None])
    return np.asarray(np.einsum("kcld,ld->lkc", columns, wrong[:, :, 0]))
