"""Repeated measurements of how far predictions, intervals and explanations can be trusted.

Each measure draws labels from a table whose classes are all known, fits, and compares. ``PLAN``
lists the measures with their cases and numbers of draws.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from scipy.stats import spearmanr
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
from glnn.data import encode_frame
from glnn.data.datasets import ENVIRONMENT
from glnn.data.synthetic import block_model
from glnn.quality.metrics import ScoredPredictions, compute_metrics

# Tables and labels

_SKLEARN_TABLES = {
    "digits": load_digits,
    "wine": load_wine,
    "cancer": load_breast_cancer,
    "iris": load_iris,
}
_UNTIDY_TABLES = ("gaps", "text", "dates")


def load_table(name: str, seed: int) -> tuple[Any, np.ndarray, Any]:
    """Return features, class numbers and graph (``None`` without one) of a named table.

    The name is one of scikit-learn's (``digits``, ``wine``, ``cancer``, ``iris``), of a table
    generated here from the seed (``moons``; ``uneven``: classes of 80, 15 and 5 %; ``wide``: 300
    columns; ``gaps``, ``text``, ``dates``; ``block``: a block model with its graph), or of a
    published data set.
    """
    if name in _SKLEARN_TABLES:
        return *_SKLEARN_TABLES[name](return_X_y=True), None
    if name == "moons":
        return *make_moons(400, noise=0.25, random_state=seed), None
    if name == "uneven":
        shape = {"n_informative": 6, "n_classes": 3, "weights": [0.8, 0.15, 0.05]}
        return *make_classification(2000, 20, flip_y=0.02, random_state=seed, **shape), None
    if name == "wide":
        return *make_classification(500, 300, n_informative=8, random_state=seed), None
    if name in _UNTIDY_TABLES:
        return *_make_untidy_table(name, seed), None
    data = (
        block_model(120, 3, degree=6, n_features=10, seed=seed)
        if name == "block"
        else load_dataset(name, folder=os.environ.get(ENVIRONMENT))
    )
    return data.features, data.labels, data.graph


def _make_untidy_table(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an encoded table with missing values, a text column or a date column."""
    rng = np.random.default_rng(seed)
    x, y = make_classification(400, 8, n_informative=5, random_state=seed)
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(8)])
    hint = np.where(rng.random(400) < 0.7, y, rng.integers(0, 2, 400))  # partly the class
    if kind == "gaps":
        frame = frame.mask(rng.random(frame.shape) < 0.1)
    elif kind == "text":
        frame["town"] = [
            f"town {4 * number + k}" for number, k in zip(hint, rng.integers(0, 6, 400))
        ]
    else:
        days = pd.to_timedelta(200 * hint + rng.integers(0, 300, 400), "D")
        frame["since"] = pd.Timestamp("2020-01-01") + days
    found, _ = encode_frame(frame, encode="auto", missing="indicator", dates=True)
    return found.to_numpy(), y


