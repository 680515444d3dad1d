"""The losses against NumPy, their gates, and their gradients with constant targets."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.nn.losses import (
    ShareAlignment,
    cross_entropy,
    cross_entropy_gradient,
    distance_gradient,
    gate_weights,
    rescale,
    smoothness_of_predictions,
    softmax_by_class,
    squared_distance_loss,
    temper,
    view_targets,
)

N_VIEWS, N_NODES, N_CLASSES = 2, 5, 3
TEMPERATURE, GATE = 0.5, 0.325
LEAST = 1 / N_CLASSES + GATE * (1 - 1 / N_CLASSES)  # what a confident node must exceed


def consistency(views, *how, n_nodes=None, **more):
    return squared_distance_loss(views, *view_targets(views, *how, **more), n_nodes)


@pytest.fixture
def logits(rng):
    return 2 * torch.randn(N_VIEWS, N_NODES, N_CLASSES, generator=rng, dtype=torch.float64)


@pytest.fixture
def views(logits):
    return logits.softmax(-1)


@pytest.fixture(params=["dense", "sparse"])
def adj(request):
    """A path of four nodes with weights 1, 2, 3, and an isolated node."""
    upper = np.diag([1.0, 2.0, 3.0, 0.0], 1)
    sparse = SparseAdjacency.from_scipy(upper + upper.T)
    return sparse if request.param == "sparse" else DenseAdjacency(sparse.to_dense())


@pytest.fixture
def inverse_degree(adj):
    degree = adj.row_sums()
    return torch.where(degree > 0, 1 / degree, 0.0)


@pytest.fixture
def known():
    """Node 1 is known to be of class 2."""
    one_hot = torch.zeros(N_NODES, N_CLASSES, dtype=torch.float64)
    one_hot[1, 2] = 1
    return one_hot


def numpy_sharpened(p, temperature):
    powered = p ** (1 / temperature)
    return powered / powered.sum(-1, keepdims=True)


def numpy_gated_distance(views, target, weight):
    total = 0.0
    for view in views:
        for i in range(len(target)):
            total += weight[i] * ((view[i] - target[i]) ** 2).sum()
    return total / (len(views) * len(target))


def numpy_around(adj, views, known):
    mean = np.where(known.sum(1, keepdims=True) > 0, known, views.mean(0))
    matrix = adj.to_dense().numpy()
    degree = matrix.sum(1, keepdims=True)
    return (matrix @ mean) / np.where(degree > 0, degree, 1)


def test_cross_entropy_is_the_mean_over_views_and_labelled_nodes(logits):
    nodes, labels = torch.tensor([3, 0]), torch.tensor([2, 1])
    p = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(-1, keepdims=True)
    expected = np.mean([-np.log(p[v, i, y]) for v in range(N_VIEWS) for i, y in [(3, 2), (0, 1)]])
    assert_close(cross_entropy(logits, nodes, labels).item(), expected)


@pytest.mark.parametrize("temperature", [0.3, 0.5, 1.0, 4.0])
def test_sharpening_is_the_power_made_to_sum_to_one(views, temperature):
    found = temper(views[0], temperature)
    assert_close(found, torch.from_numpy(numpy_sharpened(views[0].numpy(), temperature)))


def test_consistency_is_the_gated_distance_to_the_sharpened_mean(views):
    p = views.numpy()
    mean = p.mean(0)
    weight = mean.max(1) > LEAST
    assert 0 < weight.sum() < N_NODES  # the case shows both sides of the gate
    expected = numpy_gated_distance(p, numpy_sharpened(mean, TEMPERATURE), weight)
    assert_close(consistency(views, TEMPERATURE, GATE).item(), expected)


def test_smoothness_is_the_gated_distance_to_the_sharpened_neighbourhood(
    adj, inverse_degree, views, known
):
    around = numpy_around(adj, views.numpy(), known.numpy())
    weight = around.max(1) > LEAST
    assert 0 < weight.sum() < N_NODES - 1
    target = numpy_sharpened(np.maximum(around, 1e-12), TEMPERATURE)
    expected = numpy_gated_distance(views.numpy(), target, weight)
    found = smoothness_of_predictions(adj, inverse_degree, views, known, TEMPERATURE, GATE)
    assert_close(found.item(), expected)


@pytest.mark.parametrize("kind", ["consistency", "smoothness"])
def test_the_gradient_of_a_loss_is_that_with_the_target_held_fixed(
    kind, adj, inverse_degree, views, known
):
    centre = views.mean(0).numpy()
    if kind == "smoothness":
        centre = np.maximum(numpy_around(adj, views.numpy(), known.numpy()), 1e-12)
    target = torch.from_numpy(numpy_sharpened(centre, TEMPERATURE))
    weight = torch.from_numpy(1.0 * (centre.max(-1) > LEAST))
    p = views.clone().requires_grad_()
    if kind == "smoothness":
        loss = smoothness_of_predictions(adj, inverse_degree, p, known, TEMPERATURE, GATE)
    else:
        loss = consistency(p, TEMPERATURE, GATE)
    held_fixed = (weight * (p - target).square().sum(-1).mean(0)).mean()
    (ours,), (fixed,) = (torch.autograd.grad(value, p) for value in (loss, held_fixed))
    assert_close(ours, fixed)


def test_shares_of_the_losses_add_up_to_the_whole(rng):
    logits = torch.randn(2, 10, 3, generator=rng)
    nodes, labels = torch.tensor([0, 1, 7]), torch.tensor([2, 0, 1])
    first = cross_entropy(logits[:, :5], nodes[:2], labels[:2], 3)
    second = cross_entropy(logits[:, 5:], nodes[2:] - 5, labels[2:], 3)
    assert_close(first + second, cross_entropy(logits, nodes, labels))
    assert cross_entropy(logits, nodes[:0], labels[:0]) == 0
    views = logits.softmax(-1)
    parts = [consistency(views[:, part], 0.5, 0.1, n_nodes=10) for part in (slice(5), slice(5, 10))]
    assert_close(sum(parts), consistency(views, 0.5, 0.1))


def test_a_label_that_weighs_twice_is_two_labels(rng):
    logits = torch.randn(2, 6, 3, generator=rng)
    nodes, labels = torch.tensor([0, 2, 5]), torch.tensor([1, 0, 2])
    twice = torch.tensor([0, 0, 1, 2])
    weighted = cross_entropy(logits, nodes, labels, 4, torch.tensor([2.0, 1.0, 1.0]))
    assert_close(weighted, cross_entropy(logits, nodes[twice], labels[twice]))


def test_the_gate_weighs_nodes_by_the_class_they_are_drawn_to():
    p = torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    assert gate_weights(p, 0.3, torch.tensor([0.5, 3.0])).tolist() == [0.5, 3.0, 0.0]
    assert gate_weights(p, 0.3, None).tolist() == [True, True, False]


def test_targets_are_aligned_with_the_shares_of_the_labels(views):
    n_classes = views.shape[-1]
    alignment = ShareAlignment(torch.tensor([0, 0, 1]), n_classes, strength=0.7)
    counts = np.bincount([0, 0, 1], minlength=n_classes) + 1
    mean = views.mean(0).numpy()
    expected = mean * (counts / counts.sum() / mean.mean(0)) ** 0.7
    expected /= expected.sum(1, keepdims=True)
    factors = alignment.factors(views.mean((0, 1)))
    assert_close(rescale(views.mean(0), factors), torch.from_numpy(expected))
    weight = expected.max(1) > LEAST
    target = numpy_sharpened(expected, TEMPERATURE)
    loss = consistency(views, TEMPERATURE, GATE, factors=factors)
    assert_close(loss.item(), numpy_gated_distance(views.numpy(), target, weight))


# Gradients that are written out


@pytest.mark.parametrize("weights", [None, torch.tensor([0.5, 2.0, 0.5])])
def test_the_gradient_of_the_cross_entropy_is_that_of_autograd(rng, weights):
    logits = torch.randn(2, 5, 3, generator=rng, requires_grad=True)
    labels = torch.tensor([2, 0, 1])
    wanted = cross_entropy(logits, None, labels, weights=weights)
    loss, gradient = cross_entropy_gradient(logits.detach(), labels, weights)
    assert torch.equal(loss, wanted)
    assert torch.equal(gradient, *torch.autograd.grad(wanted, logits))


@pytest.mark.parametrize("class_weights", [None, torch.tensor([0.5, 1.0, 3.0])])
@pytest.mark.parametrize("factor", [0.3, torch.tensor(0.3)])
def test_the_gradient_of_the_agreement_is_that_of_autograd(rng, class_weights, factor):
    logits = torch.randn(2, 5, 3, generator=rng, requires_grad=True)
    views = softmax_by_class(logits)
    wanted = factor * consistency(views, 0.1, 0.2, class_weights=class_weights)
    targets = view_targets(views.detach(), 0.1, 0.2, class_weights)
    loss, gradient = distance_gradient(views.detach(), *targets, factor)
    assert loss > 0 and torch.equal(loss, wanted)
    assert torch.equal(gradient, *torch.autograd.grad(wanted, logits))
