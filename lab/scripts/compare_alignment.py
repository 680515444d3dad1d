"""Accuracy with and without aligned targets, on few labels: public draws, and uneven tables.

    python lab/scripts/compare_alignment.py cora/n_per_class=3 uneven/0.1/even --seeds 100-103

Cases are those of ``develop.py``, and ``uneven/SHARE/HOW``: a generated table of 600 rows in two
classes, the smaller of which has this share; eight labels are drawn ``even``, four of each class,
or at ``random``, at least one of each. Accuracy is that on the nodes to choose by.
"""

import argparse
import dataclasses
import warnings

import numpy as np
from develop import describe, nodes_to_choose_by, parse
from joblib import Parallel, delayed

from glnn import GLNNClassifier
from glnn.data import NodeData, Split
from glnn.engine.settings import PRESETS, FitSettings, Track
from glnn_lab.experiments.datasets import load_cell
from glnn_lab.experiments.machine import use_threads
from glnn_lab.experiments.methods import visible_labels


def main() -> None:
    """Run both variants on every case and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--seeds", default="100-103", help="first and last; below 200")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    if not 0 <= first <= last < 200:
        parser.error("seeds must lie below 200: later ones are for reported results.")
    for case in options.cases:
        runs = Parallel(n_jobs=options.jobs)(
            delayed(run)(case, seed) for seed in range(first, last + 1)
        )
        aligned, other = np.array(runs).T
        for name, each in (("aligned", aligned), ("not aligned", other)):
            print(f"{case:36} {name:12} {describe(each, aligned - each)}", flush=True)


def run(case: str, seed: int) -> tuple[float, float]:
    """Return the accuracy in percent with and without aligned targets."""
    if case.startswith("uneven/"):
        _, share, how = case.split("/")
        data, split = make_uneven_table(float(share), how == "even", seed)
    else:
        cell, has_validation = parse(case, "glnn", seed)
        data, split = load_cell(cell)
        if not has_validation:
            split = dataclasses.replace(split, val=np.empty(0, np.int64))
    nodes, default = nodes_to_choose_by(data, split), PRESETS["default"]
    found = []
    for settings in (default, default.map_tracks(switch_off)):
        with use_threads(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit(settings, data, split, seed)
        found.append(100 * float((model.transduction_ == data.labels)[nodes].mean()))
    return found[0], found[1]


def switch_off(track: Track) -> Track:
    """Return a track without aligned targets."""
    return dataclasses.replace(track, head=dataclasses.replace(track.head, alignment=0.0))


def fit(settings: FitSettings, data: NodeData, split: Split, seed: int) -> GLNNClassifier:
    """Return a fit to the labels of a split."""
    model = GLNNClassifier(settings, random_state=seed, calibrate=None)  # type: ignore[arg-type]
    validation = split.val if split.val.size else None
    return model.fit(data.features, visible_labels(data, split), data.graph, validation)


def make_uneven_table(share: float, is_even: bool, seed: int) -> tuple[NodeData, Split]:
    """Return a table of two classes that overlap, and eight labels of it."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(600) < share).astype(np.int64)
    centres = rng.normal(size=(2, 10))
    centres *= 1.9 / np.linalg.norm(centres[0] - centres[1])
    features = centres[labels] + rng.normal(size=(600, 10))
    order = rng.permutation(600)
    of_class = [order[labels[order] == k] for k in (0, 1)]
    if is_even:
        train = np.concatenate([of_class[0][:4], of_class[1][:4]])
    else:
        first = np.array([of_class[0][0], of_class[1][0]])
        train = np.concatenate([first, np.setdiff1d(order, first, assume_unique=True)[:6]])
    test = np.setdiff1d(order, train)
    data = NodeData.from_arrays(features, labels, name="uneven")
    return data, Split(train=train, val=train[:0], test=test, name="uneven", seed=seed)


if __name__ == "__main__":
    main()
