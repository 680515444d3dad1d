"""Training losses: cross-entropy, consistency of views, smoothness of predictions."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glnn.graph.adjacency import GraphOperator


def cross_entropy(
    logits: Float[Tensor, "v n c"],
    nodes: Int[Tensor, "l"] | None,
    labels: Int[Tensor, "l"],
    n_labels: int | None = None,
    weights: Float[Tensor, "l"] | None = None,
) -> Float[Tensor, ""]:
    r"""Mean over views and labelled nodes of :math:`-\ln Z_{l, y_l}`; 0 without such nodes.

    ``nodes`` are the rows with a label; ``None``: the first ones. ``n_labels`` is the number of
    labelled nodes of all processes, if it is larger; the result is then this process's share of
    the mean. ``weights`` (of mean one) multiply the nodes' losses.

    Notes
    -----
    Differs from the paper, which sums over the labelled nodes: its optimiser settings were
    published for the mean.
    """
    # the gradient of indexing sorts on a GPU; that of index_select only adds
    chosen = logits[:, : len(labels)] if nodes is None else logits.index_select(1, nodes)
    picked = chosen.reshape(-1, logits.shape[-1])
    known = torch.cat([labels] * len(logits))  # repeat takes several times as long
    if weights is None:
        total = functional.cross_entropy(picked, known, reduction="sum")
    else:
        each = functional.cross_entropy(picked, known, reduction="none")
        total = (each * torch.cat([weights] * len(logits))).sum()
    return total / max(1, len(logits) * (len(labels) if n_labels is None else n_labels))


def softmax_by_class(logits: Float[Tensor, "... n c"]) -> Float[Tensor, "... n c"]:
    """Return the softmax over the classes, stored class by class in memory.

    With few classes the usual layout does not use the processor's vector units; for seven classes
    it takes twenty times as long.
    """
    by_class = logits.transpose(-1, -2).contiguous()
    return by_class.softmax(-2).transpose(-1, -2)


def temper(p: Float[Tensor, "n c"], temperature: float) -> Float[Tensor, "n c"]:
    r"""Return :math:`p^{1/T} / \sum_c p_c^{1/T}`."""
    return softmax_by_class(p.clamp_min(1e-12).log() / temperature)  # p^(1/T) itself underflows


def default_graph_gate(n_classes: int) -> float:
    r"""Return :math:`\min(\frac{2}{C}, 0.7)`: with fewer classes wrong majorities are likelier."""
    return min(2 / n_classes, 0.7)


def average_views(views: Float[Tensor, "v n c"]) -> Float[Tensor, "n c"]:
    """Return the mean of the views without a gradient; a sum is faster for two views."""
    fixed = views.detach()
    return (fixed[0] + fixed[1]) / 2 if len(fixed) == 2 else fixed.mean(0)


def squared_distance_loss(
    views: Float[Tensor, "v n c"],
    target: Float[Tensor, "n c"],
    weight: Bool[Tensor, "n"] | Float[Tensor, "n"],
    n_nodes: int | None = None,
) -> Float[Tensor, ""]:
    r"""Return :math:`\frac{1}{VN}\sum_v\sum_i w_i \|P^v_i - q_i\|^2`; :math:`q, w` are constant.

    ``n_nodes`` is :math:`N` over all processes, if some nodes are in others.
    """
    scale = 1 / (len(views) * (n_nodes or len(target)))
    return _SquaredDistanceLoss.apply(views, target, weight, scale)  # type: ignore[no-any-return, no-untyped-call]


class _SquaredDistanceLoss(torch.autograd.Function):
    """Works class by class in memory, the layout of :func:`softmax_by_class`."""

    @staticmethod
    def forward(ctx: Any, views: Tensor, target: Tensor, weight: Tensor, scale: float) -> Tensor:
        difference = views.mT - target.mT
        weighted = difference * weight.to(difference.dtype)
        ctx.save_for_backward(weighted)
        ctx.scale = scale
        return difference.mul_(weighted).sum().mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (weighted,) = ctx.saved_tensors
        return (weighted * (2 * ctx.scale * grads[0])).mT, None, None, None


class ShareAlignment:
    r"""Keeps one class from taking over the targets of the losses on predictions.

    A target :math:`q` becomes :math:`q_c (e_c / m_c)^\kappa`, scaled to sum one, with :math:`m` the
    mean prediction, :math:`e_c` the share of class c among the known labels, where each class
    counts one label more, and :math:`\kappa` the strength. With few labels the losses on
    predictions otherwise collapse into one class.
    """

    def __init__(self, classes: Int[Tensor, "l"], n_classes: int, strength: float) -> None:
        counts = torch.bincount(classes, minlength=n_classes) + 1.0
        self.expected: Float[Tensor, c] = counts / counts.sum()
        self.strength = strength

    def factors(self, mean: Float[Tensor, "c"]) -> Float[Tensor, "c"]:
        """Return the factors of the classes, for a mean prediction of all nodes."""
        return (self.expected / mean.clamp_min(1e-6)) ** self.strength


def rescale(p: Float[Tensor, "n c"], factors: Float[Tensor, "c"] | None) -> Float[Tensor, "n c"]:
    """Return the rows times the factors of their columns, scaled to sum one; zero rows stay."""
    if factors is None:
        return p
    scaled = p * factors
    return scaled / scaled.sum(-1, keepdim=True).clamp_min(1e-12)


def gate_weights(
    p: Float[Tensor, "n c"], gate: float, class_weights: Float[Tensor, "c"] | None
) -> Bool[Tensor, "n"] | Float[Tensor, "n"]:
    r"""Return :math:`[\max_c p_c > \frac1C + g (1 - \frac1C)]`: which nodes are confident.

    For any number of classes a gate of 0 accepts everything above chance, and 1 accepts nothing.
    With ``class_weights`` the result is multiplied by the weight of the most probable class:
    otherwise unlabelled nodes of a large class would keep their full weight.
    """
    chance = 1 / p.shape[-1]
    is_open = p.amax(-1) > chance + gate * (1 - chance)
    return is_open if class_weights is None else is_open * class_weights[p.argmax(-1)]


def view_targets(
    views: Float[Tensor, "v n c"],
    temperature: float,
    gate: float,
    class_weights: Float[Tensor, "c"] | None = None,
    factors: Float[Tensor, "c"] | None = None,
) -> tuple[Float[Tensor, "n c"], Bool[Tensor, "n"] | Float[Tensor, "n"]]:
    """Return targets and weights for the consistency of views (:func:`squared_distance_loss`).

    Targets are the tempered mean of the views' probabilities, without a gradient. The weight is 1
    if that mean is confident (times its class weight), else 0. ``factors`` are those of
    :class:`ShareAlignment`.
    """
    mean = rescale(average_views(views), factors)
    return temper(mean, temperature), gate_weights(mean, gate, class_weights)


def cross_entropy_gradient(
    logits: Float[Tensor, "v n c"],
    labels: Int[Tensor, "l"],
    weights: Float[Tensor, "l"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, "v n c"]]:
    """Return :func:`cross_entropy` of the first rows and its gradient by the logits.

    The logits must not require a gradient.
    """
    n_views, _, n_classes = logits.shape
    log_p = logits[:, : len(labels)].reshape(-1, n_classes).log_softmax(-1)
    known, count = torch.cat([labels] * n_views), max(1, n_views * len(labels))
    for_log = torch.zeros_like(log_p).scatter_(1, known[:, None], -1 / count)
    if weights is None:
        total = functional.nll_loss(log_p, known, reduction="sum")
    else:
        repeated = torch.cat([weights] * n_views)
        total = (functional.nll_loss(log_p, known, reduction="none") * repeated).sum()
        for_log.mul_(repeated[:, None])
    found = torch.ops.aten._log_softmax_backward_data(for_log, log_p, -1, log_p.dtype)
    gradient = torch.zeros_like(logits, memory_format=torch.contiguous_format)
    gradient[:, : len(labels)] = found.view(n_views, -1, n_classes)
    return total / count, gradient


def distance_gradient(
    views: Float[Tensor, "v n c"],
    target: Float[Tensor, "n c"],
    weight: Bool[Tensor, "n"] | Float[Tensor, "n"],
    factor: float | Float[Tensor, ""],
) -> tuple[Float[Tensor, ""], Float[Tensor, "v n c"]]:
    """Return a factor times :func:`squared_distance_loss`, and its gradient by the logits.

    ``views`` are those of :func:`softmax_by_class`.
    """
    by_class, scale = views.mT, 1 / (len(views) * len(target))
    difference = by_class - target.mT
    weighted = difference * weight.to(difference.dtype)
    loss = difference.mul_(weighted).sum().mul_(scale) * factor
    given = weighted * (2 * scale * torch.as_tensor(factor, dtype=views.dtype, device=views.device))
    found = torch.ops.aten._softmax_backward_data(given, by_class, -2, views.dtype)
    return loss, found.mT


def smoothness_of_predictions(
    adj: GraphOperator,
    inverse_degree: Float[Tensor, "n"],
    views: Float[Tensor, "v n c"],
    known: Float[Tensor, "n c"],
    temperature: float,
    gate: float,
    class_weights: Float[Tensor, "c"] | None = None,
    factors: Float[Tensor, "c"] | None = None,
    n_nodes: int | None = None,
) -> Float[Tensor, ""]:
    r"""GLR on the predictions, :math:`\frac{1}{VN}\sum_v\sum_i w_i \|P^v_i - q_i\|^2`.

    .. math:: q = \mathrm{temper}_T(D^{-1} A \bar P), \quad
              w_i = [(D^{-1} A \bar P)_i \text{ is confident}]

    :math:`\bar P` is the mean prediction, replaced by the known labels where there are any (rows
    of ``known`` that are not zero); :math:`q` has no gradient. This is the paper's smoothness,
    applied to the predictions. Without the gate all nodes end up in one class. A node without
    neighbours is never confident, so it is ignored.
    """
    is_known = known.sum(-1, keepdim=True) > 0
    mean = torch.where(is_known, known, average_views(views))
    by_class = (adj @ mean.contiguous()).T.contiguous() * inverse_degree
    around = rescale(by_class.T, factors)
    weight = gate_weights(around, gate, class_weights)
    return squared_distance_loss(views, temper(around, temperature), weight, n_nodes)
