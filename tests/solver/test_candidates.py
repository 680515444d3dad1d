import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

from glnn.distributed import Partition
from glnn.graph.pairs import ShardedRows, as_sharded_rows
from glnn.graph.rows import as_row_matrix
from glnn.solver import candidates
from glnn.solver.candidates import BestEntries, nearest_pairs

# Searches


every_search = pytest.mark.parametrize("exact_up_to", [0, 10**9], ids=["clusters", "exact"])


def nearest(signal, k, device="cpu"):
    rows = as_sharded_rows(as_row_matrix(signal, device=device))
    return tuple(part.cpu().numpy() for part in nearest_pairs(rows, k))


def by_sorting(signal, k):
    product = signal @ signal.T
    np.fill_diagonal(product, -np.inf)
    order = np.argsort(-product, axis=1)[:, :k]
    return {(i, j) for i in range(len(signal)) for j in order[i] if product[i, j] > 0}


@every_search
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("k", [1, 5])
def test_neighbours_are_those_of_a_full_sort(exact_up_to, sparse, k, rng, monkeypatch):
    monkeypatch.setattr(candidates, "EXACT_UP_TO", exact_up_to)
    signal = normalize(rng.standard_normal((60, 7)))
    i, j = nearest(sp.csr_matrix(signal) if sparse else signal, k)
    assert set(zip(i, j)) == by_sorting(signal, k)


@pytest.mark.slow
def test_recall_on_50_000_rows_with_realistic_features():
    rng, width = np.random.default_rng(0), 128  # clouds that differ along the widest directions
    lead = np.where(np.arange(width) < 16, np.arange(1, width + 1) ** -0.25, 0.0)
    centres = rng.standard_normal((40, width)) * lead * 4.6 / np.sqrt(2 * (lead**2).sum())
    noise = rng.standard_normal((50_000, width), dtype=np.float32)
    clouds = centres[rng.integers(40, size=50_000)] + noise
    signal = normalize(clouds * np.arange(1, width + 1) ** -0.5)
    i, j = nearest(signal, 20)
    rows = np.arange(0, 50_000, 250)
    product = signal[rows] @ signal.T
    product[np.arange(rows.size), rows] = -np.inf
    best = np.argpartition(-product, 20, axis=1)[:, :20]
    hits = [np.isin(j[i == row], found).sum() for row, found in zip(rows, best)]
    assert np.sum(hits) >= 0.93 * best.size


@pytest.mark.parametrize("block_bytes", [256, 1024])
def test_ties_are_broken_alike_however_the_rows_are_cut(block_bytes, monkeypatch):
    words = (np.random.default_rng(5).random((90, 6)) < 0.4).astype(np.float64)
    expected = nearest(words, 5)
    monkeypatch.setattr("glnn.graph.rows.BLOCK_BYTES", block_bytes)
    assert set(zip(*nearest(words, 5))) == set(zip(*expected))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@every_search
@pytest.mark.parametrize("sparse", [True, False])
def test_neighbours_found_on_the_gpu_are_those_of_the_host(exact_up_to, sparse, rng, monkeypatch):
    monkeypatch.setattr(candidates, "EXACT_UP_TO", exact_up_to)
    signal = normalize(rng.standard_normal((700, 24)) * (rng.random((700, 24)) < 0.4))
    signal = sp.csr_matrix(signal) if sparse else signal
    here, there = (nearest(signal, 6, device) for device in ("cpu", "cuda"))
    both = set(zip(*here)) & set(zip(*there))
    assert len(both) > 0.999 * len(here[0])  # rounding may swap two neighbours
    assert len(there[0]) == len(here[0])


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("sparse", [True, False])
def test_any_number_of_processes_finds_the_same_even_where_rows_are_level(size, sparse, together):
    words = normalize((np.random.default_rng(5).random((150, 9)) < 0.4).astype(np.float64))
    given = sp.csr_matrix(words) if sparse else words
    expected = set(zip(*nearest(given, 5)))

    def work(peers):
        part = Partition(150, peers)
        rows = ShardedRows(as_row_matrix(given[part.rows]), part)
        return nearest_pairs(rows, 5)

    found = together(size, work)
    pairs = {(int(a), int(b)) for i, j in found for a, b in zip(i, j)}
    assert pairs == expected


# Row-wise top-k


@pytest.mark.parametrize("width", [1, 2, 7, 30])
@pytest.mark.parametrize("k", [1, 4])
def test_the_best_do_not_depend_on_the_width_of_the_tiles(width, k):
    whole = torch.randint(1, 4, (20, 30), generator=torch.Generator().manual_seed(0)).float()
    expected, best = (BestEntries(20, k, 0, torch.device("cpu")) for _ in range(2))
    expected.merge_tile(whole, 0, 0)
    for first in range(0, 30, width):
        best.merge_tile(whole[:, first : first + width], 0, first)
    assert torch.equal(best.values, expected.values)
    assert torch.equal(best.columns, expected.columns)
    assert torch.equal(whole.gather(1, best.columns), best.values)
    assert torch.equal(best.values, whole.sort(dim=1, descending=True).values[:, :k])