def label_at_random(y: np.ndarray, n_labels: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``n_labels`` random labels, at least two of each class; -1 elsewhere.

    Examples
    --------
    >>> shown = label_at_random(np.arange(30) % 3, 9, np.random.default_rng(0))
    >>> int((shown >= 0).sum()), bool((np.bincount(shown[shown >= 0]) >= 2).all())
    (9, True)
    """
    while True:
        seen = np.full(len(y), -1)
        chosen = rng.permutation(np.flatnonzero(y >= 0))[:n_labels]
        seen[chosen] = y[chosen]
        if np.bincount(y[chosen], minlength=y.max() + 1).min() >= 2:
            return seen


def label_per_class(y: np.ndarray, n_each: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``n_each`` random labels of each class; -1 elsewhere.

    Examples
    --------
    >>> shown = label_per_class(np.arange(30) % 3, 2, np.random.default_rng(0))
    >>> np.bincount(shown[shown >= 0]).tolist()
    [2, 2, 2]
    """
    seen = np.full(len(y), -1)
    for number in range(y.max() + 1):
        seen[rng.permutation(np.flatnonzero(y == number))[:n_each]] = number
    return seen


# Draws on predictions

Case = tuple[Any, ...]
Row = dict[str, Any]


def draw_noise(case: Case, seed: int) -> Row:
    """Fit noise of a case (nodes, columns, classes, with graph): verdict and confidence."""
    n_nodes, n_columns, n_classes, has_graph = case
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_nodes, n_columns))
    y = np.asarray(rng.integers(0, n_classes, n_nodes))
    edges = np.unique(np.sort(rng.integers(0, n_nodes, (2, 3 * n_nodes)), 0), axis=1)
    graph = edges[:, edges[0] != edges[1]] if has_graph else None
    seen = label_at_random(y, 100, rng)
    judged = evaluate(x, seen, graph, random_state=seed)
    model = GLNNClassifier(random_state=seed, calibrate=None).fit(x, seen, graph)
    hidden = seen < 0
    raw = model.label_distributions_[hidden].max(1).mean()
    model.set_calibration(judged.held_out)
    return {
        "says chance": float(judged.verdict.kind == "chance"),
        "accuracy": float((model.transduction_ == y)[hidden].mean()),
        "confidence": float(model.label_distributions_[hidden].max(1).mean()),
        "raw confidence": float(raw),
    }


def draw_coverage(case: Case, seed: int) -> Row:
    """Return whether the interval contains the true accuracy; case (table, labels)."""
    x, y, graph = load_table(case[0], seed)
    seen = label_at_random(y, case[1], np.random.default_rng(seed))
    judged = evaluate(x, seen, graph, random_state=seed, rivals=None)
    model = GLNNClassifier(random_state=seed, calibrate=None).fit(x, seen, graph)
    model.set_calibration(judged.held_out)
    right = float((model.transduction_ == y)[seen < 0].mean())
    interval = judged.metrics["accuracy"]
    return {
        "covered": float(interval.low <= right <= interval.high),
        "estimate": interval.value,
        "half width": (interval.high - interval.low) / 2,
        "true accuracy": right,
    }


def draw_calibration(case: Case, seed: int) -> Row:
    """Return the calibration error on hidden nodes; case (table, labels, validation nodes, how).

    The number of labels is per class if there are validation nodes, else in total.
    """
    name, n_labels, n_validation, how = case
    x, y, graph = load_table(name, seed)
    rng = np.random.default_rng(seed)
    seen = (label_per_class if n_validation else label_at_random)(y, n_labels, rng)
    chosen = rng.permutation(np.flatnonzero((seen < 0) & (y >= 0)))[:n_validation]
    seen[chosen] = y[chosen]
    validation = chosen if n_validation else None
    model = GLNNClassifier(random_state=seed, calibrate=how).fit(x, seen, graph, validation)
    hidden = (seen < 0) & (y >= 0)
    found: Row = {}
    for words, p in (("raw ", model.raw_distributions_), ("", model.label_distributions_)):
        metrics = compute_metrics(ScoredPredictions(y[hidden], p[hidden].astype(float)))
        found[f"{words}error"] = float(metrics["calibration_error"][0])
        found[f"{words}log loss"] = float(metrics["log_loss"][0])
        found[f"{words}accuracy"] = float(metrics["accuracy"][0])
    return found


def draw_uneven(case: Case, seed: int) -> Row:
    """Compare macro-F1 with balanced logistic regression; case (table, labels)."""
    x, y, _ = load_table(case[0], seed)
    seen = label_at_random(y, case[1], np.random.default_rng(seed))
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


def draw_sets(case: Case, seed: int) -> Row:
    """Return coverage and size of ``predict_set(0.1)``; case (table, labels per class)."""
    x, y, graph = load_table(case[0], seed)
    seen = label_per_class(y, case[1], np.random.default_rng(seed))
    model = GLNNClassifier(random_state=seed, calibrate="folds").fit(x, seen, graph)
    hidden = np.flatnonzero((seen < 0) & (y >= 0))
    chosen = model.predict_set(0.1)
    return {
        "coverage": float(np.mean([y[node] in chosen[node] for node in hidden])),
        "size": float(np.mean([len(chosen[node]) for node in hidden])),
        "empty": float(np.mean([not chosen[node] for node in hidden])),
    }


