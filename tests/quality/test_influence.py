import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import spearmanr
from torch.autograd import functional

from glnn.quality.influence import estimate_influence, network_kernel


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    labelled = np.array([2, 3, 5, 8, 13, 14])
    return rng.standard_normal((20, 3)), labelled, np.array([0, 1, 2, 1, 0, 2])


def without(found, kernel, place, ridge):
    """One Newton step, by automatic differentiation, on the problem without a label."""
    kept = np.delete(np.arange(len(kernel)), place)
    classes, k = torch.from_numpy(found.classes), torch.from_numpy(kernel)

    def loss(alpha):
        scores = k @ alpha
        fit = torch.nn.functional.cross_entropy(scores[kept], classes[kept], reduction="sum")
        return fit + ridge / 2 * (alpha * scores).sum()

    start = torch.from_numpy(found.alpha)
    gradient = functional.jacobian(loss, start).ravel()
    hessian = functional.hessian(loss, start).reshape(len(gradient), -1)
    return (start.ravel() - torch.linalg.pinv(hessian) @ gradient).reshape(start.shape).numpy()


@pytest.mark.parametrize("ridge", [0.01, 0.3])
def test_influence_is_a_newton_step_on_the_problem_without_the_label(drawn, ridge):
    rows, labelled, classes = drawn
    found = estimate_influence(rows, labelled, classes, 3, ridge=ridge)
    kernel = network_kernel(found.rows[labelled], found.rows[labelled])
    near = network_kernel(found.rows, found.rows[labelled])
    whole = softmax(near @ found.alpha, 1)
    for place in range(len(labelled)):
        stepped = softmax(near @ without(found, kernel, place, ridge), 1)
        for node in range(len(rows)):
            assert_allclose(found.at(node)[place], (whole - stepped)[node], atol=1e-5)


def test_the_solution_has_no_gradient(drawn):
    rows, labelled, classes = drawn
    found = estimate_influence(rows, labelled, classes, 3, ridge=0.1)
    p = softmax(network_kernel(found.rows[labelled], found.rows[labelled]) @ found.alpha, 1)
    assert_allclose(found.alpha, (np.eye(3)[classes] - p) / 0.1, atol=1e-5)


def test_labels_rank_as_solving_again_without_them_ranks_them(drawn):
    rows, labelled, classes = drawn
    found = estimate_influence(rows, labelled, classes, 3)

    def solved(kept):
        fewer = estimate_influence(rows, labelled[kept], classes[kept], 3)
        return softmax(network_kernel(fewer.rows, fewer.rows[labelled[kept]]) @ fewer.alpha, 1)

    every = np.arange(len(labelled))
    effects = np.stack([solved(every) - solved(np.delete(every, k)) for k in every])
    estimated = np.stack([found.at(node) for node in range(20)], 1)
    assert spearmanr(effects.ravel(), estimated.ravel())[0] > 0.95


def test_what_a_label_gives_to_its_class_it_takes_from_the_others(drawn):
    found = estimate_influence(*drawn, 3)
    assert_allclose(found.at(4).sum(1), 0, atol=1e-12)


def test_turning_and_stretching_all_rows_together_changes_nothing(drawn):
    rows, labelled, classes = drawn
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    first = estimate_influence(rows, labelled, classes, 3)
    second = estimate_influence(7 * rows @ turn, labelled, classes, 3)
    assert_allclose(first.at(0), second.at(0), atol=1e-5)


def test_a_label_speaks_for_its_class_at_a_node_that_equals_it(drawn):
    rows, labelled, classes = drawn
    rows[0] = rows[labelled[2]]
    at = estimate_influence(rows, labelled, classes, 3).at(0)
    assert at[2].argmax() == classes[2]


def test_two_labels_on_equal_rows_are_no_obstacle(drawn):
    rows, labelled, classes = drawn
    rows[labelled[0]] = rows[labelled[4]]  # of one class
    at = estimate_influence(rows, labelled, classes, 3).at(0)
    assert np.isfinite(at).all()
    assert_allclose(at[0], at[4], atol=1e-4)


def test_the_kernel_is_that_of_a_wide_random_network():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 2))
    wide = np.hstack([rows, np.ones((3, 1))])
    before = wide @ rng.standard_normal((3, 400_000))
    hidden, is_open = np.maximum(before, 0), before > 0
    by_last = 2 * hidden @ hidden.T / before.shape[1]
    by_first = 2 * (wide @ wide.T) * (is_open.astype(float) @ is_open.T) / before.shape[1]
    assert_allclose(network_kernel(rows, rows), (by_last + by_first) / 2, atol=0.02)
