"""Each term: a case by hand, a second route to the number, and gradients, on every storage."""

import inspect
import math

import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.graph.spread import spread
from glnn.objective import READINGS, Term
from glnn.objective.channel import ChannelSmoothness
from glnn.objective.closeness import Closeness, Proximal
from glnn.objective.frobenius import FrobeniusSmoothness
from glnn.objective.loops import Loops
from glnn.objective.plain import Ridge, Sparsity, Symmetry
from glnn.objective.row_sums import RowSums
from glnn.objective.smoothness import TraceSmoothness
from glnn.objective.task import Task

STORAGES = {
    "dense": DenseAdjacency,
    "sparse": lambda matrix: SparseAdjacency.from_scipy(sp.csr_matrix(matrix.numpy())),
}
every_storage = pytest.mark.parametrize("store", STORAGES.values(), ids=STORAGES)

A = torch.tensor([[0.5, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=torch.float64)
G = torch.tensor([[0, 1, 1], [1, 0, 0], [1, 0, 1]], dtype=torch.float64)
X = torch.tensor([[1, 0], [2, 1], [0, 3]], dtype=torch.float64)
# A X = [[2.5, 1], [1, 6], [4, 2]], so X'(I - A)X = [[0.5, -11], [-11, -2]]
BY_HAND = {
    "smoothness_trace": 0.5 - 2,
    "smoothness_channel": 0.5**2 + 2**2,
    "smoothness_frobenius": 0.5**2 + 2 * 11**2 + 2**2,
    "sparsity": 0.5 + 2 * 1 + 2 * 2,
    "symmetry": 0,
    "row_sums": (1.5 - 1) ** 2 + (3 - 1) ** 2 + (2 - 1) ** 2,
    "loops": 0.5**2,
    "closeness": 0.5**2 + 2 * (1 - 1) ** 2 + 2 * 1**2 + 2 * 2**2 + 1**2,
    "proximal": 0.5**2 + 2 * (1 - 1) ** 2 + 2 * 1**2 + 2 * 2**2 + 1**2,
    "ridge": 0.5**2 + 2 * 1**2 + 2 * 2**2,
    # u_i, v_i are the two columns: c_01 = (1*1 + 0*2) / 2, c_12 = (2*3 + 1*0) / 2, c_00 = 0
    "task": 0.5 * 0 + 2 * 1 * 0.5 + 2 * 2 * 3,
}
every_term = pytest.mark.parametrize("name", BY_HAND)


def make_term(name, x, prior):
    rows = spread(x)
    like = torch.ones(len(x), dtype=x.dtype)
    return {
        "smoothness_trace": lambda: TraceSmoothness(1.0, rows),
        "smoothness_channel": lambda: ChannelSmoothness(1.0, rows),
        "smoothness_frobenius": lambda: FrobeniusSmoothness(1.0, rows),
        "sparsity": lambda: Sparsity(1.0),
        "symmetry": lambda: Symmetry(1.0),
        "row_sums": lambda: RowSums(1.0, like),
        "loops": lambda: Loops(1.0, like),
        "closeness": lambda: Closeness(1.0, prior),
        "proximal": lambda: Proximal(1.0, prior),
        "ridge": lambda: Ridge(1.0),
        "task": lambda: Task(rows, spread(x.flip(1))),
    }[name]()


def evaluate(name, adj, x, prior):
    return make_term(name, x, prior).value(adj)


def random_graph(rng, n_nodes=4):
    """All pairs, weights away from the kink of the absolute value."""
    upper = torch.rand(n_nodes, n_nodes, generator=rng, dtype=torch.float64).triu() + 0.1
    return upper.triu() + upper.triu(1).T


def random_case(rng, n_nodes=4):
    prior = random_graph(rng, n_nodes) * (random_graph(rng, n_nodes) > 0.5)
    prior = (prior + prior.T) / 2
    x = torch.randn(n_nodes, 2, generator=rng, dtype=torch.float64)
    return random_graph(rng, n_nodes), x, prior


def test_every_term_has_a_case_by_hand():
    def kinds(kind):
        return {kind, *(found for sub in kind.__subclasses__() for found in kinds(sub))}

    ours = {kind for kind in kinds(Term) if kind.__module__.startswith("glnn.")}
    ours = {kind for kind in ours if not inspect.isabstract(kind)}
    made = {type(make_term(name, X, DenseAdjacency(G))) for name in BY_HAND}
    assert ours == made


@every_term
@every_storage
@pytest.mark.parametrize("store_prior", STORAGES.values(), ids=STORAGES)
def test_the_value_is_the_one_computed_by_hand(name, store, store_prior):
    found = evaluate(name, store(A), X, store_prior(G))
    assert_close(found, torch.tensor(BY_HAND[name], dtype=torch.float64))


@every_term
def test_the_gradient_to_every_entry_agrees_with_finite_differences(name, rng):
    matrix, x, prior = random_case(rng)
    skewed = matrix + torch.rand(4, 4, generator=rng, dtype=torch.float64)
    inputs = (skewed.requires_grad_(), x.requires_grad_())
    assert gradcheck(
        lambda m, x: evaluate(name, DenseAdjacency(m), x, DenseAdjacency(prior)), inputs
    )


@every_term
def test_the_gradient_to_every_stored_pair_agrees_with_finite_differences(name, rng):
    matrix, x, prior = random_case(rng)
    kept = matrix * (matrix > 0.4)  # a pattern with holes
    adj = STORAGES["sparse"](kept)
    inputs = (adj.values().requires_grad_(), x.requires_grad_())
    stored_prior = STORAGES["sparse"](prior)
    assert gradcheck(lambda v, x: evaluate(name, adj.with_values(v), x, stored_prior), inputs)


@every_term
def test_both_storages_have_the_same_value_and_the_same_gradient(name, rng):
    matrix, x, prior = random_case(rng)
    adj = STORAGES["sparse"](matrix)
    values, matrix = adj.values().requires_grad_(), matrix.requires_grad_()
    x_sparse, x_dense = x.clone().requires_grad_(), x.clone().requires_grad_()
    sparse = evaluate(name, adj.with_values(values), x_sparse, STORAGES["sparse"](prior))
    dense = evaluate(name, DenseAdjacency(matrix), x_dense, DenseAdjacency(prior))
    assert_close(sparse, dense)
    sparse.backward()
    dense.backward()
    of_pairs = matrix.grad + matrix.grad.T - torch.diag(matrix.grad.diagonal())
    assert_close(values.grad, of_pairs[adj.rows(), adj.columns()])
    assert_close(x_sparse.grad, x_dense.grad)


@every_term
@every_storage
def test_a_graph_of_one_node_without_a_loop_has_a_value(name, store):
    one = torch.zeros(1, 1, dtype=torch.float64)
    found = evaluate(name, store(one), torch.ones(1, 1, dtype=torch.float64), store(one))
    assert found == (name.startswith("smoothness") or name == "row_sums")


@every_storage
def test_the_trace_reading_is_the_weighted_sum_of_squared_differences(store, rng):
    matrix, x, _ = random_case(rng)
    pairwise = (x[:, None] - x[None]).square().sum(-1)  # |x_i - x_j|^2
    missing = ((1 - matrix.sum(1)) * x.square().sum(1)).sum()  # I is not D unless rows sum to one
    found = evaluate("smoothness_trace", store(matrix), x, None)
    assert_close(found, 0.5 * (matrix * pairwise).sum() + missing)


@every_storage
def test_the_squared_readings_of_one_signal_are_the_square_of_the_trace(store, rng):
    matrix, x, _ = random_case(rng)
    adj, signal = store(matrix), x[:, :1]
    square = evaluate("smoothness_trace", adj, signal, None).square()
    assert_close(evaluate("smoothness_channel", adj, signal, None), square)
    assert_close(evaluate("smoothness_frobenius", adj, signal, None), square)


@every_storage
def test_the_frobenius_reading_is_the_same_in_any_rotated_basis_of_the_channels(store, rng):
    matrix, x, _ = random_case(rng)
    rotation, _ = torch.linalg.qr(torch.randn(2, 2, generator=rng, dtype=torch.float64))
    adj = store(matrix)
    turned, plain = (evaluate("smoothness_frobenius", adj, s, None) for s in (x @ rotation, x))
    assert_close(turned, plain)


@every_storage
@pytest.mark.parametrize("reading", READINGS)
def test_equal_signals_on_a_graph_whose_rows_sum_to_one_are_perfectly_smooth(store, reading):
    swap = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    ones = torch.ones(2, 3, dtype=torch.float64)
    assert evaluate(f"smoothness_{reading}", store(swap), ones, None) == 0


@every_storage
def test_a_graph_is_at_no_distance_from_itself(store):
    assert evaluate("closeness", store(A), X, store(A)) == 0


def test_symmetry_of_a_skewed_matrix_counts_both_entries_of_a_pair():
    skewed = DenseAdjacency(torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
    assert Symmetry(1.0).value(skewed) == 2 * (3 - 1) ** 2


def test_the_subgradient_of_sparsity_at_zero_is_zero():
    zero = torch.zeros(2, 2, requires_grad=True)
    Sparsity(1.0).value(DenseAdjacency(zero)).backward()
    assert not zero.grad.any()


PENALTIES = ["smoothness_channel", "smoothness_frobenius", "row_sums", "loops"]


@pytest.mark.parametrize("name", PENALTIES)
@every_storage
def test_the_value_of_a_penalty_is_the_distance_of_its_image_from_its_target(name, store, rng):
    matrix, x, _ = random_case(rng)
    term = make_term(name, x, None)
    assert term.penalty() is term
    misfit = term.image(store(matrix)) - term.target
    assert_close(term.value(store(matrix)), misfit.square().sum())


@every_term
def test_a_term_without_weight_says_nothing_of_a_new_node_that_is_not_finite(name, rng):
    _, x, prior = random_case(rng)
    term = make_term(name, x, DenseAdjacency(prior))
    dual = None if term.penalty() is None else torch.ones_like(term.target)
    share = term.new_row(dual)
    numbers = (share.edge_curvature, share.loop_curvature, share.loop, share.prior)
    assert all(math.isfinite(number) for number in numbers)
    assert share.edge_curvature >= 0 and share.loop_curvature >= 0
