"""Random propagation: a perceptron on features that were spread over the graph."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.graph.base import Adjacency, GraphOperator
from glnn.nn.dropout import keep_mask
from glnn.nn.features import Features
from glnn.nn.random_views import ViewSettings, node_masks, random_views


def mean_of_powers(
    adj_hat: GraphOperator, x: Float[Tensor, "n d"], n_steps: int
) -> Float[Tensor, "n d"]:
    r"""Return :math:`\frac{1}{K+1} \sum_{k=0}^{K} \hat A^k X`.

    Examples
    --------
    >>> swap = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> mean_of_powers(swap, torch.tensor([[1.0], [0.0]]), 1)
    tensor([[0.5000],
            [0.5000]])
    """
    return adj_hat.sum_of_powers(x, n_steps).div_(n_steps + 1) if n_steps else x


def personalized_pagerank(
    adj_hat: GraphOperator, x: Float[Tensor, "n d"], n_steps: int, teleport: float
) -> Float[Tensor, "n d"]:
    r"""Return :math:`Z_K`, :math:`Z_{k+1} = (1-\gamma)\hat A Z_k + \gamma X`, :math:`Z_0 = X`.

    Examples
    --------
    >>> swap = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> personalized_pagerank(swap, torch.tensor([[1.0], [0.0]]), 1, 0.25)
    tensor([[0.2500],
            [0.7500]])
    """
    z = x
    for _ in range(n_steps):
        z = (1 - teleport) * (adj_hat @ z) + teleport * x
    return z


class PropagationNet(nn.Module):
    r"""A two-layer perceptron whose first layer's output is spread over the graph.

    .. math:: \mathrm{ReLU}\bigl(S(m \circ X W_0) + b_0\bigr) W_1 + b_1,
              \qquad S = \tfrac{1}{K+1} \textstyle\sum_k \hat A^k
              \text{ or } \gamma \textstyle\sum_k (1-\gamma)^k \hat A^k

    with :math:`m` a random mask over nodes in training ("DropNode"). Spreading :math:`X W_0`
    instead of :math:`X` is the same by linearity, and costs ``n_hidden`` columns instead of
    ``n_features``.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        n_hidden: int,
        dropout: float,
        drop_node: float,
        n_steps: int,
        teleport: float = 0.0,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        first, second = torch.empty(n_features, n_hidden), torch.empty(n_hidden, n_classes)
        self.first = nn.Parameter(nn.init.xavier_uniform_(first, generator=generator))
        self.second = nn.Parameter(nn.init.xavier_uniform_(second, generator=generator))
        self.first_bias = nn.Parameter(torch.zeros(n_hidden))
        self.second_bias = nn.Parameter(torch.zeros(n_classes))
        self.dropout, self.drop_node = dropout, drop_node
        self.n_steps, self.teleport = n_steps, teleport

    def spread(self, adj_hat: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Return signals spread over the graph: PageRank with teleport, else mean of powers."""
        if self.teleport:
            return personalized_pagerank(adj_hat, x, self.n_steps, self.teleport)
        return mean_of_powers(adj_hat, x, self.n_steps)

    def forward(self, adj_hat: GraphOperator, x: Features) -> Float[Tensor, "n c"]:
        """Return class logits without any randomness."""
        spread = self.spread(adj_hat, x @ self.first)
        hidden = torch.relu(spread + self.first_bias)
        return (self.second.T @ hidden.T).T + self.second_bias

    def views(
        self, adj_hat: GraphOperator, x: Features, n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v n c"]:
        """Return the logits of several random views, spread over the graph in one product."""
        if not self.teleport and _is_fixed(adj_hat):
            parameters = (self.first, self.first_bias, self.second, self.second_bias)
            settings = ViewSettings(n_views, self.n_steps, self.dropout, self.drop_node)
            return random_views(parameters, adj_hat, x, settings, generator)
        mapped = [x.dropped(self.dropout, generator) @ self.first for _ in range(n_views)]
        masks = node_masks(mapped[0].detach(), (n_views, x.shape[0]), self.drop_node, generator)
        masked = [hidden * mask for hidden, mask in zip(mapped, masks)]
        spread = self.spread(adj_hat, torch.cat(masked, 1))
        by_view = spread.reshape(len(spread), n_views, -1).transpose(0, 1)
        hidden = torch.relu(by_view + self.first_bias)
        if self.dropout:
            mask = keep_mask(spread.detach(), self.dropout, generator)
            hidden = hidden * mask.view(len(spread), n_views, -1).transpose(0, 1)
        return (self.second.T @ hidden.mT + self.second_bias[:, None]).mT


def _is_fixed(adj_hat: GraphOperator) -> bool:
    """Say whether no gradient is asked for a graph's values."""
    return not (isinstance(adj_hat, Adjacency) and adj_hat.values().requires_grad)
