"""Accuracy and log-loss of the default with other values of a setting.

    python lab/scripts/compare_settings.py cora/n_per_class=3 --set correction=0,0.1,0.5
    python lab/scripts/compare_settings.py uneven/0.1/even --set alignment=0 --seeds 100-103

A setting of the heads changes all tracks. Cases are those of ``develop.py``, and
``uneven/SHARE/HOW``: a generated table of 600 rows in two classes, the smaller of which has this
share; eight labels are drawn ``even``, four of each class, or at ``random``, at least one of each.
Measured on the nodes to choose by.
"""

import argparse
import dataclasses
import warnings

import numpy as np
from develop import describe, nodes_to_choose_by, parse
from joblib import Parallel, delayed

from glnn import GLNNClassifier
from glnn.data import NodeData, Split
from glnn.engine.settings import PRESETS, FitSettings, HeadSettings, Track, field_names
from glnn_lab.experiments.datasets import load_cell
from glnn_lab.experiments.machine import use_threads
from glnn_lab.experiments.methods import visible_labels


def main() -> None:
    """Run the default and its variants on every case and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--set", required=True, metavar="NAME=VALUE,VALUE", help="a number each")
    parser.add_argument("--seeds", default="100-103", help="first and last; below 200")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    if not 0 <= first <= last < 200:
        parser.error("seeds must lie below 200: later ones are for reported results.")
    name, _, values = options.set.partition("=")
    variants = {"default": PRESETS["default"]}
    variants |= {
        f"{name}={v}": change(PRESETS["default"], name, float(v)) for v in values.split(",")
    }
    for case in options.cases:
        runs = Parallel(n_jobs=options.jobs)(
            delayed(run)(case, seed, list(variants.values())) for seed in range(first, last + 1)
        )
        accuracy, loss = np.moveaxis(np.array(runs), 0, -1)
        for number, title in enumerate(variants):
            text = describe(accuracy[number], accuracy[0] - accuracy[number])
            print(f"{case:28} {title:16} {text}, log-loss {loss[number].mean():.3f}", flush=True)


def run(case: str, seed: int, variants: list[FitSettings]) -> list[list[float]]:
    """Return the accuracies in percent of some settings, and their log-losses."""
    if case.startswith("uneven/"):
        _, share, how = case.split("/")
        data, split = make_uneven_table(float(share), how == "even", seed)
    else:
        cell, has_validation = parse(case, "glnn", seed)
        data, split = load_cell(cell)
        if not has_validation:
            split = dataclasses.replace(split, val=np.empty(0, np.int64))
    nodes = nodes_to_choose_by(data, split)
    found = []
    for settings in variants:
        with use_threads(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probabilities = fit(settings, data, split, seed).label_distributions_[nodes]
        classes = data.labels[nodes]
        own = np.maximum(probabilities[np.arange(len(nodes)), classes], 1e-12)
        right = probabilities.argmax(1) == classes
        found.append([100 * float(right.mean()), float(-np.log(own).mean())])
    return [list(each) for each in zip(*found)]


def change(settings: FitSettings, name: str, value: float) -> FitSettings:
    """Return settings with another value of one, in all tracks if it is one of the heads."""
    if name not in field_names(HeadSettings):
        return settings.replace_setting(name, value)

    def change_track(track: Track) -> Track:
        return dataclasses.replace(track, head=dataclasses.replace(track.head, **{name: value}))

    return settings.map_tracks(change_track)


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
