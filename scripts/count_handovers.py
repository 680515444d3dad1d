"""Count how often a fit passes from one file of the library to another.

    python scripts/count_handovers.py

A hand-over is a pair of files, the first of which calls a function of the second; each pair counts
once. Two fits of 60 rows are traced: ``GLNNClassifier().fit(X, y, graph=A)``, and ``glnn fit`` with
a table and a graph. Imports do not count.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import glnn

ROOT = str(Path(glnn.__file__).parent) + os.sep


def trace(job: Callable[[], object]) -> set[tuple[str, str]]:
    """Return the pairs of files between which a job passes."""
    found: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_back is None or frame.f_code.co_name == "<module>":
            return
        caller, called = frame.f_back.f_code.co_filename, frame.f_code.co_filename
        if caller != called and caller.startswith(ROOT) and called.startswith(ROOT):
            found.add((caller.removeprefix(ROOT), called.removeprefix(ROOT)))

    sys.setprofile(watch)
    try:
        job()
    finally:
        sys.setprofile(None)
    return found


def make_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels (-1: none) and a graph of 60 rows in two classes."""
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    features = rng.normal(size=(60, 5)) + 2 * classes[:, None]
    graph = np.triu(rng.random((60, 60)) < 0.1, 1) & (classes[:, None] == classes)
    return features, np.where(np.arange(60) < 30, classes, -1), (graph | graph.T).astype(float)


def run_command(folder: Path) -> None:
    """Run ``glnn fit`` on a table and an edge list of the same data."""
    from glnn.cli.main import main

    features, labels, graph = make_data()
    rows = ["id,a,b,c,d,e,job"]
    for i, (row, label) in enumerate(zip(features, labels)):
        rows.append(",".join([f"p{i}", *map(str, row), "" if label < 0 else f"job {label}"]))
    (folder / "people.csv").write_text("\n".join(rows))
    edges = [f"p{i},p{j}" for i, j in zip(*np.nonzero(np.triu(graph)))]
    (folder / "friends.csv").write_text("\n".join(["from,to", *edges]))
    arguments = ["fit", str(folder / "people.csv"), "--label", "job"]
    arguments += ["--graph", str(folder / "friends.csv"), "--out", str(folder / "run")]
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing):
        main(arguments)


def main_script() -> None:
    """Print the two numbers, and with --verbose the pairs."""
    features, labels, graph = make_data()
    with tempfile.TemporaryDirectory() as folder:
        jobs: dict[str, Callable[[], object]] = {
            "GLNNClassifier().fit(X, y, graph=A)": lambda: glnn.GLNNClassifier().fit(
                features, labels, graph=graph
            ),
            "glnn fit people.csv --label job --graph friends.csv": lambda: run_command(
                Path(folder)
            ),
        }
        for name, job in jobs.items():
            found = trace(job)
            print(f"{len(found):4} {name}")
            if "--verbose" in sys.argv:
                print(*(f"       {a} -> {b}" for a, b in sorted(found)), sep="\n")


if __name__ == "__main__":
    main_script()
