"""Time and accuracy of fits by two commits of the library."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import glnn
from glnn._utils import check_choice, check_integer
from glnn.data import NodeData, Split, load_dataset
from glnn.data.datasets import DATASETS
from glnn.data.files import quote_path
from glnn.data.npz import write_npz
from glnn.exceptions import InputError
from glnn_lab.benches.compare import TINY, load_bench
from glnn_lab.experiments.datasets import standard_split
from glnn_lab.experiments.machine import machine_facts, software_versions
from glnn_lab.experiments.splits import make_split

PRESETS = ("default", "paper")
SIDES = ("before", "after")
_CHILD = Path(__file__).with_name("revision_child.py")


class Revision:
    """A process that fits with the package ``glnn`` in the folder ``source``."""

    def __init__(self, source: Path, threads: int) -> None:
        if not (source / "glnn" / "__init__.py").is_file():
            raise InputError(
                f"{quote_path(source)} must hold the package glnn, got none. Give a checkout of "
                "another commit: git worktree add FOLDER COMMIT."
            )
        number = str(threads)
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number},
        )
        with ExitStack() as stack:
            stack.push(self)  # close the process if a check fails
            answers = Path(self._read_answer()["library"])
            if source.resolve() not in answers.resolve().parents:
                raise InputError(f"{quote_path(source)} must answer, got {quote_path(answers)}.")
            stack.pop_all()

    def __enter__(self) -> "Revision":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        with self._process:  # the context closes its pipes
            self._process.kill()

    def fit(self, data: Path, preset: str, seed: int) -> dict[str, Any]:
        """Fit once; return time, epochs and accuracy, or ``{"error": ...}``."""
        assert self._process.stdin is not None
        asked = json.dumps({"data": str(data), "preset": preset, "seed": seed})
        self._process.stdin.write(asked + "\n")
        self._process.stdin.flush()
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise InputError("the other library must answer, got an end. Does it import?")
        answer: dict[str, Any] = json.loads(line)
        return answer


def run_revisions(
    before: Path,
    *,
    datasets: Sequence[str],
    presets: Sequence[str] = PRESETS,
    seeds: Sequence[int],
    threads: int,
    watch: Callable[[str], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit each data set with each preset and seed by both commits in turn.

    ``before`` is a checkout of another commit, or its folder ``src``. The split of a data set
    without a published one depends on the seed.
    """
    for name in datasets:
        check_choice("dataset", name, (*DATASETS, TINY))
    for preset in presets:
        check_choice("preset", preset, PRESETS)
    check_integer("seeds", len(seeds), low=1)
    check_integer("threads", threads, low=1)
    source = before / "src" if (before / "src" / "glnn").is_dir() else before
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "threads": threads,
        "seeds": list(seeds),
        "machine": machine_facts(),
        "versions": software_versions(),
        "rows": rows,
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = (source, Path(glnn.__file__).parent.parent)
        sides = [stack.enter_context(Revision(tree, threads)) for tree in trees]
        _fit_both(sides, _store_arrays(TINY, 0, folder), "default", 0)  # imports are not timed
        for name, preset in product(datasets, presets):
            for seed in seeds:
                if watch is not None:
                    watch(f"{name}, {preset}, seed {seed}")
                found = _fit_both(sides, _store_arrays(name, seed, folder), preset, seed)
                rows.append({"dataset": name, "preset": preset, "seed": seed, **found})
            result["summary"] = summarize(rows)
            if keep is not None:
                keep(result)
    return result


def _fit_both(sides: Sequence[Revision], data: Path, preset: str, seed: int) -> dict[str, Any]:
    """Fit with both commits; the order alternates with the seed."""
    order = (0, 1) if seed % 2 else (1, 0)
    found = {SIDES[k]: sides[k].fit(data, preset, seed) for k in order}
    for side, answer in found.items():
        if "error" in answer:
            raise InputError(f"the library {side} must fit, got {answer['error']}")
    return found


def _load(name: str, seed: int) -> tuple[NodeData, Split]:
    if name == TINY:
        return load_bench(TINY)
    data = load_dataset(name)
    split, options = standard_split(name)
    return data, make_split(data, split, seed, **options)


def _store_arrays(name: str, seed: int, folder: Path) -> Path:
    """Write the arrays of a fit to a file for both commits."""
    data, split = _load(name, seed)
    if data.graph is None:
        raise InputError(f"revisions are compared on data with a graph, got {name}.")
    arrays = {"labels": data.labels, "train": split.train, "val": split.val, "test": split.test}
    for key, matrix in (("features", data.features), ("graph", data.graph)):
        for part in ("data", "indices", "indptr"):
            arrays[f"{key}_{part}"] = getattr(matrix, part)
        arrays[f"{key}_shape"] = np.array(matrix.shape)
    path = folder / f"{name}-{seed}.npz"
    write_npz(path, arrays)
    return path


def summarize(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return median ratios of time and mean accuracies for each data set and preset.

    ``error`` is the standard error of the difference of accuracies, paired by seed.
    """
    found = []
    for name, preset in dict.fromkeys((row["dataset"], row["preset"]) for row in rows):
        mine = [row for row in rows if (row["dataset"], row["preset"]) == (name, preset)]
        numbers = {
            key: np.array([[row[side][key] for side in SIDES] for row in mine])
            for key in ("seconds", "cpu_seconds", "accuracy")
        }
        ahead = np.diff(numbers["accuracy"], axis=1).ravel()
        error = float(ahead.std(ddof=1) / np.sqrt(len(ahead))) if len(ahead) > 1 else None
        found.append(
            {
                "dataset": name,
                "preset": preset,
                "runs": len(mine),
                **{f"{key}_ratio": _ratio(numbers[key]) for key in ("seconds", "cpu_seconds")},
                **{side: float(numbers["accuracy"][:, k].mean()) for k, side in enumerate(SIDES)},
                "difference": float(ahead.mean()),
                "error": error,
            }
        )
    return found


def _ratio(pairs: np.ndarray) -> float:
    return float(np.median(pairs[:, 1] / pairs[:, 0]))
