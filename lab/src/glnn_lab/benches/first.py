"""Time of ``glnn fit`` as a newcomer sees it: a CSV file, one command, a report."""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from glnn._utils import check_integer
from glnn.exceptions import InputError
from glnn_lab.experiments.machine import machine_facts, software_versions

SIZES = (1_000, 5_000, 20_000)
N_COLUMNS, N_LABELS, N_CLASSES = 20, 100, 3
N_BUSY = 2


def draw_clusters(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of numbers in overlapping clusters, and the cluster of each."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, N_CLASSES, n_rows)
    centres = rng.normal(size=(N_CLASSES, N_COLUMNS))
    return centres[kind] + 1.5 * rng.normal(size=(n_rows, N_COLUMNS)), kind


def write_table(path: Path, n_rows: int, seed: int = 0) -> None:
    """Write a table of numbers in overlapping clusters, with a label in some rows."""
    numbers, kind = draw_clusters(n_rows, seed)
    frame = pd.DataFrame(numbers.round(4), columns=[f"x{k}" for k in range(N_COLUMNS)])
    frame["kind"] = np.where(np.arange(n_rows) < N_LABELS, np.array(list("abc"))[kind], "")
    frame.to_csv(path, index_label="id")


def time_command(table: Path, threads: int | None, epochs: int | None) -> dict[str, Any]:
    """Run ``glnn fit`` on a table in a new process; ``None`` threads: as many as it chooses."""
    command = [sys.executable, "-m", "glnn", "fit", str(table), "--label", "kind", "--quiet"]
    command += ["--overwrite", "--out", str(table.with_suffix(""))]
    command += [] if threads is None else ["--threads", str(threads)]
    command += [] if epochs is None else ["--epochs", str(epochs)]
    limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    clean = {name: value for name, value in os.environ.items() if name not in limits}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=clean)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return {"error": (done.stderr.strip() or "no answer").splitlines()[-1][:300]}
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 2), "cpu_seconds": round(used, 2)}


@contextlib.contextmanager
def keep_busy(n_processes: int) -> Iterator[None]:
    """Run processes that only compute until the end of the block."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(n_processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run_first(
    sizes: Sequence[int] = SIZES,
    *,
    n_busy: int = N_BUSY,
    n_epochs: int | None = None,
    watch: Callable[[str], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Time each size with the default threads and with one, alone and beside busy processes."""
    if not sizes:
        raise InputError("a bench of first fits must have sizes, got none.")
    for size in sizes:
        check_integer("sizes", size, low=2 * N_LABELS)
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "n_columns": N_COLUMNS,
        "n_labels": N_LABELS,
        "n_epochs": n_epochs,
        "machine": machine_facts(),
        "versions": software_versions(),
        "rows": rows,
    }
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            table = Path(folder) / f"rows{size}.csv"
            write_table(table, size)
            for busy in dict.fromkeys((0, n_busy)):
                for threads in (None, 1):
                    if watch is not None:
                        watch(f"{size:,} rows, {threads or 'default'} threads, {busy} busy")
                    with keep_busy(busy):
                        found = time_command(table, threads, n_epochs)
                    rows.append({"n_rows": size, "threads": threads, "busy": busy, **found})
                    if keep is not None:
                        keep(result)
    return result