def draw_suspects(case: Case, seed: int) -> Row:
    """Find wrong labels, and refit without the suspects; case (table, labels per class)."""
    x, y, graph = load_table(case[0], seed)
    rng = np.random.default_rng(seed)
    seen, n_classes = label_per_class(y, case[1], rng), int(y.max()) + 1
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


# Draws on explanations and suggestions

SIZES = (2, 4, 8, 20)  # mean labels per class at which accuracy is measured
_MIN_EFFECT = 0.05
_EXPLAIN_EVERY = 4
_MAX_TABLE_ROWS = 200
_N_TEST = 800


def draw_influence(case: Case, seed: int) -> Row:
    """Measure the effects of labels; case (table, labels per class, draw).

    The real effect of a label on the probability of its class at each node is measured by a second
    fit without it. ``estimated`` are the effects that the fit estimates, ``explained`` those that
    ``explain`` returns by default, computed in every fourth draw. :func:`influence_rows` compares
    them over many seeds.
    """
    x, labels, graph = _load_small_table(case[0], case[2])
    seen = label_per_class(labels, case[1], np.random.default_rng(case[2]))
    labelled, hidden = np.flatnonzero(seen >= 0), seen < 0
    model = GLNNClassifier(random_state=seed, calibrate=None)
    whole = model.fit(x, seen, graph).label_distributions_
    real = []
    for node in labelled.tolist():
        fewer = seen.copy()
        fewer[node] = -1
        again = GLNNClassifier(random_state=seed, calibrate=None).fit(x, fewer, graph)
        real.append((whole - again.label_distributions_)[:, labels[node]])
    found = {
        "real": np.array(real)[:, hidden],
        "estimated": _effects(model, labelled, 0)[:, hidden],
    }
    if seed % _EXPLAIN_EVERY == 0:
        found["explained"] = _effects(model, labelled, None)[:, hidden]
    return found


def _effects(model: GLNNClassifier, labelled: np.ndarray, refits: int | None) -> np.ndarray:
    """Return the effects of labels on their own classes by ``explain``, labels x nodes."""
    n_nodes = len(model.transduction_)
    found = np.zeros((len(labelled), n_nodes))
    for node in range(n_nodes):
        why = model.explain(node, n_links=0, n_labels=len(labelled), refits=refits)
        for voice in why.voices:
            found[np.searchsorted(labelled, voice.node), node] = voice.effect
    return found


def influence_rows(drawn: Sequence[Row]) -> Row:
    """Return how well reported effects of labels agree with the real ones.

    ``rank correlation`` is Spearman's over the labels of a node, between the effects by ``explain``
    and the real ones of the same fit. It is averaged over fits and over the nodes at which some
    label changes the probability of its class by 0.05 or more; at other nodes there is only noise
    to rank. The other numbers compare with the mean real effect over all seeds: ``estimate`` the
    effects estimated by a fit, ``one fit`` the real effects of one fit with the mean of the other
    fits, and ``half against half`` the two halves of the seeds, which is a bound set by noise.
    """
    real = np.stack([row["real"] for row in drawn])
    mean, half = real.mean(0), len(real) // 2
    asked = [row for row in drawn if "explained" in row]
    found: Row = {
        "rank correlation": _mean_of(_agreement(row["explained"], row["real"]) for row in asked),
        "estimate": _mean_of(_agreement(row["estimated"], mean) for row in drawn),
        "nodes": int(_is_moved(mean).sum()),
        "seeds": len(drawn),
    }
    if half:
        others = [(real.sum(0) - one) / (len(real) - 1) for one in real]
        found["one fit"] = _mean_of(_agreement(*pair) for pair in zip(real, others))
        halves = [part[:, :, _is_moved(mean)].mean(0) for part in (real[:half], real[half:])]
        found["half against half"] = mean_rank_correlation(*halves)
    return found


