"""Accuracy by number of labels: those that ``suggest_labels`` asks for, and random ones.

    python lab/scripts/label_choice.py cora --seeds 200-209 --out choice.jsonl
    python lab/scripts/label_choice.py --show choice.jsonl

A draw begins with two random labels a class. Then labels are added, up to 20 a class on average,
by suggestion and, in a second run of the same draw, at random; after each step the whole fit runs
again (without calibration, which costs a second fit). Accuracy is that on nodes which are never
labelled: the public test nodes of Cora and Citeseer, 800 random ones of the digits. Lines are
added to the file draw by draw, so a sweep may be run in pieces.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from glnn import GLNNClassifier, NodeData, load_dataset

SIZES = (2, 4, 8, 20)
N_TEST = 800
Choice = Callable[[GLNNClassifier, np.ndarray, int], np.ndarray]


def main() -> None:
    """Run draws, or show what a file holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=[])
    parser.add_argument("--seeds", default="200-209", help="first-last")
    parser.add_argument("--rounds", type=int, default=None, help="of every fit; the preset's")
    parser.add_argument("--out", type=Path, default=Path("choice.jsonl"))
    parser.add_argument("--show", type=Path, default=None)
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    for name in options.datasets:
        data = load_dataset(name)
        for seed in range(first, last + 1):
            found = draw(data, seed, options.rounds)
            record = {"dataset": name, "seed": seed, "rounds": options.rounds, "sizes": SIZES}
            record |= found
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)
    if options.show is not None:
        show(options.show)


def draw(data: NodeData, seed: int, n_rounds: int | None) -> dict[str, list[float]]:
    """Return the accuracies after each step, by suggestion and at random."""
    rng = np.random.default_rng(seed)
    test = data.splits["test"] if data.splits else rng.choice(data.n_nodes, N_TEST, replace=False)
    pool = np.setdiff1d(data.labelled, test)
    of_class = [pool[data.labels[pool] == c] for c in range(data.n_classes)]
    start = np.concatenate([rng.choice(nodes, SIZES[0], replace=False) for nodes in of_class])

    def fitted(labelled: np.ndarray) -> GLNNClassifier:
        y = np.full(data.n_nodes, -1)
        y[labelled] = data.labels[labelled]
        model = GLNNClassifier(random_state=seed, n_rounds=n_rounds, calibrate=None)
        return model.fit(data.features, y, graph=data.graph)

    def curve(choose: Choice) -> list[float]:
        labelled, model = start, first
        accuracy = [measured(data, model, test)]
        for size in SIZES[1:]:
            wanted = size * data.n_classes - len(labelled)
            more = choose(model, np.setdiff1d(pool, labelled), wanted)
            labelled = np.concatenate([labelled, more])
            model = fitted(labelled)
            accuracy.append(measured(data, model, test))
        return accuracy

    first = fitted(start)
    return {
        "suggested": curve(suggested),
        "random": curve(lambda model, may, k: rng.choice(may, k, replace=False)),
    }


def suggested(model: GLNNClassifier, may: np.ndarray, k: int) -> np.ndarray:
    """Return the best suggestions among the nodes that may be labelled."""
    return np.asarray(model.suggest_labels(k, among=may)["node"])


def measured(data: NodeData, model: GLNNClassifier, test: np.ndarray) -> float:
    """Return the accuracy on the test nodes."""
    return float((model.transduction_[test] == data.labels[test]).mean())


def show(path: Path) -> None:
    """Print mean accuracies and the paired difference for each data set."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for name in dict.fromkeys(record["dataset"] for record in records):
        own = [record for record in records if record["dataset"] == name]
        found = {way: np.array([record[way] for record in own]) for way in ("suggested", "random")}
        for way, accuracy in found.items():
            print(f"{name} {way}: {np.round(100 * accuracy.mean(0), 1)}, {len(own)} draws")
        gain = 100 * (found["suggested"] - found["random"])[:, 1:].mean(1)
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        won = int((gain > 0).sum())
        print(f"{name} difference: {gain.mean():.2f} ± {error:.2f}, better in {won} of {len(gain)}")


if __name__ == "__main__":
    main()
