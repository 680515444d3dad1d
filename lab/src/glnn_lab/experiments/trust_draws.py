"""Tables with known answers, and labels drawn from them, for the measures of trust."""

import os
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_moons,
)

from glnn import load_dataset
from glnn.data import encode_frame
from glnn.data.registry import ENVIRONMENT
from glnn.data.synthetic import block_model

_OF_SKLEARN = {
    "digits": load_digits,
    "wine": load_wine,
    "cancer": load_breast_cancer,
    "iris": load_iris,
}
_AS_PEOPLE_HAVE_THEM = ("gaps", "text", "dates")


def table(name: str, seed: int) -> tuple[Any, np.ndarray, Any]:
    """Return features, class numbers and graph (``None`` without one) of a named table.

    Parameters
    ----------
    name
        One of scikit-learn's (``digits``, ``wine``, ``cancer``, ``iris``); one made here
        (``moons``; ``uneven``: classes of 80, 15 and 5 %; ``wide``: 300 columns; ``gaps``,
        ``text``, ``dates``; ``block``: a block model with its graph); or a published set.
    seed
        Of those that are made here.
    """
    if name in _OF_SKLEARN:
        return *_OF_SKLEARN[name](return_X_y=True), None
    if name == "moons":
        return *make_moons(400, noise=0.25, random_state=seed), None
    if name == "uneven":
        shape = {"n_informative": 6, "n_classes": 3, "weights": [0.8, 0.15, 0.05]}
        return *make_classification(2000, 20, flip_y=0.02, random_state=seed, **shape), None
    if name == "wide":
        return *make_classification(500, 300, n_informative=8, random_state=seed), None
    if name in _AS_PEOPLE_HAVE_THEM:
        return *_with_untidy_columns(name, seed), None
    data = (
        block_model(120, 3, degree=6, n_features=10, seed=seed)
        if name == "block"
        else load_dataset(name, folder=os.environ.get(ENVIRONMENT))
    )
    return data.features, data.labels, data.graph


def _with_untidy_columns(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table with gaps, a column of text or one of dates, as the library encodes it."""
    rng = np.random.default_rng(seed)
    x, y = make_classification(400, 8, n_informative=5, random_state=seed)
    frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(8)])
    told = np.where(rng.random(400) < 0.7, y, rng.integers(0, 2, 400))  # what the column tells
    if kind == "gaps":
        frame = frame.mask(rng.random(frame.shape) < 0.1)
    elif kind == "text":
        frame["town"] = [
            f"town {4 * number + k}" for number, k in zip(told, rng.integers(0, 6, 400))
        ]
    else:
        days = pd.to_timedelta(200 * told + rng.integers(0, 300, 400), "D")
        frame["since"] = pd.Timestamp("2020-01-01") + days
    found, _ = encode_frame(frame, encode="auto", missing="indicator", dates=True)
    return found.to_numpy(), y


def at_random(y: np.ndarray, n_labels: int, rng: np.random.Generator) -> np.ndarray:
    """Show the labels of so many nodes drawn from all, at least two of each class; -1 elsewhere.

    Examples
    --------
    >>> shown = at_random(np.arange(30) % 3, 9, np.random.default_rng(0))
    >>> int((shown >= 0).sum()), bool((np.bincount(shown[shown >= 0]) >= 2).all())
    (9, True)
    """
    while True:
        seen = np.full(len(y), -1)
        chosen = rng.permutation(np.flatnonzero(y >= 0))[:n_labels]
        seen[chosen] = y[chosen]
        if np.bincount(y[chosen], minlength=y.max() + 1).min() >= 2:
            return seen


def per_class(y: np.ndarray, n_each: int, rng: np.random.Generator) -> np.ndarray:
    """Show so many labels of each class; -1 elsewhere.

    Examples
    --------
    >>> shown = per_class(np.arange(30) % 3, 2, np.random.default_rng(0))
    >>> np.bincount(shown[shown >= 0]).tolist()
    [2, 2, 2]
    """
    seen = np.full(len(y), -1)
    for number in range(y.max() + 1):
        seen[rng.permutation(np.flatnonzero(y == number))[:n_each]] = number
    return seen
