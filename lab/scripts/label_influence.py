"""How well the influence of labels is estimated, against really leaving them out.

    python lab/scripts/label_influence.py block --seeds 8 --out influence.npz

Fits with all labels and without each of them, for several seeds, and compares the change of the
probability of the label's own class at every unlabelled node with the estimate that one fit gives
(``clf.explain(node).voices``). Printed is the rank correlation over the labels of a node, mean over
the nodes; beside it, how well the changes of one half of the seeds predict those of the other half,
which no estimate can surpass by much.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_digits, load_iris

from glnn import GLNNClassifier, NodeData
from glnn.data.synthetic import block_model


def main() -> None:
    """Measure one data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=SETS)
    parser.add_argument("--labels", type=int, default=2, help="labels a class")
    parser.add_argument("--draw", type=int, default=200, help="number of the draw")
    parser.add_argument("--seeds", type=int, default=8, help="fits with and without each label")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--out", type=Path, default=None, help="keep all effects here")
    options = parser.parse_args()
    data = SETS[options.dataset](options.draw)
    rng = np.random.default_rng(options.draw)
    of_class = [np.flatnonzero(data.labels == c) for c in range(data.n_classes)]
    labelled = np.sort(
        np.concatenate([rng.choice(nodes, options.labels, replace=False) for nodes in of_class])
    )
    effects = np.stack(
        [effects_of(data, labelled, s, options.preset) for s in range(options.seeds)]
    )
    estimate = estimated(data, labelled, options.preset)
    if options.out is not None:
        np.savez(options.out, effects=effects, estimate=estimate, labelled=labelled)
    nodes = np.setdiff1d(np.arange(data.n_nodes), labelled)
    half = options.seeds // 2
    halves = correlation(effects[:half].mean(0), effects[half:].mean(0), nodes)
    found = correlation(estimate, effects.mean(0), nodes)
    print(
        f"{options.dataset} {options.preset}, draw {options.draw}, {len(labelled)} labels, "
        f"{options.seeds} seeds: estimate {found:.2f}, half against half {halves:.2f}"
    )


def fitted(data: NodeData, labelled: np.ndarray, seed: int, preset: str) -> GLNNClassifier:
    """Fit to the labels of some nodes; probabilities stay as they are."""
    y = np.full(data.n_nodes, -1)
    y[labelled] = data.labels[labelled]
    model = GLNNClassifier(preset, calibrate=None, random_state=seed)
    return model.fit(data.features, y, graph=data.graph)


def effects_of(data: NodeData, labelled: np.ndarray, seed: int, preset: str) -> np.ndarray:
    """Return labels x nodes: what each label adds to the probability of its own class."""
    whole = fitted(data, labelled, seed, preset).label_distributions_
    rows = []
    for place, node in enumerate(labelled):
        without = fitted(data, np.delete(labelled, place), seed, preset).label_distributions_
        rows.append((whole - without)[:, data.labels[node]])
    return np.stack(rows)


def estimated(data: NodeData, labelled: np.ndarray, preset: str) -> np.ndarray:
    """Return the same as one fit estimates it."""
    model = fitted(data, labelled, 0, preset)
    effects = np.zeros((len(labelled), data.n_nodes))
    for node in range(data.n_nodes):
        for voice in model.explain(node, n_links=0, n_labels=len(labelled)).voices:
            effects[np.searchsorted(labelled, voice.node), node] = voice.effect
    return effects


def correlation(first: np.ndarray, second: np.ndarray, nodes: np.ndarray) -> float:
    """Return the mean over nodes of the rank correlation over labels."""
    return float(np.mean([spearmanr(first[:, i], second[:, i])[0] for i in nodes]))


def _block(draw: int) -> NodeData:
    return block_model(120, 3, degree=6, n_features=10, seed=draw)


def _digits(draw: int) -> NodeData:
    return _sample(*load_digits(return_X_y=True), draw)


def _iris(draw: int) -> NodeData:
    return _sample(*load_iris(return_X_y=True), draw)


def _sample(features: np.ndarray, labels: np.ndarray, draw: int) -> NodeData:
    """Return at most 200 rows."""
    n_rows = min(200, len(labels))
    rows = np.random.default_rng(draw).choice(len(labels), n_rows, replace=False)
    names = tuple(str(c) for c in np.unique(labels))
    return NodeData(features[rows], labels[rows], None, names)


SETS = {"block": _block, "digits": _digits, "iris": _iris}

if __name__ == "__main__":
    main()
