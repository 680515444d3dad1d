"""Measure what docs/trust.md claims, on fresh draws: estimates, calibration, sets, doubtful labels.

    python lab/scripts/trust.py --jobs 2 --out docs/results/trust.json [noise coverage ...]

Seeds begin at 200; settings were chosen on seeds below.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from glnn import GLNNClassifier, evaluate, load_dataset
from glnn.quality.metrics import Judged, measured

FIRST_SEED = 200
Row = dict[str, float]


def table(name: str, seed: int) -> tuple[Any, np.ndarray, Any]:
    """Return features, classes and graph of a named set."""
    loaders = {
        "digits": load_digits,
        "wine": load_wine,
        "cancer": load_breast_cancer,
        "iris": load_iris,
    }
    if name in loaders:
        return *loaders[name](return_X_y=True), None
    if name == "moons":
        return *make_moons(400, noise=0.25, random_state=seed), None
    if name == "uneven":
        shape = {"n_informative": 6, "n_classes": 3, "weights": [0.8, 0.15, 0.05]}
        return *make_classification(2000, 20, flip_y=0.02, random_state=seed, **shape), None
    if name == "wide":
        return *make_classification(500, 300, n_informative=8, random_state=seed), None
    data = load_dataset(name)
    return data.features, data.labels, data.graph


def at_random(y: np.ndarray, n_labels: int, rng: np.random.Generator) -> np.ndarray:
    """Show labels of so many nodes, drawn from all, at least two of each class."""
    while True:
        seen = np.full(len(y), -1)
        chosen = rng.permutation(np.flatnonzero(y >= 0))[:n_labels]
        seen[chosen] = y[chosen]
        if np.bincount(y[chosen], minlength=y.max() + 1).min() >= 2:
            return seen


def per_class(y: np.ndarray, n_each: int, rng: np.random.Generator) -> np.ndarray:
    """Show so many labels of each class."""
    seen = np.full(len(y), -1)
    for number in range(y.max() + 1):
        seen[rng.permutation(np.flatnonzero(y == number))[:n_each]] = number
    return seen


def noise(case: tuple[int, int, int, bool], seed: int) -> Row:
    """Noise: what the verdict says, and how confident probabilities are."""
    n_nodes, n_columns, n_classes, has_graph = case
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n_nodes, n_columns)), rng.integers(0, n_classes, n_nodes)
    edges = rng.integers(0, n_nodes, (2, 3 * n_nodes))
    graph = edges[:, edges[0] != edges[1]] if has_graph else None
    seen = at_random(y, 100, rng)
    judged = evaluate(x, seen, graph, random_state=seed)
    model = GLNNClassifier(random_state=seed, calibrate=None).fit(x, seen, graph)
    raw = model.label_distributions_[seen < 0].max(1).mean()
    model.trust(judged.held_out)
    hidden = seen < 0
    return {
        "says chance": float(judged.verdict.kind == "chance"),
        "accuracy": float((model.transduction_ == y)[hidden].mean()),
        "confidence": float(model.label_distributions_[hidden].max(1).mean()),
        "raw confidence": float(raw),
    }


def coverage(case: tuple[str, int], seed: int) -> Row:
    """Whether the accuracy's interval holds the true accuracy on hidden labels."""
    x, y, graph = table(case[0], seed)
    seen = at_random(y, case[1], np.random.default_rng(seed))
    judged = evaluate(x, seen, graph, random_state=seed, compared=())
    model = GLNNClassifier(random_state=seed, calibrate=None).fit(x, seen, graph)
    model.trust(judged.held_out)
    right = float((model.transduction_ == y)[seen < 0].mean())
    interval = judged.metrics["accuracy"]
    return {
        "covered": float(interval.low <= right <= interval.high),
        "estimate": interval.value,
        "half width": interval.half_width,
        "true accuracy": right,
    }


def calibration(case: tuple[str, int, int, str], seed: int) -> Row:
    """Calibration error on truly hidden nodes, raw and calibrated."""
    name, n_labels, n_validation, how = case
    x, y, graph = table(name, seed)
    rng = np.random.default_rng(seed)
    draw = per_class if n_validation else at_random
    seen = draw(y, n_labels, rng)
    chosen = rng.permutation(np.flatnonzero((seen < 0) & (y >= 0)))[:n_validation]
    seen[chosen] = y[chosen]
    validation = chosen if n_validation else None
    model = GLNNClassifier(random_state=seed, calibrate=how).fit(x, seen, graph, validation)
    hidden = (seen < 0) & (y >= 0)
    raw, q = model.raw_distributions_[hidden], model.label_distributions_[hidden]
    before, after = (measured(Judged(y[hidden], p.astype(float))) for p in (raw, q))
    return {
        "raw error": float(before["calibration_error"][0]),
        "error": float(after["calibration_error"][0]),
        "raw log loss": float(before["log_loss"][0]),
        "log loss": float(after["log_loss"][0]),
        "raw accuracy": float(before["accuracy"][0]),
        "accuracy": float(after["accuracy"][0]),
    }


