"""Random propagation: a perceptron on propagated features, trained on random views."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.graph.adjacency import GraphOperator
from glnn.nn.features import Features, NetworkSettings, keep_mask, rescaling


class _RandomViews(torch.autograd.Function):
    """The views of :meth:`PropagationNet.views` and their gradient.

    One product propagates the columns of all views; the logits are stored class by class, as the
    losses need them. Separate autograd operations would copy the numbers a dozen times.
    """

    @staticmethod
    def forward(  # noqa: PLR0913 # an autograd function takes no keywords
        ctx: Any,
        first: Tensor,
        first_bias: Tensor,
        second: Tensor,
        second_bias: Tensor,
        net: "PropagationNet",
        adj_hat: GraphOperator,
        x: Features,
        n_views: int,
        generator: torch.Generator,
    ) -> Tensor:
        n_nodes, width, dropout, n_steps = x.shape[0], first.shape[1], net.dropout, net.n_steps
        views = [x.apply_dropout(dropout, generator) for _ in range(n_views)]
        masks = keep_mask(first.new_empty(n_views, n_nodes, 1), net.drop_node, generator)
        masked = first.new_empty(n_nodes, n_views * width)
        for v, (view, mask) in enumerate(zip(views, masks)):
            columns = slice(v * width, (v + 1) * width)
            torch.mul(view.product(first), mask, out=masked[:, columns])
        hidden = adj_hat.sum_of_powers(masked, n_steps).div_(n_steps + 1)
        hidden.add_(torch.cat([first_bias] * n_views)).relu_()
        if dropout:
            hidden.mul_(keep_mask(hidden, dropout, generator))
        ctx.save_for_backward(hidden, second)
        ctx.adj_hat, ctx.n_steps, ctx.dropout = adj_hat, n_steps, dropout
        ctx.views, ctx.masks = views, masks
        by_class = torch.bmm(second.T.expand(n_views, -1, -1), _split_views(hidden, n_views).mT)
        return by_class.add_(second_bias[:, None]).mT

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, second = ctx.saved_tensors
        width, n_views, n_shares = len(second), len(ctx.views), ctx.n_steps + 1
        by_class = grads[0].mT.contiguous()
        g = torch.empty_like(hidden)
        for v in range(n_views):
            torch.mm(by_class[v].T, second.T, out=g[:, v * width : (v + 1) * width])
        # dropped entries are zero too, so one threshold is the gradient of dropout and ReLU
        torch.ops.aten.threshold_backward.grad_input(g, hidden, 0, grad_input=g)
        g.mul_(rescaling(ctx.dropout) / n_shares)
        for_bias = g.sum(0).view(n_views, width).sum(0).mul_(n_shares)
        for_second = _sum_of_products(by_class, _split_views(hidden, n_views)).T.contiguous()
        for_second_bias = by_class.sum((0, 2))
        g = ctx.adj_hat.sum_of_powers_transposed(g, ctx.n_steps)
        for_first = None
        for v, (view, mask) in enumerate(zip(ctx.views, ctx.masks)):
            part = view.transpose_product(g[:, v * width : (v + 1) * width] * mask)
            for_first = part if for_first is None else for_first.add_(part)
        return for_first, for_bias, for_second, for_second_bias, *[None] * 5


def _sum_of_products(
    by_class: Float[Tensor, "v c n"], hidden: Float[Tensor, "v n h"]
) -> Float[Tensor, "c h"]:
    if not hidden.is_cuda:
        return torch.bmm(by_class, hidden).sum(0)
    total = by_class[0] @ hidden[0]  # on a GPU only mm splits the sum over nodes
    for left, right in zip(by_class[1:], hidden[1:]):
        total.addmm_(left, right)
    return total


def _split_views(hidden: Float[Tensor, "n vh"], n_views: int) -> Float[Tensor, "v n h"]:
    return hidden.view(len(hidden), n_views, -1).transpose(0, 1)


def mean_of_powers(
    adj_hat: GraphOperator, x: Float[Tensor, "n d"], n_steps: int
) -> Float[Tensor, "r d"]:
    r"""Return :math:`\frac{1}{K+1} \sum_{k=0}^{K} \hat A^k X`."""
    return adj_hat.sum_of_powers(x, n_steps).div_(n_steps + 1) if n_steps else x


class PropagationNet(nn.Module):
    r"""A two-layer perceptron that propagates the output of its first layer over the graph.

    .. math:: \mathrm{ReLU}\bigl(S(m \circ X W_0) + b_0\bigr) W_1 + b_1,
              \qquad S = \tfrac{1}{K+1} \textstyle\sum_k \hat A^k

    with :math:`m` a random mask over nodes in training ("DropNode"). Propagating :math:`X W_0`
    instead of :math:`X` gives the same result for ``n_hidden`` columns instead of ``n_features``.
    """

    def __init__(
        self, n_features: int, n_classes: int, settings: NetworkSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        n_hidden, self.n_steps = settings.n_hidden, settings.n_steps
        self.dropout, self.drop_node = settings.dropout, settings.drop_node
        first, second = torch.empty(n_features, n_hidden), torch.empty(n_hidden, n_classes)
        self.first = nn.Parameter(nn.init.xavier_uniform_(first, generator=generator))
        self.second = nn.Parameter(nn.init.xavier_uniform_(second, generator=generator))
        self.first_bias = nn.Parameter(torch.zeros(n_hidden))
        self.second_bias = nn.Parameter(torch.zeros(n_classes))

    def propagate(self, adj_hat: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "r d"]:
        """Propagate signals by the mean of powers."""
        return mean_of_powers(adj_hat, x, self.n_steps)

    def forward(self, adj_hat: GraphOperator, x: Features) -> Float[Tensor, "r c"]:
        """Return class logits of the operator's rows without dropout."""
        propagated = self.propagate(adj_hat, x @ self.first)
        hidden = torch.relu(propagated + self.first_bias)
        return (self.second.T @ hidden.T).T + self.second_bias

    def views(
        self, adj_hat: GraphOperator, x: Features, n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v r c"]:
        r"""Return the logits of random views :math:`v`, propagated together on a fixed graph.

        .. math:: (m_v \circ \mathrm{ReLU}(Z_v + b_0))\,W_1 + b_1, \qquad
                  Z_v = \tfrac{1}{K+1} \textstyle\sum_k \hat A^k (n_v \circ X_v W_0)

        with :math:`X_v` the features with dropout, :math:`n_v` a mask over nodes, :math:`m_v` one
        over hidden units.
        """
        parameters = (self.first, self.first_bias, self.second, self.second_bias)
        inputs = (self, adj_hat, x, n_views, generator)
        return _RandomViews.apply(*parameters, *inputs)  # type: ignore[no-any-return, no-untyped-call]
