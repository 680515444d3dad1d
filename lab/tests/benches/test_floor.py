import numpy as np
import scipy.sparse as sp

from glnn_lab.benches.floor import run_floor, sparse_products


def test_operations_are_those_of_the_matrices(rng):
    features = sp.random(30, 12, density=0.2, random_state=0)
    first = sparse_products(30, 50, 12, features.nnz, 4)[0]
    assert first["operations"] == 2 * features.nnz * 16
    dense = np.ones((12, 16), np.float32)
    moved = features.nnz * 12 + 31 * 8 + dense.nbytes + 30 * 16 * 4
    assert first["bytes"] == moved


def test_three_passes_are_counted_and_an_epoch_is_above_the_floor():
    found = run_floor("tiny", threads=1)
    assert found["bytes"] == 3 * sum(p["bytes"] for p in found["products"])
    assert found["operations"] == 3 * sum(p["operations"] for p in found["products"])
    assert 0 < found["floor_seconds"] < found["epoch_seconds"]
