"""One draw of each measure of reasons: the effect of labels, and what to label next."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from glnn import GLNNClassifier
from glnn_lab.experiments.trust_answers import Case, Row
from glnn_lab.experiments.trust_draws import per_class, table

SIZES = (2, 4, 8, 20)
"""Labels a class, on average, after which accuracy is measured."""

_TELLING = 0.05
_MOST_NODES = 200
_N_TEST = 800


def influence(case: Case, seed: int) -> Row:
    """Effects of labels by one fit and by really leaving each out; (table, labels a class, draw).

    The fit with ``seed`` estimates what each label adds to the probability of its own class at
    each node; the whole fit runs again without each label and with the same seed. Over many seeds
    :func:`influence_rows` compares the two.
    """
    x, labels, graph = _small(case[0], case[2])
    seen = per_class(labels, case[1], np.random.default_rng(case[2]))
    labelled = np.flatnonzero(seen >= 0)
    model = GLNNClassifier(random_state=seed, calibrate=None)
    whole = model.fit(x, seen, graph).label_distributions_
    real, guessed = [], np.zeros((len(labelled), len(labels)))
    for node in range(len(labels)):
        for voice in model.explain(node, n_links=0, n_labels=len(labelled)).voices:
            guessed[np.searchsorted(labelled, voice.node), node] = voice.effect
    for node in labelled.tolist():
        fewer = seen.copy()
        fewer[node] = -1
        again = GLNNClassifier(random_state=seed, calibrate=None).fit(x, fewer, graph)
        real.append((whole - again.label_distributions_)[:, labels[node]])
    hidden = seen < 0
    return {"estimated": guessed[:, hidden], "real": np.array(real)[:, hidden]}


def influence_rows(drawn: Sequence[Row]) -> Row:
    """Return how well the estimate of one fit agrees with the mean real effect over all seeds.

    ``rank correlation`` is Spearman's over the labels of a node, mean over the seeds whose fit
    estimates and over the nodes at which some label moves the probability of its class by 0.05 or
    more: at the others there is nothing to rank but noise, and ``at all nodes`` has them, too. ``of
    all pairs`` is over the labels of these nodes at once. ``half against half`` compares the real
    effects of one half of the seeds with those of the other half: what noise leaves to agree with.
    """
    real = np.stack([row["real"] for row in drawn])
    mean, half = real.mean(0), len(real) // 2
    guesses = [row["estimated"] for row in drawn]
    told = np.abs(mean).max(0) >= _TELLING
    pairs = [spearmanr(g[:, told].ravel(), mean[:, told].ravel())[0] for g in guesses]
    found: Row = {
        "rank correlation": float(np.mean([by_node(g[:, told], mean[:, told]) for g in guesses])),
        "at all nodes": float(np.mean([by_node(g, mean) for g in guesses])),
        "of all pairs": float(np.mean(pairs)),
        "nodes": int(told.sum()),
        "seeds": len(drawn),
    }
    if half:
        found["half against half"] = by_node(
            *(part[:, :, told].mean(0) for part in (real[:half], real[half:]))
        )
    return found


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
