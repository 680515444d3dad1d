import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

from glnn.distributed import Partition
from glnn.graph.pairs import ShardedRows, as_sharded_rows
from glnn.graph.rows import DenseRows, as_row_matrix
from glnn.solver import clusters

# Search


def search_clusters(rows, k, device="cpu"):
    found, score = clusters.search_clusters(as_sharded_rows(as_row_matrix(rows, device=device)), k)
    return found.cpu().numpy(), score.cpu().numpy()


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
    monkeypatch.setattr(clusters, "CLUSTERS_PER_ROW", 11)
    seen, left_matmul = [], DenseRows.left_matmul
    monkeypatch.setattr(
        DenseRows, "left_matmul", lambda *a: seen.append(left_matmul(*a)) or torch.clone(seen[-1])
    )
    found, _ = search_clusters(rows, 10)
    assert share_found(found, exact(rows, 10)) > 0.85
    assert sum(products.numel() for products in seen) < 0.6 * 3000**2


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("sparse", [True, False])
def test_any_number_of_processes_finds_the_same(size, sparse, rows, together, monkeypatch):
    monkeypatch.setattr(clusters, "CLUSTERS_PER_ROW", 9)
    rows[::50] = 0
    given = sp.csr_matrix(rows) if sparse else rows
    expected, expected_score = search_clusters(given, 6)

    def work(peers):
        part = Partition(len(rows), peers)
        own = as_row_matrix(given[part.rows])
        found, score = clusters.search_clusters(ShardedRows(own, part), 6)
        return found.numpy(), score.numpy()

    parts = together(size, work)
    score = np.vstack([part[1] for part in parts])
    np.testing.assert_allclose(score, expected_score, atol=1e-6)
    same = np.vstack([part[0] for part in parts]) == expected
    assert same[np.isfinite(score)].mean() > 0.9999  # rounding may swap two that are level


def test_no_process_ever_has_all_rows(rows, together, monkeypatch):
    monkeypatch.setattr(clusters, "CLUSTERS_PER_ROW", 5)
    most, concatenate = [], DenseRows.concatenate
    monkeypatch.setattr(
        DenseRows,
        "concatenate",
        lambda self, o: most.append(len(concatenate(self, o))) or concatenate(self, o),
    )

    def work(peers):
        part = Partition(len(rows), peers)
        return clusters.search_clusters(ShardedRows(as_row_matrix(rows[part.rows]), part), 4)

    together(4, work)
    assert max(most) <= 3000 / 4 * 1.3


def test_thin_rows_stay_sparse_and_wide_rows_are_projected(rng):
    words = sp.random(2000, 600, density=0.02, random_state=0, format="csr")
    rows = sp.csr_matrix(normalize(words))
    wanted = exact(rows.toarray(), 5)
    found, score = search_clusters(rows, 5)
    dense, dense_score = search_clusters(rows.toarray(), 5)
    np.testing.assert_allclose(score, dense_score, atol=1e-6)
    assert share_found(found, wanted) > 0.9
    assert share_found(dense, wanted) > 0.9


def test_many_equal_rows_do_not_make_one_huge_cluster(monkeypatch, rng):
    rows = np.repeat(normalize(rng.standard_normal((2, 4))), 3000, axis=0)
    largest, left_matmul = [], DenseRows.left_matmul
    monkeypatch.setattr(
        DenseRows,
        "left_matmul",
        lambda self, left: largest.append(len(left)) or left_matmul(self, left),
    )
    _, score = search_clusters(rows, 5)
    np.testing.assert_allclose(score, 1, atol=1e-6)
    assert max(largest) <= clusters._MAX_RELATIVE_SIZE * clusters.ROWS_PER_CLUSTER + 1
    assert sum(largest) == 6000


# k-means


def test_many_centres_in_two_steps_are_nearly_those_of_one_by_one(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    points = torch.nn.functional.normalize(torch.randn(3000, 8, generator=generator))
    some = points[:400].clone()
    exact = clusters.compare_all_centres(points, some)
    found = clusters.nearest_centre(points, some)  # 400 are more than are taken one by one
    lost = (points * some[exact]).sum(1) - (points * some[found]).sum(1)
    assert (found == exact).float().mean() > 0.75  # directions without any clusters: the worst
    assert lost.min() >= -1e-6 and lost.mean() < 0.02
    monkeypatch.setattr(clusters, "_MAX_FLAT_CENTRES", 400)
    assert torch.equal(clusters.nearest_centre(points, some), exact)
