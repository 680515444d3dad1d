"""Choose settings of the baselines on the validation nodes.

    python lab/scripts/choose_baseline_settings.py gwnn monet --datasets cora,citeseer --seeds 3

For each setting of a method's grid: accuracy and loss on the validation nodes of the public
splits, mean over the seeds. The labels of the test nodes are never used.
"""

import argparse
import dataclasses
import itertools

import numpy as np

from glnn.data import load_dataset
from glnn_lab.baselines import BASELINES, NodeProblem

GRIDS = {
    "gwnn": {"weight_decay": (5e-4, 1e-3, 2e-3, 5e-3, 1e-2)},
    "monet": {"aggregation": ("add", "mean")},
    "planetoid": {
        "weight_decay": (5e-4, 1e-3, 5e-3),
        "embedding_decay": (5e-3, 5e-2),
        "n_walks": (200, 500),
    },
    "longae": {"weight_decay": (0.0, 1e-4), "dropout": (0.5, 0.8), "n_epochs": (2000, 4300, 5200)},
}


def main() -> None:
    """Print a line for each setting, then the one with the highest validation accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=list(GRIDS), help="of the grids")
    parser.add_argument("--datasets", default="cora,citeseer")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    problems = {name: visible_problem(name) for name in options.datasets.split(",")}
    for name in options.methods:
        grid = GRIDS[name]
        rows = []
        for values in itertools.product(*grid.values()):
            changes = dict(zip(grid, values, strict=True))
            scores = {
                dataset: validation_scores(name, changes, problem, options.seeds)
                for dataset, problem in problems.items()
            }
            rows.append((np.mean([s[0] for s in scores.values()]), changes))
            shown = "  ".join(f"{d} {a:5.1f} loss {v:.3f}" for d, (a, v) in scores.items())
            print(f"{name} {changes}: {shown}", flush=True)
        accuracy, best = max(rows, key=lambda row: row[0])
        print(f"{name}: chosen {best}, mean validation accuracy {accuracy:.1f}")


def visible_problem(name: str) -> NodeProblem:
    """Return the public split of a data set, without the labels of its test nodes."""
    data = load_dataset(name)
    train, validation = data.splits["train"], data.splits["val"]
    return NodeProblem(data.features, data.graph, data.labels, train, validation, data.n_classes)


def validation_scores(
    name: str, changes: dict[str, float | str], problem: NodeProblem, n_seeds: int
) -> tuple[float, float]:
    """Return accuracy in % and mean loss on the validation nodes, mean over the seeds."""
    method = BASELINES[name]
    changed = dataclasses.replace(method, settings=dataclasses.replace(method.settings, **changes))
    nodes, truth = problem.validation, problem.labels[problem.validation]
    found = []
    for seed in range(n_seeds):
        of_truth = changed.fit_predict(problem, seed).probabilities[nodes]
        right = (of_truth.argmax(1) == truth).mean()
        loss = -np.log(np.maximum(of_truth[np.arange(nodes.size), truth], 1e-12)).mean()
        found.append((100 * right, loss))
    accuracy, loss = np.mean(found, axis=0)
    return float(accuracy), float(loss)


if __name__ == "__main__":
    main()
