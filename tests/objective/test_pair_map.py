"""Maps on pairs agree with the term's own image and adjoint, over any number of processes."""

import pytest
import torch
from torch.testing import assert_close

from glnn.objective import pair_map
from glnn.objective.pair_map import ColumnsMap, ImageMap, PairMap
from glnn.peers import ALONE

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
    whole, every = penalty_of(kind, ALONE), pairs_of(ALONE)
    values = random_vector(len(every)).abs()
    image = whole.image(every.adjacency(values))

    def work(peers):
        term, pairs = penalty_of(kind, peers), pairs_of(peers)
        own = values[every.places(pairs.keys)[0]]
        pair_map, y = term.on(pairs), dual_vector(kind, term)
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
        pair_map, active = term.on(pairs), (pairs.keys % 3 > 0).double()
        squares = peers.all_reduce(pair_map.squares(active))
        for k, unit in enumerate(torch.eye(len(term.target), dtype=torch.float64)):
            image = peers.all_reduce(pair_map.apply(active * pair_map.adjoint(unit)))
            assert_close(image[k], squares[k])

    together(size, work)


@pytest.mark.parametrize("kind", KINDS[2:])
@SIZES
def test_columns_are_the_matrix_of_the_adjoint(kind, size, together, penalty_of, pairs_of):
    def work(peers):
        term, pairs = penalty_of(kind, peers), pairs_of(peers)
        pair_map, y = term.on(pairs), dual_vector(kind, term)
        assert_close(pair_map.columns(slice(1, 5)) @ y, pair_map.adjoint(y)[1:5])

    together(size, work)


def test_the_bound_of_row_sums_is_at_least_their_matrix(penalty_of, pairs_of):
    term, pairs = penalty_of("row_sums", ALONE), pairs_of(ALONE)
    pair_map, active = term.on(pairs), torch.ones(len(pairs), dtype=torch.float64)
    units = torch.eye(len(term.target), dtype=torch.float64)
    matrix = torch.stack([pair_map.apply(pair_map.adjoint(unit)) for unit in units])
    gap = torch.linalg.eigvalsh(torch.diag(pair_map.bound(active)) - matrix)
    assert gap.min() > -1e-12
    other = random_vector(len(pairs))[:, None]
    coupled = pair_map.coupled(active, other, slice(None))
    assert_close(coupled[:, 0], pair_map.apply(other[:, 0]))


def test_both_plain_routes_are_that_of_the_term(penalty_of, pairs_of):
    term, pairs = penalty_of("channel", ALONE), pairs_of(ALONE)
    plain = ImageMap(pairs, term.image, lambda y: term.adjoint(y).on_pairs(pairs))
    units = torch.eye(len(term.target), dtype=torch.float64)
    kept = ColumnsMap(pairs, torch.stack([plain.adjoint(unit) for unit in units], 1))
    values, y = random_vector(len(pairs)), dual_vector("channel", term)
    assert_close(plain.apply(values), kept.apply(values))
    assert_close(plain.adjoint(y), kept.adjoint(y))
    assert_close(
        kept.squares(torch.ones(len(pairs), dtype=torch.float64)),
        term.on(pairs).squares(torch.ones(len(pairs), dtype=torch.float64)),
    )


def test_a_map_without_a_coupling_says_so():
    with pytest.raises(NotImplementedError, match="coupling"):
        PairMap.coupled(None, torch.ones(1), torch.ones(1, 1), slice(None))


def test_squares_of_listed_columns_are_the_diagonal_of_the_map_times_its_adjoint(pairs_of):
    pairs = pairs_of(ALONE)
    columns = torch.rand(
        len(pairs), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    listed, active = ColumnsMap(pairs, columns), (pairs.keys % 3 > 0).double()
    for k, unit in enumerate(torch.eye(3, dtype=torch.float64)):
        assert_close(listed.squares(active)[k], listed.apply(active * listed.adjoint(unit))[k])


def test_squares_of_a_map_by_its_definition_are_estimated(penalty_of, pairs_of, monkeypatch):
    term, pairs = penalty_of("channel", ALONE), pairs_of(ALONE)
    plain = ImageMap(pairs, term.image, lambda y: term.adjoint(y).on_pairs(pairs))
    active = (pairs.keys % 3 > 0).double()
    monkeypatch.setattr(pair_map, "_PROBES", 4000)
    assert_close(plain.squares(active), term.on(pairs).squares(active), rtol=0.1, atol=1e-9)
    assert not plain.squares(torch.zeros_like(active)).any()
