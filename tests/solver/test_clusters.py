import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

from glnn.solver import clusters
from glnn.solver.clusters import clustered_nearest


@pytest.fixture
def rows(rng):
    return normalize(rng.standard_normal((3000, 6)))


def exact(rows, k):
    product = rows @ rows.T
    np.fill_diagonal(product, -np.inf)
    return np.argsort(-product, axis=1)[:, :k]


def share_found(found, wanted):
    return np.mean([np.isin(w, f).mean() for f, w in zip(found, wanted)])


def test_nearly_all_neighbours_are_found_though_few_rows_are_compared(rows, monkeypatch):
    monkeypatch.setattr(clusters, "SEEN", 11)
    seen = []
    times = clusters._Rows.times
    monkeypatch.setattr(
        clusters._Rows, "times", lambda *a: seen.append(times(*a)) or torch.clone(seen[-1])
    )
    found, _ = clustered_nearest(rows, 10)
    assert share_found(found, exact(rows, 10)) > 0.85
    assert sum(products.numel() for products in seen) < 0.6 * 3000**2


def test_a_row_sees_about_as_many_rows_where_they_are_crowded(monkeypatch, rng):
    crowd = np.repeat(rng.standard_normal((20, 5)), 100, axis=0)
    crowd += 0.05 * rng.standard_normal(crowd.shape)
    rows = normalize(np.vstack([crowd, rng.standard_normal((2000, 5))]))
    monkeypatch.setattr(clusters, "SEEN", 8)
    lists = clusters._Lists.of(rows.astype(np.float32), "cpu", 0)
    n_seen = [sum(b - a for a, b in seen) for _, seen in lists.visits()]
    assert max(n_seen) <= (8 + clusters._LARGEST) * clusters.ROWS


def test_scores_are_the_exact_products_and_no_row_finds_itself(rows):
    found, score = clustered_nearest(rows, 8)
    products = np.einsum("nd,nkd->nk", rows, rows[found])
    np.testing.assert_allclose(score, products, atol=1e-6)
    assert not (found == np.arange(3000)[:, None]).any()
    assert all(np.unique(row).size == 8 for row in found)


def test_the_same_rows_give_the_same_answer(rows):
    np.testing.assert_array_equal(clustered_nearest(rows, 5)[0], clustered_nearest(rows, 5)[0])


def test_thin_rows_stay_sparse_and_wide_rows_are_projected(rng):
    words = sp.random(2000, 600, density=0.02, random_state=0, format="csr")
    rows = sp.csr_matrix(normalize(words))
    wanted = exact(rows.toarray(), 5)
    found, score = clustered_nearest(rows, 5)
    dense, dense_score = clustered_nearest(rows.toarray(), 5)
    np.testing.assert_allclose(score, dense_score, atol=1e-6)
    assert share_found(found, wanted) > 0.9
    assert share_found(dense, wanted) > 0.9


def test_rows_of_zeros_take_no_part(rows):
    rows[::3] = 0
    found, score = clustered_nearest(rows, 4)
    assert np.isneginf(score[::3]).all()
    assert (found[1::3] % 3 != 0).all()


def test_many_equal_rows_do_not_make_one_huge_cluster(monkeypatch, rng):
    rows = np.repeat(normalize(rng.standard_normal((2, 4))), 3000, axis=0)
    largest = []
    times = clusters._Rows.times
    monkeypatch.setattr(
        clusters._Rows, "times", lambda *a: largest.append(a[1][1] - a[1][0]) or times(*a)
    )
    _, score = clustered_nearest(rows, 5)
    np.testing.assert_allclose(score, 1, atol=1e-6)
    assert max(largest) <= clusters._LARGEST * clusters.ROWS + 1
    assert sum(largest) == 6000


def test_fewer_rows_than_neighbours_leaves_places_empty():
    _, score = clustered_nearest(np.eye(3) + 1, 5)
    assert np.isneginf(score).sum() == 3 * 3
    assert np.isneginf(clustered_nearest(np.zeros((3, 2)), 1)[1]).all()


def test_many_centres_in_two_steps_are_nearly_those_of_one_by_one(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    points = torch.nn.functional.normalize(torch.randn(3000, 8, generator=generator))
    centres = points[:400].clone()
    exact = clusters._nearest_of_all(points, centres)
    found = clusters._nearest_centre(points, centres)  # 400 are more than are taken one by one
    lost = (points * centres[exact]).sum(1) - (points * centres[found]).sum(1)
    assert (found == exact).float().mean() > 0.75  # directions without any clusters: the worst
    assert lost.min() >= -1e-6 and lost.mean() < 0.02
    monkeypatch.setattr(clusters, "_FLAT", 400)
    assert torch.equal(clusters._nearest_centre(points, centres), exact)
