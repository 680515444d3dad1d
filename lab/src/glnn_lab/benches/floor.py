"""A lower bound on the time of an epoch: bytes and operations of its sparse products."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from glnn_lab.benches.child import time_call
from glnn_lab.benches.compare import load_bench
from glnn_lab.benches.contenders import engine_gcn
from glnn_lab.experiments.machine import machine_facts, software_versions, use_threads

_HIDDEN = 16
_VALUE, _INDEX = 4, 8  # bytes of a float32 and of an int64, as stored
_PASSES = {"training, forward": 1, "training, backward": 1, "evaluation": 1}
_N_EPOCHS = 100


def sparse_products(
    n_nodes: int, n_edges: int, n_features: int, n_stored: int, n_classes: int
) -> list[dict[str, Any]]:
    """Return the sparse products of one pass of a two-layer GCN, each with its cost.

    A product of a matrix with z stored values and a dense one of width h takes 2·z·h operations.
    It reads the stored values with their columns and the row starts, reads the dense matrix at
    least once, and writes the result once.

    Examples
    --------
    >>> [p["operations"] for p in sparse_products(10, 20, 5, 25, 3)]
    [800, 1600, 300]
    """
    n_links = 2 * n_edges + n_nodes  # both directions, and a loop at each node
    shapes = (
        ("features × weights", n_stored, n_features, _HIDDEN),
        ("graph × hidden", n_links, n_nodes, _HIDDEN),
        ("graph × logits", n_links, n_nodes, n_classes),
    )
    return [
        {
            "product": name,
            "stored": stored,
            "width": width,
            "operations": 2 * stored * width,
            "bytes": stored * (_VALUE + _INDEX)
            + (n_nodes + 1) * _INDEX
            + (inner + n_nodes) * width * _VALUE,
        }
        for name, stored, inner, width in shapes
    ]


def run_floor(
    dataset: str, *, threads: int, watch: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Count the cost of an epoch of a plain GCN, and measure bandwidth and epoch time."""
    if watch is not None:
        watch(f"{dataset}: counting, and {_N_EPOCHS} epochs")
    data, split = load_bench(dataset)
    products = sparse_products(
        data.n_nodes, data.n_edges, data.n_features, int(data.features.nnz), data.n_classes
    )
    with use_threads(threads):
        engine_gcn(data, split, 0, 2)
        _, short = time_call(lambda: engine_gcn(data, split, 0, 1))
        _, long = time_call(lambda: engine_gcn(data, split, 0, _N_EPOCHS + 1))
        bandwidth = _bandwidth()
    n_passes = len(_PASSES)  # a backward pass has the same products, transposed
    n_bytes = n_passes * sum(p["bytes"] for p in products)
    n_operations = n_passes * sum(p["operations"] for p in products)
    epoch = (long.seconds - short.seconds) / _N_EPOCHS
    return {
        "dataset": dataset,
        "threads": threads,
        "products": products,
        "passes": list(_PASSES),
        "bytes": n_bytes,
        "operations": n_operations,
        "bandwidth": bandwidth,
        "floor_seconds": n_bytes / bandwidth,
        "epoch_seconds": epoch,
        "machine": machine_facts(),
        "versions": software_versions(),
    }


def _bandwidth(n_bytes: int = 2**27, n_tries: int = 5) -> float:
    """Return the bytes per second that a copy reads and writes, the best of several tries."""
    source = np.ones(n_bytes // 8)
    target = np.empty_like(source)
    best = float("inf")
    for _ in range(n_tries):
        began = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - began)
    return 2 * n_bytes / best
