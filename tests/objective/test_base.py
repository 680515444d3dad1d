"""All terms against hand-computed and independently computed values; their maps and new rows."""

import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.distributed import SINGLE_PROCESS
from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.graph.pairs import as_sharded_rows
from glnn.objective import base
from glnn.objective.base import PairMap
from glnn.objective.smoothness import ChannelSmoothness, FrobeniusSmoothness, TraceSmoothness
from glnn.objective.terms import (
    Closeness,
    Loops,
    Ridge,
    RowSums,
    Sparsity,
    Symmetry,
    TaskCost,
)

# All terms

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
    "ridge": 0.5**2 + 2 * 1**2 + 2 * 2**2,
    # u_i, v_i are the two columns: c_01 = (1*1 + 0*2) / 2, c_12 = (2*3 + 1*0) / 2, c_00 = 0
    "task": 0.5 * 0 + 2 * 1 * 0.5 + 2 * 2 * 3,
}
every_term = pytest.mark.parametrize("name", BY_HAND)


def make_term(name, x, prior):
    rows = as_sharded_rows(x)
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
        "ridge": lambda: Ridge(1.0),
        "task": lambda: TaskCost(rows, as_sharded_rows(x.flip(1))),
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


PENALTIES = ["smoothness_channel", "smoothness_frobenius", "row_sums", "loops"]


@pytest.mark.parametrize("name", PENALTIES)
@every_storage
def test_the_value_of_a_penalty_is_the_distance_of_its_image_from_its_target(name, store, rng):
    matrix, x, _ = random_case(rng)
    term = make_term(name, x, None)
    misfit = term.image(store(matrix)) - term.target
    assert_close(term.value(store(matrix)), misfit.square().sum())


# Linear maps on pairs

KINDS = [
    "row_sums",
    "loops",
    "channel",
    "channel of entries",
    "frobenius",
    "frobenius of entries",
]
every_kind = pytest.mark.parametrize("kind", KINDS)
SIZES = pytest.mark.parametrize("size", [1, 2, 3])


def random_vector(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=generator, dtype=torch.float64)


def dual_vector(kind, term):
    y = random_vector(len(term.target), 1)
    if kind.startswith("frobenius"):  # the dual vector is a symmetric matrix
        width = int(len(y) ** 0.5)
        y = (y.view(width, width) + y.view(width, width).T).reshape(-1)
    return y


@every_kind
@SIZES
def test_map_and_adjoint_agree_over_the_full_matrix(kind, size, together, penalty_of, pairs_of):
    whole, every = penalty_of(kind, SINGLE_PROCESS), pairs_of(SINGLE_PROCESS)
    values = random_vector(len(every)).abs()
    image = whole.image(SparseAdjacency(every, values))

    def work(peers):
        term, pairs = penalty_of(kind, peers), pairs_of(peers)
        own = values[every.locate(pairs.keys)[0]]
        pair_map, y = term.pair_map(pairs), dual_vector(kind, term)
        found = peers.all_reduce(pair_map.apply(own))
        inner = peers.all_reduce((pairs.counts * own).dot(pair_map.adjoint(y)))
        assert_close(found.dot(y), inner)
        assert_close(term.adjoint(y).on_pairs(pairs), pair_map.adjoint(y))
        assert_close(found.square().sum(), image.square().sum())
        assert_close(term.target, whole.target)

    together(size, work)


@pytest.mark.parametrize("kind", KINDS[:4])
@SIZES
def test_squares_are_the_diagonal_of_the_map_times_its_adjoint(
    kind, size, together, penalty_of, pairs_of
):
    def work(peers):
        term, pairs = penalty_of(kind, peers), pairs_of(peers)
        pair_map, active = term.pair_map(pairs), (pairs.keys % 3 > 0).double()
        squares = peers.all_reduce(pair_map.gram_diagonal(active))
        for k, unit in enumerate(torch.eye(len(term.target), dtype=torch.float64)):
            image = peers.all_reduce(pair_map.apply(active * pair_map.adjoint(unit)))
            assert_close(image[k], squares[k])

    together(size, work)


@pytest.mark.parametrize("kind", KINDS[2:])
@SIZES
def test_columns_are_the_matrix_of_the_adjoint(kind, size, together, penalty_of, pairs_of):
    def work(peers):
        term, pairs = penalty_of(kind, peers), pairs_of(peers)
        pair_map, y = term.pair_map(pairs), dual_vector(kind, term)
        assert_close(pair_map.matrix_rows(slice(1, 5)) @ y, pair_map.adjoint(y)[1:5])

    together(size, work)


def test_the_bound_of_row_sums_is_at_least_their_matrix(penalty_of, pairs_of):
    term, pairs = penalty_of("row_sums", SINGLE_PROCESS), pairs_of(SINGLE_PROCESS)
    pair_map, active = term.pair_map(pairs), torch.ones(len(pairs), dtype=torch.float64)
    units = torch.eye(len(term.target), dtype=torch.float64)
    matrix = torch.stack([pair_map.apply(pair_map.adjoint(unit)) for unit in units])
    gap = torch.linalg.eigvalsh(torch.diag(pair_map.gram_bound(active)) - matrix)
    assert gap.min() > -1e-12
    other = random_vector(len(pairs))[:, None]
    coupled = pair_map.cross_gram(active, other, slice(None))
    assert_close(coupled[:, 0], pair_map.apply(other[:, 0]))


def test_squares_of_a_map_by_its_definition_are_estimated(penalty_of, pairs_of, monkeypatch):
    term, pairs = penalty_of("channel", SINGLE_PROCESS), pairs_of(SINGLE_PROCESS)
    plain = PairMap(term, pairs)
    active = (pairs.keys % 3 > 0).double()
    monkeypatch.setattr(base, "_N_PROBES", 4000)
    assert_close(
        plain.gram_diagonal(active), term.pair_map(pairs).gram_diagonal(active), rtol=0.1, atol=1e-9
    )
    assert not plain.gram_diagonal(torch.zeros_like(active)).any()
