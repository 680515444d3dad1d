"""Bias, ReLU, dropout and output layer of several views as one step with its own gradient."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.nn.dropout import dropped, keep_mask, rescaling


def view_logits(
    spread: Float[Tensor, "n vh"],
    first_bias: Float[Tensor, "h"],
    second: Float[Tensor, "h c"],
    second_bias: Float[Tensor, "c"],
    dropout: float,
    generator: torch.Generator,
) -> Float[Tensor, "v n c"]:
    r"""Return :math:`(m_v \circ \mathrm{ReLU}(Z_v + b_0))\,W_1 + b_1` for views :math:`v`.

    The views' signals :math:`Z_v` lie side by side in ``spread``, as one product over the graph
    leaves them. Everything after it is laid out view by view, forward and backward: numbers that
    lie in different orders take elementwise operations ten times as long.
    """
    arguments = (spread, first_bias, second, second_bias, dropout, generator)
    return _ViewLogits.apply(*arguments)  # type: ignore[no-any-return, no-untyped-call]


def layer_by_layer(
    spread: Float[Tensor, "n vh"],
    first_bias: Float[Tensor, "h"],
    second: Float[Tensor, "h c"],
    second_bias: Float[Tensor, "c"],
    dropout: float,
    generator: torch.Generator,
) -> Float[Tensor, "v n c"]:
    """Return the same by steps that leave the gradient of each parameter to autograd.

    Where rows are spread over processes, those gradients are summed up over all of them.
    """
    by_view = spread.reshape(len(spread), -1, len(first_bias)).transpose(0, 1)
    hidden = dropped(torch.relu(by_view + first_bias), dropout, generator)
    return (second.T @ hidden.transpose(1, 2) + second_bias[:, None]).transpose(1, 2)


class _ViewLogits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        spread: Tensor,
        first_bias: Tensor,
        second: Tensor,
        second_bias: Tensor,
        dropout: float,
        generator: torch.Generator,
    ) -> Tensor:
        n_nodes, width = len(spread), len(second)
        by_view = spread.reshape(n_nodes, -1, width).transpose(0, 1)
        hidden = torch.empty(by_view.shape, dtype=spread.dtype, device=spread.device)
        torch.add(by_view, first_bias, out=hidden).relu_()
        if dropout:
            hidden.mul_(keep_mask(hidden, dropout, generator))
        ctx.save_for_backward(hidden, second)
        ctx.scale = rescaling(dropout)
        logits = (hidden.view(-1, width) @ second).view(len(hidden), n_nodes, -1)
        return logits + second_bias

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, second = ctx.saved_tensors
        n_views, n_nodes, width = hidden.shape
        flat = grads[0].reshape(-1, second.shape[1])
        for_hidden = (flat @ second.T).view(hidden.shape)
        # what was dropped is zero as well: one comparison undoes both, dropout and ReLU
        torch.ops.aten.threshold_backward.grad_input(for_hidden, hidden, 0, grad_input=for_hidden)
        by_node = for_hidden.mul_(ctx.scale).transpose(0, 1).contiguous()
        for_bias = by_node.transpose(0, 1).sum((0, 1))
        for_second = hidden.view(-1, width).T @ flat
        for_second_bias = grads[0].sum((0, 1))
        by_node = by_node.view(n_nodes, n_views * width)
        return by_node, for_bias, for_second, for_second_bias, None, None
