"""A study of how far predictions, intervals, suspects and explanations can be trusted.

Most of it are tables that are drawn from a seed, so that all classes are known: features or noise,
with and without a graph, with right labels and with planted mistakes. Each is fitted once with the
default settings, and what the fit states is compared with the truth on the rows without a label.
``PLAN`` lists the measures with their cases and numbers of draws.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from sklearn.datasets import load_digits, load_iris, make_classification, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from glnn import GLNNClassifier, load_dataset
from glnn.data.datasets import ENVIRONMENT
from glnn.data.node_data import symmetric_from_pairs
from glnn.data.synthetic import block_model
from glnn.evaluation import evaluate_fit
from glnn.quality.labelling import suspect_labels
from glnn.quality.metrics import ScoredPredictions, compute_metrics

# Tables that are drawn from a seed

Case = tuple[Any, ...]
Row = dict[str, Any]
Rng = np.random.Generator

_MAX_ROWS = 5000
_MISTAKES = 0.1  # share of the given labels that are made wrong on purpose


@dataclass(frozen=True, eq=False)
class TrustTable:
    """A table with all its classes, and the labels that a fit may see."""

    x: Any
    y: np.ndarray  # class of every row
    graph: Any  # None without one
    seen: np.ndarray  # given labels, -1 elsewhere
    wrong: np.ndarray  # mask of the given labels that are mistakes


def make_table(kind: str, seed: int) -> TrustTable:
    """Draw a table of a kind.

    ``features`` and ``graph`` are Gaussian clouds, a third of them stretched, with uneven classes
    and, in half of them, up to 20 % of the labels at random; a graph has any homophily, and a fifth
    of the graphs none. ``noise`` and ``noise graph`` have nothing to learn. In ``mistakes`` a tenth
    of the given labels is made wrong, in tables whose classes are rather apart. ``customers`` is
    one table of 800 rows with a graph for six seeds, each with another 60 labels. ``digits`` and
    ``cora`` have mistakes, too, ``right digits`` and ``right cora`` have none.
    """
    rng = np.random.default_rng([seed, *kind.encode()])
    name = kind.removeprefix("right ")
    if name in ("digits", "cora"):
        x, y, graph = load_table(name, seed)
        n_labels = 200 if name == "digits" else 140
        return show_labels(x, y, graph, n_labels, 0.0 if name != kind else _MISTAKES, rng)
    if kind == "customers":
        return _draw_customers(seed)
    n_rows, n_columns = _draw_size(100, _MAX_ROWS, rng), _draw_size(2, 60, rng)
    n_classes = int(rng.integers(2, 9))
    n_labels = min(max(_draw_size(20, 400, rng), 3 * n_classes), n_rows // 3)
    if kind.startswith("noise"):
        x, y = rng.normal(size=(n_rows, n_columns)), rng.integers(0, n_classes, n_rows)
        graph = draw_graph(y, 6, 0.0, rng) if kind == "noise graph" else None
        return show_labels(x, y, graph, n_labels, 0.0, rng)
    y = _draw_classes(n_rows, n_classes, rng)
    is_planted = kind == "mistakes"
    x = (
        draw_clouds(y, max(n_columns, 5), rng.uniform(4, 7), 1, rng)
        if is_planted
        else draw_clouds(y, n_columns, rng.uniform(1.5, 6), 3, rng)
    )
    graph = None
    if kind == "graph" or (is_planted and seed % 2):
        homophily = 0.0 if rng.random() < 0.2 else rng.uniform(0.2, 0.95)
        graph = draw_graph(y, rng.uniform(2, 10), homophily, rng)
    if is_planted:
        return show_labels(x, y, graph, max(n_labels, min(60, n_rows // 2)), _MISTAKES, rng)
    share = 0.0 if rng.random() < 0.5 else rng.uniform(0, 0.2)
    flipped = np.flatnonzero(rng.random(n_rows) < share)
    found = show_labels(x, move_labels(y, flipped, rng), graph, n_labels, 0.0, rng)
    found.wrong[flipped] = found.seen[flipped] >= 0
    return found


def _draw_customers(seed: int) -> TrustTable:
    """Draw 800 rows with numbers and a graph; about 72 % of its edges join equal classes."""
    rng = np.random.default_rng(seed // 6)
    y = rng.choice(3, 800, p=[0.5, 0.3, 0.2])
    x = 0.75 * rng.normal(size=(3, 8))[y] + rng.normal(size=(800, 8))
    graph = draw_graph(y, 4, 0.55, rng)
    return show_labels(x, y, graph, 60, 0.0, np.random.default_rng(seed))


def _draw_size(low: int, high: int, rng: Rng) -> int:
    """Draw a whole number between two bounds, uniform on a logarithmic scale."""
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def _draw_classes(n_rows: int, n_classes: int, rng: Rng) -> np.ndarray:
    """Draw classes, even in two of five tables; each has at least three rows."""
    even = np.full(n_classes, 1 / n_classes)
    shares = (
        even if rng.random() < 0.4 else np.maximum(rng.dirichlet(2 * n_classes * even), 0.3 * even)
    )
    y = rng.choice(n_classes, n_rows, p=shares / shares.sum())
    y[: 3 * n_classes] = np.arange(3 * n_classes) % n_classes
    return np.asarray(y)


def draw_clouds(
    y: np.ndarray, n_columns: int, separation: float, max_clouds: int, rng: Rng
) -> np.ndarray:
    """Draw features: some clouds for each class, columns of noise, any scales."""
    n_used = int(rng.integers(min(2, n_columns), n_columns + 1))
    n_clouds = int(rng.integers(1, max_clouds + 1))
    centres = rng.normal(size=(y.max() + 1, n_clouds, n_used)) * separation / np.sqrt(2 * n_used)
    x = rng.normal(size=(len(y), n_columns))
    x[:, :n_used] += centres[y, rng.integers(0, n_clouds, len(y))]
    if rng.random() < 0.3:
        x = np.sinh(x)
    return np.asarray(x * np.exp(rng.normal(size=n_columns)))


def draw_graph(y: np.ndarray, degree: float | int, homophily: float, rng: Rng) -> Any:
    """Draw edges: a share ``homophily`` inside classes, all others between any two rows."""
    n_rows, n_edges = len(y), int(len(y) * degree / 2)
    source, target = rng.integers(0, n_rows, (2, n_edges))
    inside = np.flatnonzero(rng.random(n_edges) < homophily)
    for number in range(y.max() + 1):
        own = inside[y[source[inside]] == number]
        target[own] = rng.choice(np.flatnonzero(y == number), len(own))
    return symmetric_from_pairs(source, target, n_rows)


def show_labels(
    x: Any, y: np.ndarray, graph: Any, n_labels: int, mistakes: float, rng: Rng
) -> TrustTable:
    """Show random labels, at least two of each class, and make a share of them wrong."""
    order = rng.permutation(np.flatnonzero(y >= 0))
    first = np.concatenate([order[y[order] == number][:2] for number in range(y.max() + 1)])
    labelled = np.concatenate([first, order[~np.isin(order, first)]])[:n_labels]
    seen, wrong = np.full(len(y), -1), np.zeros(len(y), dtype=bool)
    seen[labelled] = y[labelled]
    planted = rng.permutation(labelled)[: round(mistakes * len(labelled))]
    wrong[planted] = True
    return TrustTable(x, y, graph, move_labels(seen, planted, rng), wrong)


def move_labels(y: np.ndarray, rows: np.ndarray, rng: Rng) -> np.ndarray:
    """Return classes in which some rows have another class than before.

    Examples
    --------
    >>> move_labels(np.array([0, 1, 0, 1]), np.array([2]), np.random.default_rng(0))
    array([0, 1, 1, 1])
    """
    moved, n_classes = y.copy(), int(y.max()) + 1
    moved[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return moved


# What a fit states, and the truth


def draw_table(case: Case, seed: int) -> Row:
    """Fit a table of a kind, and compare what the fit states with the truth; case (kind)."""
    table = make_table(case[0], seed)
    model = GLNNClassifier(random_state=seed).fit(table.x, table.seen, table.graph)
    hidden = np.flatnonzero((table.seen < 0) & (table.y >= 0))
    return {
        "rows": len(table.y),
        "columns": int(table.x.shape[1]),
        "classes": len(model.classes_),
        "labels": int((table.seen >= 0).sum()),
        **_compare_probabilities(model, table.y, hidden),
        **_compare_estimate(model, table.y, hidden),
        **_count_suspects(model, table),
    }


def _compare_probabilities(model: GLNNClassifier, y: np.ndarray, hidden: np.ndarray) -> Row:
    """Compare confidence with accuracy, before and after calibration.

    ``least error`` is the calibration error of perfect probabilities on so many rows.
    """
    found: Row = {}
    for words, p in (("raw ", model.raw_distributions_), ("", model.label_distributions_)):
        judged = ScoredPredictions(y[hidden], p[hidden].astype(float))
        metrics = compute_metrics(judged)
        found[f"{words}accuracy"] = float(metrics["accuracy"][0])
        found[f"{words}confidence"] = float(judged.confidence.mean())
        found[f"{words}error"] = float(metrics["calibration_error"][0])
        found[f"{words}log loss"] = float(metrics["log_loss"][0])
    rng, q = np.random.default_rng(0), judged.probabilities
    drawn = (rng.random((20, len(q), 1)) > np.cumsum(q, 1)[:, :-1]).sum(2)
    errors = [
        compute_metrics(ScoredPredictions(classes, q))["calibration_error"] for classes in drawn
    ]
    found["least error"] = float(np.mean(errors))
    return found | {"confidence error": model.calibration_.confidence_error}


def _compare_estimate(model: GLNNClassifier, y: np.ndarray, hidden: np.ndarray) -> Row:
    """Compare the estimate from hidden labels, and the sets, with the truth on other rows."""
    judged = evaluate_fit(model, random_state=model.seed_)
    interval = judged.metrics["accuracy"]
    true = float((model.transduction_ == model.classes_[y])[hidden].mean())
    sets = model.predict_set(0.1)
    best = max(judged.others, key=lambda other: other.metrics["accuracy"].value)
    return {
        "estimate": interval.value,
        "low": interval.low,
        "high": interval.high,
        "covered": bool(interval.low <= true <= interval.high),
        "verdict": judged.verdict.kind,
        "rival": best.name,
        "rival accuracy": best.metrics["accuracy"].value,
        "set coverage": float(np.mean([y[node] in sets[node] for node in hidden])),
        "set size": float(np.mean([len(sets[node]) for node in hidden])),
    }


def _count_suspects(model: GLNNClassifier, table: TrustTable) -> Row:
    """Count the labels that disagree with the model, and the mistakes among them."""
    held_out = model.held_out_
    assert held_out is not None  # a fit without validation nodes hides labels
    nodes, n_estimated = suspect_labels(held_out, held_out.calibrated())
    return {
        "wrong": int(table.wrong.sum()),
        "estimated wrong": n_estimated,
        "suspects": len(nodes),
        "wrong suspects": int(table.wrong[nodes].sum()),
    }


# Tables with a name


def load_table(name: str, seed: int) -> tuple[Any, np.ndarray, Any]:
    """Return features, class numbers and graph (``None`` without one) of a named table.

    The name is ``digits`` or ``iris``, a table drawn from the seed (``moons``; ``uneven``: classes
    of 80, 15 and 5 %; ``block``: a block model with its graph) or a published data set.
    """
    if name == "digits":
        return *load_digits(return_X_y=True), None
    if name == "iris":
        return *load_iris(return_X_y=True), None
    if name == "moons":
        return *make_moons(400, noise=0.25, random_state=seed), None
    if name == "uneven":
        shape = {"n_informative": 6, "n_classes": 3, "weights": [0.8, 0.15, 0.05]}
        return *make_classification(2000, 20, flip_y=0.02, random_state=seed, **shape), None
    data = (
        block_model(120, 3, degree=6, n_features=10, seed=seed)
        if name == "block"
        else load_dataset(name, folder=os.environ.get(ENVIRONMENT))
    )
    return data.features, np.asarray(data.labels), data.graph


def label_per_class(y: np.ndarray, n_each: int, rng: Rng) -> np.ndarray:
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


def draw_uneven(case: Case, seed: int) -> Row:
    """Compare macro-F1 with balanced logistic regression; case (table, labels)."""
    x, y, graph = load_table(case[0], seed)
    seen = show_labels(x, y, graph, case[1], 0.0, np.random.default_rng(seed)).seen
    known, hidden = seen >= 0, seen < 0
    scaled = StandardScaler().fit_transform(x)
    plain = LogisticRegression(class_weight="balanced", max_iter=2000).fit(scaled[known], y[known])
    found = {"logistic": plain.predict(scaled)}
    found["none"] = GLNNClassifier(random_state=seed).fit(x, seen).transduction_
    balanced = GLNNClassifier(random_state=seed, class_weight="balanced")
    found["balanced"] = balanced.fit(x, seen).transduction_
    return {
        name: float(f1_score(y[hidden], predicted[hidden], average="macro"))
        for name, predicted in found.items()
    }


# Draws on explanations and suggestions

SIZES = (2, 4, 8, 20)  # mean labels per class at which accuracy is measured
_MIN_EFFECT = 0.05
_EXPLAIN_EVERY = 4
_MAX_TABLE_ROWS = 200
_N_TEST = 800


def draw_influence(case: Case, seed: int) -> Row:
    """Measure the effects of labels; case (table, labels per class, number of seeds).

    Table and labels are drawn from ``seed``, and each fit has a seed of its own.
    """
    table, n_each, n_seeds = case
    x, labels, graph = _load_small_table(table, seed)
    seen = label_per_class(labels, n_each, np.random.default_rng(seed))
    return influence_rows(
        [measure_effects(x, labels, graph, seen, seed + k) for k in range(n_seeds)]
    )


def measure_effects(x: Any, labels: np.ndarray, graph: Any, seen: np.ndarray, seed: int) -> Row:
    """Return the effects of labels on the probabilities of their classes at unlabelled nodes.

    ``real`` effects are measured by a second fit without the label, ``explained`` are those that
    ``explain`` returns with ``refits=1``, for every fourth seed.
    """
    labelled, hidden = np.flatnonzero(seen >= 0), seen < 0
    model = GLNNClassifier(random_state=seed, calibrate=None)
    whole = model.fit(x, seen, graph).label_distributions_
    real = []
    for node in labelled.tolist():
        fewer = seen.copy()
        fewer[node] = -1
        again = GLNNClassifier(random_state=seed, calibrate=None).fit(x, fewer, graph)
        real.append((whole - again.label_distributions_)[:, labels[node]])
    found = {"real": np.array(real)[:, hidden]}
    if seed % _EXPLAIN_EVERY == 0:
        found["explained"] = _effects(model, labelled)[:, hidden]
    return found


def _effects(model: GLNNClassifier, labelled: np.ndarray) -> np.ndarray:
    """Return the effects of labels on their own classes by ``explain``, labels x nodes."""
    n_nodes = len(model.transduction_)
    found = np.zeros((len(labelled), n_nodes))
    for node in range(n_nodes):
        why = model.explain(node, n_links=0, n_labels=len(labelled), refits=1)
        for one in why.label_effects:
            found[np.searchsorted(labelled, one.node), node] = one.effect
    return found


def influence_rows(drawn: Sequence[Row]) -> Row:
    """Return how well reported effects of labels agree with the real ones.

    ``rank correlation`` is Spearman's over the labels of a node, between the effects by ``explain``
    and the real ones of the same fit. It is averaged over fits and over the nodes at which some
    label changes the probability of its class by 0.05 or more; at other nodes there is only noise
    to rank. The other numbers compare real effects of several seeds: ``one fit`` those of one fit
    with the mean of the other fits, and ``half against half`` the two halves of the seeds, which is
    a bound set by noise.
    """
    real = np.stack([row["real"] for row in drawn])
    mean, half = real.mean(0), len(real) // 2
    asked = [row for row in drawn if "explained" in row]
    found: Row = {
        "rank correlation": _mean_of(_agreement(row["explained"], row["real"]) for row in asked),
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

FIRST_SEED = 300  # of reported draws; smaller ones are for choosing settings


@dataclass(frozen=True)
class TrustMeasure:
    """A measure: its draw function, cases and number of draws."""

    draw: Callable[[Case, int], Row]  # of a case and a seed
    cases: tuple[Case, ...]
    n_draws: int  # per case


TABLE_MEASURES = ("tables", "noise", "customers", "mistakes", "real tables")  # by draw_table

PLAN = {
    "tables": TrustMeasure(draw_table, (("features",), ("graph",)), 60),
    "noise": TrustMeasure(draw_table, (("noise",), ("noise graph",)), 12),
    "customers": TrustMeasure(draw_table, (("customers",),), 12),
    "mistakes": TrustMeasure(draw_table, (("mistakes",),), 24),
    "real tables": TrustMeasure(
        draw_table, (("digits",), ("cora",), ("right digits",), ("right cora",)), 5
    ),
    "uneven": TrustMeasure(draw_uneven, (("uneven", 200), ("uneven", 400)), 10),
    "choice": TrustMeasure(draw_choice, (("cora",), ("citeseer",), ("digits",)), 10),
    "influence": TrustMeasure(
        draw_influence, (("block", 2, 16), ("iris", 4, 16), ("moons", 4, 16)), 1
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
        where = {"what": self.name, "case": list(self.case), "seed": self.seed}
        return where | found | {"seconds": time.perf_counter() - started}


def list_draws(
    names: Sequence[str], first: int, most: int | None = None, done: Iterable[Row] = ()
) -> list[Draw]:
    """Return the draws of some measures, interleaved so that an aborted run has some of each.

    Seeds start at ``first``; with ``most`` there are at most this many draws per case. Draws whose
    rows are ``done`` are left out, and those of published graphs without their files.
    """
    made = {(row["what"], tuple(row["case"]), row["seed"]) for row in done}
    missing = () if ENVIRONMENT in os.environ else ("cora", "right cora", "citeseer")
    found = []
    for name in names:
        measure = PLAN[name]
        n_draws = measure.n_draws if most is None else min(most, measure.n_draws)
        found += [
            (k / n_draws, Draw(name, case, first + k))
            for case in measure.cases
            for k in range(n_draws)
            if case[0] not in missing and (name, case, first + k) not in made
        ]
    return [draw for _, draw in sorted(found, key=lambda pair: pair[0])]


def run_draws(draws: Sequence[Draw], n_jobs: int, deadline: float | None = None) -> Iterator[Row]:
    """Run draws in parallel; yield each row when it is finished."""
    work = Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    for row in work(delayed(draw.make)(deadline) for draw in draws):
        if row is not None:
            yield row