def _agreement(reported: np.ndarray, real: np.ndarray) -> float:
    """Return the rank correlation at the nodes with a real effect of some label."""
    moved = _is_moved(real)
    return mean_rank_correlation(reported[:, moved], real[:, moved])


def _is_moved(effects: np.ndarray) -> np.ndarray:
    moved: np.ndarray = np.abs(effects).max(0) >= _MIN_EFFECT
    return moved


def _mean_of(numbers: Iterable[float]) -> float:
    return float(np.mean(list(numbers)))


def mean_rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean rank correlation over columns; constant columns are skipped.

    Examples
    --------
    >>> first, second = np.array([[1, 5], [2, 6], [3, 7]]), np.array([[1, 3], [2, 2], [9, 1]])
    >>> mean_rank_correlation(first, second)
    0.0
    """
    has_ranks = (np.ptp(first, 0) > 0) & (np.ptp(second, 0) > 0)
    pairs = zip(first.T[has_ranks], second.T[has_ranks])
    return float(np.mean([spearmanr(a, b)[0] for a, b in pairs]))


def _load_small_table(name: str, draw: int) -> tuple[Any, np.ndarray, Any]:
    """Return a table; without a graph it is reduced to 200 random rows."""
    x, y, graph = load_table(name, draw)
    if graph is not None or len(y) <= _MAX_TABLE_ROWS:
        return x, y, graph
    rows = np.random.default_rng(draw).choice(len(y), _MAX_TABLE_ROWS, replace=False)
    return x[rows], y[rows], None


Choice = Callable[[Any, np.ndarray, int], np.ndarray]


def draw_choice(case: Case, seed: int) -> Row:
    """Compare the accuracy with labels by ``suggest_labels`` and with random ones; case (table).

    A draw starts with two random labels per class and adds labels up to 20 per class on average,
    once by suggestion and once at random, with a fit of one round after each step. Accuracy is
    measured on 800 random nodes that are never labelled.
    """
    x, y, graph = load_table(case[0], seed)
    rng = np.random.default_rng(seed)
    known, n_classes = np.flatnonzero(y >= 0), int(y.max()) + 1
    test = rng.choice(known, _N_TEST, replace=False)
    pool = np.setdiff1d(known, test)
    start = label_per_class(np.where(np.isin(np.arange(len(y)), pool), y, -1), SIZES[0], rng)

    def fit(labelled: np.ndarray) -> Any:
        seen = np.full(len(y), -1)
        seen[labelled] = y[labelled]
        model = GLNNClassifier(random_state=seed, n_rounds=1, calibrate=None)
        return model.fit(x, seen, graph)

    first = fit(np.flatnonzero(start >= 0))

    def curve(choose: Choice) -> list[float]:
        labelled, model, right = np.flatnonzero(start >= 0), first, []
        for size in SIZES[1:]:
            may, k = np.setdiff1d(pool, labelled), size * n_classes - len(labelled)
            labelled = np.concatenate([labelled, choose(model, may, k)])
            model = fit(labelled)
            right.append(float((model.transduction_ == y)[test].mean()))
        return right

    suggested = curve(lambda m, may, k: np.asarray(m.suggest_labels(k, among=may)["node"]))
    at_random = curve(lambda m, may, k: rng.choice(may, k, replace=False))
    return {
        "gain": float(np.mean(suggested) - np.mean(at_random)),
        **{f"suggested {size}": right for size, right in zip(SIZES[1:], suggested)},
        **{f"random {size}": right for size, right in zip(SIZES[1:], at_random)},
    }


# The plan


@dataclass(frozen=True)
class TrustMeasure:
    """A measure: its draw function, cases and number of draws."""

    draw: Callable[[Case, int], Row]  # of a case and a seed
    cases: tuple[Case, ...]
    n_draws: int  # per case
    gather: Callable[[Sequence[Row]], Row] | None = None  # combines all rows of a case


SMALL = ("wine", "iris", "moons", "gaps", "text", "dates")

PLAN = {
    "calibration": TrustMeasure(
        draw_calibration,
        (
            ("pubmed", 20, 500, "auto"),
            ("cora", 20, 500, "auto"),
            ("citeseer", 20, 500, "auto"),
            ("digits", 200, 0, "folds"),
            ("uneven", 300, 0, "folds"),
        ),
        10,
    ),
    "suspects": TrustMeasure(draw_suspects, (("cora", 20), ("digits", 20), ("cancer", 40)), 10),
    "sets": TrustMeasure(draw_sets, (("digits", 10), ("wine", 10), ("cancer", 20)), 20),
    "graph sets": TrustMeasure(draw_sets, (("cora", 20),), 10),
    "uneven": TrustMeasure(draw_uneven, (("uneven", 200), ("uneven", 400)), 10),
    "noise": TrustMeasure(
        draw_noise,
        ((600, 300, 4, False), (600, 30, 4, False), (400, 10, 2, False), (600, 30, 4, True)),
        5,
    ),
    "coverage": TrustMeasure(
        draw_coverage,
        (
            ("uneven", 100),
            ("digits", 60),
            ("cancer", 50),
            ("wide", 60),
            *((name, 40) for name in SMALL),
        ),
        10,
    ),
    "choice": TrustMeasure(draw_choice, (("cora",), ("citeseer",), ("digits",)), 10),
    "influence": TrustMeasure(
        draw_influence, (("block", 2, 200), ("iris", 4, 200), ("moons", 4, 200)), 16, influence_rows
    ),
}


@dataclass(frozen=True)
class Draw:
    """One draw: the name of its measure, its case and its seed."""

    name: str
    case: Case
    seed: int

    def make(self, deadline: float | None = None) -> Row | None:
        """Run the draw on one thread; return ``None`` after the deadline."""
        if deadline is not None and time.time() > deadline:
            return None
        torch.set_num_threads(1)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = PLAN[self.name].draw(self.case, self.seed)
        return found | {"seconds": time.perf_counter() - started}


def list_draws(names: Sequence[str], first: int, most: int | None = None) -> list[Draw]:
    """Return the draws of some measures, interleaved so that an aborted run has some of each.

    Seeds start at ``first``; with ``most`` there are at most this many draws per case.
    """
    found = []
    for name in names:
        measure = PLAN[name]
        n_draws = measure.n_draws if most is None else min(most, measure.n_draws)
        found += [
            (k / n_draws, Draw(name, case, first + k))
            for case in measure.cases
            for k in range(n_draws)
        ]
    return [draw for _, draw in sorted(found, key=lambda pair: pair[0])]


def run_draws(
    draws: Sequence[Draw], n_jobs: int, deadline: float | None = None
) -> Iterator[tuple[Draw, Row]]:
    """Run draws in parallel; yield each with its row when it is finished."""

    def one(draw: Draw) -> tuple[Draw, Row | None]:
        return draw, draw.make(deadline)

    work = Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    for draw, row in work(delayed(one)(draw) for draw in draws):
        if row is not None:
            yield draw, row


def gather_rows(rows: Sequence[tuple[Draw, Row]]) -> list[Row]:
    """Return rows for a file; the draws of a measure with ``gather`` become one row per case."""
    order = sorted(rows, key=lambda pair: (list(PLAN).index(pair[0].name), str(pair[0].case)))
    found: list[Row] = []
    for (name, case), group in groupby(order, key=lambda pair: (pair[0].name, pair[0].case)):
        own = sorted(group, key=lambda pair: pair[0].seed)
        gather = PLAN[name].gather
        where = {"what": name, "case": list(case), "seed": own[0][0].seed}
        if gather is None:
            found += [where | {"seed": draw.seed} | row for draw, row in own]
        else:
            seconds = sum(row["seconds"] for _, row in own)
            found.append(where | gather([row for _, row in own]) | {"seconds": seconds})
    return found
