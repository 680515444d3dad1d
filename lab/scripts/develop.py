"""Accuracy of methods while settings are chosen: cases by a short text, seeds below 200.

    python lab/scripts/develop.py cora pubmed/no-validation --seeds 100-109 --jobs 2
    python lab/scripts/develop.py cora/n_per_class=3 cora/poison=0.15 --methods glnn,gcn

A case is a data set with conditions: ``no-validation`` (the validation labels stay hidden),
``no-graph``, ``poison=SHARE``, ``n_per_class=K`` (a random draw with 500 validation nodes). Prints
mean, deviation and lowest accuracy on the nodes to choose by, seconds, and the mean lead of the
first method over each other one with its standard error. The nodes to choose by are those that are
neither for training nor for validation nor for testing; the test nodes where there are no others.
"""

import argparse
import dataclasses
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from glnn.data import NodeData, Split
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import load_cell, standard_split
from glnn_lab.experiments.machine import use_threads
from glnn_lab.experiments.methods import get_method


def main() -> None:
    """Run every method on every case and seed, and print a line for each pair of the former."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--methods", default="glnn")
    parser.add_argument("--seeds", default="100-109", help="first and last; below 200")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="of our methods")
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    if not 0 <= first <= last < 200:
        parser.error("seeds must lie below 200: later ones are for reported results.")
    methods, seeds = options.methods.split(","), range(first, last + 1)
    runs = [(case, m, s) for case in options.cases for s in seeds for m in methods]
    found = dict(
        zip(
            runs,
            Parallel(n_jobs=options.jobs)(
                delayed(run)(case, method, seed, options.device) for case, method, seed in runs
            ),
        )
    )
    for case in options.cases:
        best = np.array([found[case, methods[0], seed][0] for seed in seeds])
        for method in methods:
            each = np.array([found[case, method, seed] for seed in seeds])
            text = describe(each[:, 0], best - each[:, 0])
            print(f"{case:32} {method:20} {text}, {each[:, 1].mean():.1f} s", flush=True)


def run(case: str, method: str, seed: int, device: str) -> tuple[float, float]:
    """Return the accuracy in percent on the nodes to choose by, and the seconds of the fit."""
    cell, has_validation = parse(case, method, seed)
    settings: dict[str, Any] = {"device": device} if method.startswith("glnn") else {}
    with use_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, split = load_cell(cell)
        if not has_validation:
            split = dataclasses.replace(split, val=np.empty(0, np.int64))
        started = time.perf_counter()
        outcome = get_method(method).run(data, split, seed, settings)
        seconds = time.perf_counter() - started
    right = (outcome.classes == data.labels)[nodes_to_choose_by(data, split)]
    return 100 * float(right.mean()), seconds


def nodes_to_choose_by(data: NodeData, split: Split) -> np.ndarray:
    """Return the labelled nodes outside the split, or the test nodes if there are none."""
    used = np.concatenate([split.train, split.val, split.test])
    others = np.setdiff1d(data.labelled, used)
    return others if others.size else split.test


def parse(case: str, method: str, seed: int) -> tuple[Cell, bool]:
    """Return the cell of a case, and whether its validation labels may be seen."""
    dataset, *conditions = case.split("/")
    split, split_options = standard_split(dataset)
    more: dict[str, Any] = {}
    has_validation = True
    for condition in conditions:
        name, _, value = condition.partition("=")
        if name == "no-validation":
            has_validation = False
        elif name == "n_per_class":
            split, split_options = "per_class", {"n_per_class": int(value), "n_val": 500}
        elif name in ("no-graph", "poison"):
            more = {"perturbation": name, "share": float(value or 0)}
        else:
            raise SystemExit(f"{name!r} is no condition of a case; see --help.")
    return Cell(method, dataset, seed, split, split_options, **more), has_validation


def describe(accuracy: np.ndarray, leads: Sequence[float]) -> str:
    """Return mean, deviation, lowest, and the lead of the first method if it is another.

    Examples
    --------
    >>> describe(np.array([80.0, 82.0]), [1.0, 3.0])
    '81.00 ±1.00 lowest 80.0, n = 2, first ahead by 2.00 ±1.00'
    """
    text = f"{accuracy.mean():.2f} ±{accuracy.std():.2f} lowest {accuracy.min():.1f}"
    text += f", n = {len(accuracy)}"
    if not np.any(leads):
        return text
    error = np.std(leads, ddof=1) / np.sqrt(len(leads))
    return f"{text}, first ahead by {np.mean(leads):.2f} ±{error:.2f}"


if __name__ == "__main__":
    main()