def uneven(case: tuple[str, int], seed: int) -> Row:
    """Macro-F1 on hidden nodes with balanced weights, beside balanced logistic regression."""
    x, y, _ = table(case[0], seed)
    seen = at_random(y, case[1], np.random.default_rng(seed))
    known, hidden = seen >= 0, seen < 0
    scaled = StandardScaler().fit_transform(x)
    plain = LogisticRegression(class_weight="balanced", max_iter=2000).fit(scaled[known], y[known])
    found = {"logistic": plain.predict(scaled)}
    for name, how in (("none", None), ("balanced", "balanced")):
        model = GLNNClassifier(random_state=seed, class_weight=how)
        found[name] = model.fit_predict(x, seen)
    return {
        name: float(f1_score(y[hidden], predicted[hidden], average="macro"))
        for name, predicted in found.items()
    }


def sets(case: tuple[str, int], seed: int) -> Row:
    """Share of sets that hold the true class, and their size."""
    x, y, graph = table(case[0], seed)
    seen = per_class(y, case[1], np.random.default_rng(seed))
    model = GLNNClassifier(random_state=seed, calibrate="folds").fit(x, seen, graph)
    hidden = np.flatnonzero((seen < 0) & (y >= 0))
    chosen = model.predict_set(0.1)
    return {
        "coverage": float(np.mean([y[node] in chosen[node] for node in hidden])),
        "size": float(np.mean([len(chosen[node]) for node in hidden])),
        "empty": float(np.mean([not chosen[node] for node in hidden])),
    }


def suspects(case: tuple[str, int], seed: int) -> Row:
    """Planted mistakes that are found, and accuracy after removing what is doubted."""
    x, y, graph = table(case[0], seed)
    rng = np.random.default_rng(seed)
    seen, n_classes = per_class(y, case[1], rng), int(y.max()) + 1
    labelled = np.flatnonzero(seen >= 0)
    wrong = rng.permutation(labelled)[: len(labelled) // 10]
    seen[wrong] = (seen[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    model = GLNNClassifier(random_state=seed, calibrate="folds").fit(x, seen, graph)
    doubted = model.suspect_labels()["node"].to_numpy()
    fewer = seen.copy()
    fewer[doubted] = -1
    again = GLNNClassifier(random_state=seed, calibrate=None).fit_predict(x, fewer, graph)
    hidden, found = (seen < 0) & (y >= 0), np.isin(doubted, wrong)
    return {
        "precision": float(found.mean()) if found.size else 0.0,
        "recall": float(found.sum() / len(wrong)),
        "accuracy": float((model.raw_distributions_.argmax(1) == y)[hidden].mean()),
        "accuracy without them": float((again == y)[hidden].mean()),
    }


Measure = Callable[[Any, int], Row]
PLAN: dict[str, tuple[Measure, list[tuple[Any, ...]], int]] = {
    "noise": (
        noise,
        [(600, 300, 4, False), (600, 30, 4, False), (400, 10, 2, False), (600, 30, 4, True)],
        5,
    ),
    "coverage": (
        coverage,
        [("wine", 40), ("iris", 40), ("cancer", 50), ("moons", 40), ("wide", 60)],
        20,
    ),
    "calibration": (
        calibration,
        [
            ("cora", 20, 500, "auto"),
            ("citeseer", 20, 500, "auto"),
            ("pubmed", 20, 500, "auto"),
            ("digits", 200, 0, "folds"),
            ("uneven", 300, 0, "folds"),
            ("digits", 200, 0, "auto"),
            ("uneven", 300, 0, "auto"),
        ],
        10,
    ),
    "uneven": (uneven, [("uneven", 200), ("uneven", 400)], 10),
    "sets": (sets, [("digits", 10), ("wine", 10), ("cancer", 20), ("cora", 20)], 20),
    "suspects": (suspects, [("digits", 20), ("cora", 20), ("cancer", 40)], 10),
}


def run(name: str, case: tuple[Any, ...], seed: int) -> Row:
    """Measure one draw in a single thread."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        found = PLAN[name][0](case, seed)
    return found | {"seconds": time.perf_counter() - started}


def main() -> None:
    """Run what is asked for, print its means, and write every draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PLAN), help=f"of {', '.join(PLAN)}")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    tasks = [
        (name, case, seed)
        for name in asked.names
        for case in PLAN[name][1]
        for seed in range(asked.first, asked.first + PLAN[name][2])
    ]
    rows = Parallel(asked.jobs, batch_size=1)(delayed(run)(*task) for task in tasks)
    for name in asked.names:
        for case in PLAN[name][1]:
            drawn = [row for task, row in zip(tasks, rows) if task[:2] == (name, case)]
            means = {key: np.mean([row[key] for row in drawn]) for key in drawn[0]}
            shown = ", ".join(f"{key} {value:.3f}" for key, value in means.items())
            print(f"{name} {case} ({len(drawn)} draws): {shown}")
    if asked.out is not None:
        page = [{"what": t[0], "case": list(t[1]), "seed": t[2]} | r for t, r in zip(tasks, rows)]
        asked.out.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
