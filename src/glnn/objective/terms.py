r"""One pure function for each term of the paper's objective.

Every term touches the graph only through :class:`~glnn.graph.base.Adjacency`, so it has the same
value and the same gradient on every storage.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency


def smoothness_trace(adj: Adjacency, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    r"""Graph Laplacian regulariser :math:`\operatorname{tr}(X^\top (I - A) X)`.

    Paper: the exponent of the likelihood (eq:final_likelihood_func), summed over channels.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> smoothness_trace(pair, torch.tensor([[0.0], [2.0]]))
    tensor(4.)
    """
    return (x * (x - adj @ x)).sum()


def smoothness_channel(adj: Adjacency, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    r"""Squared regulariser of each channel, :math:`\sum_c (x_c^\top (I - A) x_c)^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}`, whose ``x`` is one signal, summed over channels.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> smoothness_channel(pair, torch.tensor([[0.0], [2.0]]))
    tensor(16.)
    """
    per_channel = (x * (x - adj @ x)).sum(0)  # x_c'(I - A)x_c
    return per_channel.square().sum()


def smoothness_frobenius(adj: Adjacency, x: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    r"""Squared norm of the whole product, :math:`\|X^\top (I - A) X\|_F^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}` read literally for a matrix of signals.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> smoothness_frobenius(pair, torch.tensor([[0.0], [2.0]]))
    tensor(16.)
    """
    return (x.T @ (x - adj @ x)).square().sum()


def sparsity(adj: Adjacency) -> Float[Tensor, ""]:
    r"""Sum of absolute weights, :math:`\|A\|_1`. Paper: eq:sparsity_constraint.

    Examples
    --------
    >>> sparsity(DenseAdjacency(torch.tensor([[0.0, -1.0], [-1.0, 0.0]])))
    tensor(2.)
    """
    return (adj.counts() * adj.values().abs()).sum()


def symmetry(adj: Adjacency) -> Float[Tensor, ""]:
    r"""Distance to the transpose, :math:`\|A^\top - A\|_F^2`. Paper: eq:properties_constraints.

    Examples
    --------
    >>> symmetry(DenseAdjacency(torch.tensor([[0.0, 1.0], [0.0, 0.0]])))
    tensor(2.)
    """
    return adj.asymmetry()


def row_sums(adj: Adjacency) -> Float[Tensor, ""]:
    r"""Distance of the row sums from one, :math:`\|A 1 - 1\|^2`. Paper: eq:properties_constraints.

    Examples
    --------
    >>> row_sums(DenseAdjacency(torch.tensor([[0.0, 3.0], [3.0, 0.0]])))
    tensor(8.)
    """
    return (adj.row_sums() - 1).square().sum()


def loops(adj: Adjacency) -> Float[Tensor, ""]:
    r"""Squared trace, :math:`|\operatorname{tr}(A)|^2`. Paper: eq:properties_constraints.

    Examples
    --------
    >>> loops(DenseAdjacency(torch.tensor([[1.0, 0.0], [0.0, 2.0]])))
    tensor(9.)
    """
    return adj.trace().square()


def closeness(adj: Adjacency, prior: Adjacency) -> Float[Tensor, ""]:
    r"""Distance to the prior graph, :math:`\|A - G\|_F^2`. Paper: :math:`\mathcal{L}_{gt}`.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> closeness(pair, DenseAdjacency(torch.zeros(2, 2)))
    tensor(2.)
    """
    at_pairs = prior.entries(adj.rows(), adj.columns())
    difference = (adj.counts() * (adj.values() - at_pairs).square()).sum()
    everything = (prior.counts() * prior.values().square()).sum()
    seen = (adj.counts() * at_pairs.square()).sum()
    return difference + (everything - seen)  # entries of G that A does not store are zero in A


def ridge(adj: Adjacency) -> Float[Tensor, ""]:
    r"""Squared norm, :math:`\|A\|_F^2`: makes the problem strictly convex without a prior graph.

    Notes
    -----
    Differs from the paper, whose loss has no minimum when there is no prior graph.

    Examples
    --------
    >>> ridge(DenseAdjacency(torch.tensor([[0.0, 3.0], [3.0, 0.0]])))
    tensor(18.)
    """
    return (adj.counts() * adj.values().square()).sum()


READINGS: dict[str, Callable[[Adjacency, Tensor], Tensor]] = {
    "trace": smoothness_trace,
    "channel": smoothness_channel,
    "frobenius": smoothness_frobenius,
}
"""The three readings of the graph Laplacian regulariser for more than one signal."""
