"""Time sparse products on the CPU: by PyTorch's CSR product, and by ``embedding_bag``.

    python lab/scripts/product_bench.py --threads 1

Rows have entries at random columns. A dense product with few columns is timed as written and
transposed. Minimum times of several rounds, in milliseconds.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch

from glnn.graph.rows import CsrMatrix

SIZES = ((2_708, 24), (20_000, 24), (170_000, 24))
WIDTHS = (7, 16, 32, 64)


def least_ms(work: Callable[..., object], *given: object, rounds: int = 7) -> float:
    """Return the minimum time of a call; each round is long enough for the clock."""
    work(*given)
    began = time.perf_counter()
    work(*given)
    calls = max(1, int(0.02 / (time.perf_counter() - began)))
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            work(*given)
        times.append((time.perf_counter() - began) / calls)
    return 1000 * min(times)


def random_rows(n_rows: int, n_entries: int) -> sp.csr_matrix:
    """Return a square matrix with ``n_entries`` entries in each row."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, n_rows, (n_rows, n_entries)), axis=1).ravel()
    offsets = np.arange(0, n_rows * n_entries + 1, n_entries)
    values = rng.random(len(columns), dtype=np.float32)
    return sp.csr_matrix((values, columns, offsets), shape=(n_rows, n_rows))


def main() -> None:
    """Print one line for each size and width, then the dense product."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    for n_rows, n_entries in SIZES:
        matrix = CsrMatrix.from_scipy(random_rows(n_rows, n_entries))
        for width in WIDTHS:
            x = torch.randn(n_rows, width)
            library, bags = (
                least_ms(torch.matmul, matrix.tensor, x),
                least_ms(matrix.spmm, x),
            )
            print(f"{n_rows} rows, {width} columns: library {library:.3f}, bags {bags:.3f}")
    hidden, weight = torch.randn(5_416, 32), torch.randn(32, 7)
    plain, turned = least_ms(torch.mm, hidden, weight), least_ms(torch.mm, weight.T, hidden.T)
    print(f"5416 x 32 by 32 x 7: as written {plain:.3f}, turned {turned:.3f}")


if __name__ == "__main__":
    main()
