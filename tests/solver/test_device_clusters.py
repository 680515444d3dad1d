import numpy as np
import pytest
import torch
from sklearn.preprocessing import normalize

from glnn.solver import clusters
from glnn.solver.clusters import clustered_nearest
from glnn.solver.device_clusters import nearest_in_clusters


def test_rows_are_compared_with_those_of_near_clusters_alone():
    rows = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 0.2], [0.1, 1.0]])
    starts = torch.tensor([0, 2, 2, 4, 5])  # the second cluster is empty
    near = torch.tensor([[0, 2], [1, 0], [3, 2], [3, 1]])
    found, score = nearest_in_clusters(rows, starts, near, 2)
    products = (rows @ rows.T).fill_diagonal_(-torch.inf)
    seen = torch.tensor(
        [
            [1, 1, 1, 1, 0],
            [1, 1, 1, 1, 0],
            [0, 0, 1, 1, 1],
            [0, 0, 1, 1, 1],
            [0, 0, 0, 0, 1],  # sees itself alone
        ]
    ).bool()
    best, place = products.masked_fill(~seen, -torch.inf).topk(2, dim=1)
    assert torch.equal(score, best)
    filled = best > -torch.inf
    assert torch.equal(found[filled], place[filled])


@pytest.mark.parametrize("width", [6, 200])
def test_the_answer_is_that_of_the_host(width, rng):
    rows = normalize(rng.standard_normal((2500, width)))
    rows[::7] = 0
    taking_part = np.flatnonzero(rows.any(1))
    single = rows.astype(np.float32)
    found, score = clusters._on_device(single[taking_part], taking_part, 8, "cpu", 0)
    expected, expected_score = clustered_nearest(rows, 8)
    assert np.allclose(score, expected_score[taking_part], atol=1e-6)
    assert (found == expected[taking_part]).mean() > 0.999


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_clusters_on_the_gpu_find_what_is_found_here(rng):
    rows = normalize(rng.standard_normal((5000, 20)))
    here, there = (clustered_nearest(rows, 8, device=device) for device in ("cpu", "cuda"))
    assert np.isin(there[0], here[0]).mean() > 0.9
    products = np.einsum("nd,nkd->nk", rows, rows[there[0]])
    assert np.allclose(there[1], products, atol=1e-5)
