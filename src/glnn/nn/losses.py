"""What trains the classifier: labels, agreement of views, smoothness of predictions."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glnn.graph.adjacency import GraphOperator


def cross_entropy(
    logits: Float[Tensor, "v n c"],
    nodes: Int[Tensor, "l"],
    labels: Int[Tensor, "l"],
    n_labels: int | None = None,
    weights: Float[Tensor, "l"] | None = None,
) -> Float[Tensor, ""]:
    r"""Mean over views and labelled nodes of :math:`-\ln Z_{l, y_l}`; 0 without such nodes.

    ``n_labels`` counts them where some are elsewhere: then the result is the share of these.
    ``weights`` of the labels, of mean one, are factors of their losses.

    Notes
    -----
    Differs from the paper, which sums over the labelled nodes: the mean is what its optimiser
    settings were published for.
    """
    # on a GPU the gradient of an index sorts, that of index_select adds up
    chosen = logits.index_select(1, nodes) if logits.is_cuda else logits[:, nodes]
    picked = chosen.reshape(-1, logits.shape[-1])
    known = labels.repeat(len(logits))
    if weights is None:
        total = functional.cross_entropy(picked, known, reduction="sum")
    else:
        each = functional.cross_entropy(picked, known, reduction="none")
        total = (each * weights.repeat(len(logits))).sum()
    return total / max(1, len(logits) * (len(nodes) if n_labels is None else n_labels))


def probabilities(logits: Float[Tensor, "... n c"]) -> Float[Tensor, "... n c"]:
    """Return the softmax over the classes, laid out class by class in memory.

    Classes are few: over rows of seven numbers the usual layout leaves the processor's vector
    units idle, and takes twenty times as long.
    """
    by_class = logits.transpose(-1, -2).contiguous()
    return by_class.softmax(-2).transpose(-1, -2)


def sharpened(p: Float[Tensor, "n c"], temperature: float) -> Float[Tensor, "n c"]:
    r"""Return :math:`p^{1/T} / \sum_c p_c^{1/T}`.

    Examples
    --------
    >>> sharpened(torch.tensor([[0.8, 0.2]]), 0.5)
    tensor([[0.9412, 0.0588]])
    """
    return probabilities(p.clamp_min(1e-12).log() / temperature)  # p^(1/T) itself underflows


def confident(p: Float[Tensor, "n c"], gate: float) -> Bool[Tensor, "n"]:
    r"""Return :math:`[\max_c p_c > \frac1C + g (1 - \frac1C)]`.

    A gate of 0 asks for anything above chance, 1 can never be passed, whatever the number of
    classes.
    """
    chance = 1 / p.shape[-1]
    return p.amax(-1) > chance + gate * (1 - chance)


def natural_gate(n_classes: int) -> float:
    r"""Return :math:`\min(\frac{2}{C}, 0.7)`: the fewer classes, the easier a wrong majority.

    Examples
    --------
    >>> natural_gate(8)
    0.25
    """
    return min(2 / n_classes, 0.7)


def mean_view(views: Float[Tensor, "v n c"]) -> Float[Tensor, "n c"]:
    """Return the mean of the views' predictions, held fixed; of two by their sum, which is fast."""
    held = views.detach()
    return (held[0] + held[1]) / 2 if len(held) == 2 else held.mean(0)


def gated_distance(
    views: Float[Tensor, "v n c"],
    target: Float[Tensor, "n c"],
    weight: Bool[Tensor, "n"] | Float[Tensor, "n"],
    n_nodes: int | None = None,
) -> Float[Tensor, ""]:
    r"""Return :math:`\frac{1}{VN}\sum_v\sum_i w_i \|P^v_i - q_i\|^2`, with :math:`q, w` fixed."""
    scale = 1 / (len(views) * (n_nodes or len(target)))
    return _GatedDistance.apply(views, target, weight, scale)  # type: ignore[no-any-return, no-untyped-call]


class _GatedDistance(torch.autograd.Function):
    """Class by class in memory, as :func:`probabilities` leaves the views and targets."""

    @staticmethod
    def forward(ctx: Any, views: Tensor, target: Tensor, weight: Tensor, scale: float) -> Tensor:
        difference = views.mT - target.mT
        gated = difference * weight.to(difference.dtype)
        ctx.save_for_backward(gated)
        ctx.scale = scale
        return difference.mul_(gated).sum().mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (gated,) = ctx.saved_tensors
        return (gated * (2 * ctx.scale * grads[0])).mT, None, None, None


def weighted_gate(
    target: Float[Tensor, "n c"],
    is_open: Bool[Tensor, "n"],
    class_weights: Float[Tensor, "c"] | None,
) -> Bool[Tensor, "n"] | Float[Tensor, "n"]:
    """Return the gate, times the weight of each target's largest class where classes have any.

    Without it, unlabelled nodes of a large class would speak as loud as ever.
    """
    if class_weights is None:
        return is_open
    return is_open * class_weights[target.argmax(-1)]


def consistency(
    views: Float[Tensor, "v n c"],
    temperature: float,
    gate: float,
    n_nodes: int | None = None,
    class_weights: Float[Tensor, "c"] | None = None,
) -> Float[Tensor, ""]:
    r"""Agreement of views, :math:`\frac{1}{VN}\sum_v\sum_i w_i \|P^v_i - q_i\|^2`.

    :math:`q` is the sharpened mean of the views' predictions, held fixed; :math:`w_i` is 1 where
    that mean is confident, times the weight of its class where ``class_weights`` are given.
    ``views`` holds probabilities; ``n_nodes`` is :math:`N` where some nodes are elsewhere.
    """
    mean = mean_view(views)
    weight = weighted_gate(mean, confident(mean, gate), class_weights)
    return gated_distance(views, sharpened(mean, temperature), weight, n_nodes)


def smoothness_of_predictions(
    adj: GraphOperator,
    inverse_degree: Float[Tensor, "n"],
    views: Float[Tensor, "v n c"],
    known: Float[Tensor, "n c"],
    temperature: float,
    gate: float,
    n_nodes: int | None = None,
    class_weights: Float[Tensor, "c"] | None = None,
) -> Float[Tensor, ""]:
    r"""GLR on the predictions, :math:`\frac{1}{VN}\sum_v\sum_i w_i \|P^v_i - q_i\|^2`.

    .. math:: q = \mathrm{sharpen}_T(D^{-1} A \bar P), \quad
              w_i = [(D^{-1} A \bar P)_i \text{ is confident}]

    :math:`\bar P` is the mean prediction with the known labels put in (rows of ``known`` that are
    not zero), and :math:`q` is held fixed: the paper's smoothness applied to the signal that the
    task cares about. Without the gate it drives every node into one class. A node without
    neighbours is never confident, so it takes no part.
    """
    is_known = known.sum(-1, keepdim=True) > 0
    mean = torch.where(is_known, known, mean_view(views))
    by_class = (adj @ mean.contiguous()).T.contiguous() * inverse_degree
    around = by_class.T
    weight = weighted_gate(around, confident(around, gate), class_weights)
    return gated_distance(views, sharpened(around, temperature), weight, n_nodes)
