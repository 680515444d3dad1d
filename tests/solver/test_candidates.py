import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from glnn.exceptions import InputError
from glnn.solver.candidates import nearest


def by_sorting(signal, k):
    product = signal @ signal.T
    np.fill_diagonal(product, -np.inf)
    order = np.argsort(-product, axis=1)[:, :k]
    return {(i, j) for i in range(len(signal)) for j in order[i] if product[i, j] > 0}


@pytest.mark.parametrize("search", ["exact", "faiss"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("k", [1, 5])
def test_neighbours_are_those_of_a_full_sort(search, sparse, k, rng):
    if search == "faiss":
        pytest.importorskip("faiss")
    signal = normalize(rng.standard_normal((60, 7)))
    i, j = nearest(sp.csr_matrix(signal) if sparse else signal, k, search=search)
    assert set(zip(i, j)) == by_sorting(signal, k)


@pytest.mark.parametrize("sparse", [True, False])
def test_small_blocks_find_the_same_neighbours(sparse, rng):
    signal = normalize(rng.standard_normal((60, 7)))
    given = sp.csr_matrix(signal) if sparse else signal
    i, j = nearest(given, 4, block_bytes=1024)
    assert set(zip(i, j)) == by_sorting(signal, 4)


def test_rows_with_nothing_in_common_are_no_neighbours():
    i, j = nearest(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 3)
    assert set(zip(i, j)) == {(0, 1), (1, 0)}


def test_more_neighbours_than_rows_gives_all_rows():
    i, _ = nearest(np.ones((3, 1)), 10)
    assert len(i) == 6
    assert len(nearest(np.ones((3, 1)), 0)[0]) == 0


def test_an_unknown_search_is_refused():
    with pytest.raises(InputError, match="search must be one of"):
        nearest(np.ones((3, 1)), 1, search="annoy")
