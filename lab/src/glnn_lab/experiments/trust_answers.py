"""One draw of each measure of an answer: verdict, interval, calibration, sets, doubtful labels."""

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from glnn import GLNNClassifier, evaluate
from glnn.quality.metrics import Judged, measured
from glnn_lab.experiments.trust_draws import at_random, per_class, table

Case = tuple[Any, ...]
Row = dict[str, Any]


def noise(case: Case, seed: int) -> Row:
    """Noise of (nodes, columns, classes, with graph): the verdict, and how sure the fit is."""
    n_nodes, n_columns, n_classes, has_graph = case
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_nodes, n_columns))
    y = np.asarray(rng.integers(0, n_classes, n_nodes))
    edges = np.unique(np.sort(rng.integers(0, n_nodes, (2, 3 * n_nodes)), 0), axis=1)
    graph = edges[:, edges[0] != edges[1]] if has_graph else None
    seen = at_random(y, 100, rng)
    judged = evaluate(x, seen, graph, random_state=seed)
    model = GLNNClassifier(random_state=seed, calibrate=None).fit(x, seen, graph)
    hidden = seen < 0
    raw = model.label_distributions_[hidden].max(1).mean()
    model.trust(judged.held_out)
    return {
        "says chance": float(judged.verdict.kind == "chance"),
        "accuracy": float((model.transduction_ == y)[hidden].mean()),
        "confidence": float(model.label_distributions_[hidden].max(1).mean()),
        "raw confidence": float(raw),
    }


def coverage(case: Case, seed: int) -> Row:
    """Whether the accuracy's interval holds the true accuracy; of (table, number of labels)."""
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


def calibration(case: Case, seed: int) -> Row:
    """Calibration error on truly hidden nodes; of (table, labels, validation nodes, how).

    Labels are so many a class where there are validation nodes, else so many in all.
    """
    name, n_labels, n_validation, how = case
    x, y, graph = table(name, seed)
    rng = np.random.default_rng(seed)
    seen = (per_class if n_validation else at_random)(y, n_labels, rng)
    chosen = rng.permutation(np.flatnonzero((seen < 0) & (y >= 0)))[:n_validation]
    seen[chosen] = y[chosen]
    validation = chosen if n_validation else None
    model = GLNNClassifier(random_state=seed, calibrate=how).fit(x, seen, graph, validation)
    hidden = (seen < 0) & (y >= 0)
    found: Row = {}
    for words, p in (("raw ", model.raw_distributions_), ("", model.label_distributions_)):
        metrics = measured(Judged(y[hidden], p[hidden].astype(float)))
        found[f"{words}error"] = float(metrics["calibration_error"][0])
        found[f"{words}log loss"] = float(metrics["log_loss"][0])
        found[f"{words}accuracy"] = float(metrics["accuracy"][0])
    return found


def uneven(case: Case, seed: int) -> Row:
    """Macro-F1 with balanced weights beside balanced logistic regression; (table, labels)."""
    x, y, _ = table(case[0], seed)
    seen = at_random(y, case[1], np.random.default_rng(seed))
    known, hidden = seen >= 0, seen < 0
    scaled = StandardScaler().fit_transform(x)
    plain = LogisticRegression(class_weight="balanced", max_iter=2000).fit(scaled[known], y[known])
    found = {"logistic": plain.predict(scaled)}
    found["none"] = GLNNClassifier(random_state=seed).fit_predict(x, seen)
    balanced = GLNNClassifier(random_state=seed, class_weight="balanced")
    found["balanced"] = balanced.fit_predict(x, seen)
    return {
        name: float(f1_score(y[hidden], predicted[hidden], average="macro"))
        for name, predicted in found.items()
    }


def sets(case: Case, seed: int) -> Row:
    """Share of ``predict_set(0.1)`` that hold the true class; (table, labels a class)."""
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


def suspects(case: Case, seed: int) -> Row:
    """Planted mistakes that are found, and accuracy without what is doubted; (table, labels)."""
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
