"""One draw of each measure of reasons: the effect of labels, and what to label next."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from glnn import GLNNClassifier
from glnn_lab.experiments.trust_answers import Case, Row
from glnn_lab.experiments.trust_draws import per_class, table

SIZES = (2, 4, 8, 20)
"""Labels a class, on average, after which accuracy is measured."""

_TELLING = 0.05
_EXPLAIN_EVERY = 4
_MOST_NODES = 200
_N_TEST = 800


def influence(case: Case, seed: int) -> Row:
    """Effects of labels by one fit and by really leaving each out; (table, labels a class, draw).

    The whole fit runs with ``seed``, and again without each label: what each label really adds to
    the probability of its own class at each node. The fit also estimates these effects, and in
    every fourth draw ``explain`` is asked for them as it answers by itself. Over many seeds
    :func:`influence_rows` compares.
    """
    x, labels, graph = _small(case[0], case[2])
    seen = per_class(labels, case[1], np.random.default_rng(case[2]))
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
    """Return what ``explain`` says that labels add to their own classes, labels x nodes."""
    n_nodes = len(model.transduction_)
    found = np.zeros((len(labelled), n_nodes))
    for node in range(n_nodes):
        why = model.explain(node, n_links=0, n_labels=len(labelled), refits=refits)
        for voice in why.voices:
            found[np.searchsorted(labelled, voice.node), node] = voice.effect
    return found


def influence_rows(drawn: Sequence[Row]) -> Row:
    """Return how well what a fit says of its labels agrees with really leaving them out.

    ``rank correlation`` is Spearman's over the labels of a node, between what ``explain`` says by
    itself and the real effects in the same fit; mean over fits, and over nodes at which some label
    moves the probability of its class by 0.05 or more: at the others there is nothing to rank but
    noise. The others are with the mean real effect over all seeds: ``one fit``, the real effects
    of a single fit with the mean over the others; ``estimate``, those that a fit estimates; and
    ``half against half``, one half of the seeds with the other half: what noise leaves to agree
    with.
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
        found["half against half"] = by_node(*halves)
    return found


def _agreement(said: np.ndarray, real: np.ndarray) -> float:
    """Return the rank correlation at the nodes that some label really moves."""
    moved = _is_moved(real)
    return by_node(said[:, moved], real[:, moved])


def _is_moved(effects: np.ndarray) -> np.ndarray:
    moved: np.ndarray = np.abs(effects).max(0) >= _TELLING
    return moved


def _mean_of(numbers: Iterable[float]) -> float:
    return float(np.mean(list(numbers)))


def by_node(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean over columns of their rank correlation; constant ones have none.

    Examples
    --------
    >>> by_node(np.array([[1, 5], [2, 6], [3, 7]]), np.array([[1, 3], [2, 2], [9, 1]]))
    0.0
    """
    has_ranks = (np.ptp(first, 0) > 0) & (np.ptp(second, 0) > 0)
    pairs = zip(first.T[has_ranks], second.T[has_ranks])
    return float(np.mean([spearmanr(a, b)[0] for a, b in pairs]))


def _small(name: str, draw: int) -> tuple[Any, np.ndarray, Any]:
    """Return a table, at most 200 rows of it where it has no graph."""
    x, y, graph = table(name, draw)
    if graph is not None or len(y) <= _MOST_NODES:
        return x, y, graph
    rows = np.random.default_rng(draw).choice(len(y), _MOST_NODES, replace=False)
    return x[rows], y[rows], None


Choice = Callable[[Any, np.ndarray, int], np.ndarray]


def choice(case: Case, seed: int) -> Row:
    """Accuracy with labels that ``suggest_labels`` asks for, and with random ones; of (table).

    A draw begins with two random labels a class and adds more, up to 20 a class on average, by
    suggestion and in a second run at random; after each step a fit of one round runs. Accuracy is
    that on 800 random nodes which are never labelled.
    """
    x, y, graph = table(case[0], seed)
    rng = np.random.default_rng(seed)
    known, n_classes = np.flatnonzero(y >= 0), int(y.max()) + 1
    test = rng.choice(known, _N_TEST, replace=False)
    pool = np.setdiff1d(known, test)
    start = per_class(np.where(np.isin(np.arange(len(y)), pool), y, -1), SIZES[0], rng)

    def fitted(labelled: np.ndarray) -> Any:
        seen = np.full(len(y), -1)
        seen[labelled] = y[labelled]
        model = GLNNClassifier(random_state=seed, n_rounds=1, calibrate=None)
        return model.fit(x, seen, graph)

    first = fitted(np.flatnonzero(start >= 0))

    def curve(choose: Choice) -> list[float]:
        labelled, model, right = np.flatnonzero(start >= 0), first, []
        for size in SIZES[1:]:
            may, k = np.setdiff1d(pool, labelled), size * n_classes - len(labelled)
            labelled = np.concatenate([labelled, choose(model, may, k)])
            model = fitted(labelled)
            right.append(float((model.transduction_ == y)[test].mean()))
        return right

    suggested = curve(lambda m, may, k: np.asarray(m.suggest_labels(k, among=may)["node"]))
    at_random = curve(lambda m, may, k: rng.choice(may, k, replace=False))
    return {
        "gain": float(np.mean(suggested) - np.mean(at_random)),
        **{f"suggested {size}": right for size, right in zip(SIZES[1:], suggested)},
        **{f"random {size}": right for size, right in zip(SIZES[1:], at_random)},
    }
