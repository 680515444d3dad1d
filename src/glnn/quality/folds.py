"""Cross-validation over the labels: predictions of hidden labels, refits, weights and scorers."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from glnn._utils import check_array, check_number
from glnn.data.files import make_folder
from glnn.data.labels import UNLABELLED, Folds, as_labels, is_unlabelled
from glnn.engine.archive import compute_digest, read_archive, write_archive
from glnn.exceptions import CheckpointError, InputError
from glnn.quality.calibration import Calibration, fit_calibration

# Predictions of hidden labels

# Fits without the labels of the given nodes; returns raw class probabilities of all nodes.
Refit = Callable[[np.ndarray], np.ndarray]
Watch = Callable[[str], None] | None  # called with the name of each step when it starts


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold predictions: each hidden label is predicted by fits that did not see it.

    ``probabilities`` of a node whose label was hidden are the mean over the fits that did not see
    the label. Those of an unlabelled node come from one of these fits, so that the two can be
    compared; those of a labelled node that was never hidden come from a fit that saw its label.
    """

    probabilities: np.ndarray  # raw class probabilities, nodes x classes
    classes: np.ndarray  # class number of each node whose label was hidden; -1 for all others
    fold: np.ndarray  # number of the fit that each row comes from

    @classmethod
    def of(
        cls,
        probabilities: np.ndarray,
        nodes: np.ndarray,
        classes: np.ndarray,
        hidden: np.ndarray | None = None,
        fold: np.ndarray | int = 0,
    ) -> "HeldOut":
        """Return predictions of all nodes, with those of ``nodes`` replaced by ``hidden`` ones.

        ``None``: the labels of these nodes were hidden from the fit of ``probabilities`` itself.
        """
        rows, n_nodes = probabilities, len(probabilities)
        known, folds = np.full(n_nodes, -1, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
        known[nodes], folds[nodes] = classes, fold
        if hidden is not None:
            rows = rows.copy()
            rows[nodes] = hidden
        return cls(rows, known, folds)

    @property
    def n_folds(self) -> int:
        """Number of fits."""
        return int(self.fold.max()) + 1

    @property
    def hidden_nodes(self) -> np.ndarray:
        """Numbers of the nodes whose labels were hidden."""
        return np.flatnonzero(self.classes >= 0)

    def without_fold(self, number: int) -> "HeldOut":
        """Return the predictions without the labels of one fold."""
        return replace(self, classes=np.where(self.fold == number, UNLABELLED, self.classes))

    def calibration(self, weights: np.ndarray | None = None) -> Calibration:
        """Fit a calibration to the predictions of the hidden labels.

        ``weights`` has a weight for each node; by default all hidden labels count alike.
        """
        nodes = self.hidden_nodes
        chosen = None if weights is None else weights[nodes]
        return fit_calibration(self.probabilities[nodes], self.classes[nodes], chosen)

    def calibrated(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return probabilities of all nodes, each calibrated with the other folds."""
        found = np.array(self.probabilities, dtype=np.float64)
        for number in np.unique(self.fold):
            own = self.fold == number
            others = self.without_fold(int(number)).calibration(weights)
            found[own] = others.apply(self.probabilities[own])
        return found


def hold_out(refit: Refit, classes: np.ndarray, folds: Folds, *, progress: Watch = None) -> HeldOut:
    """Fit once for each fold without its labels, and collect the out-of-fold predictions.

    ``classes`` is -1 for unlabelled nodes. ``progress`` is called with the name of each fold before
    its fit.
    """
    known, n_nodes = np.flatnonzero(classes >= 0), len(classes)
    fold, times = np.arange(n_nodes) % len(folds), np.zeros(n_nodes)
    never_hidden = ~np.isin(np.arange(n_nodes), folds.nodes)
    total: Any = None
    for number, (seen, hidden) in enumerate(zip(folds.seen, folds.hidden)):
        if progress is not None:
            progress(f"fold {number + 1} of {len(folds)}")
        probabilities = refit(np.setdiff1d(known, seen))
        total = np.zeros(probabilities.shape) if total is None else total
        total[hidden] += probabilities[hidden]
        fold[hidden[times[hidden] == 0]] = number
        times[hidden] += 1
        others = (fold == number) & never_hidden
        total[others] = probabilities[others]
    total /= np.maximum(times, 1)[:, None]
    return HeldOut(total, np.where(times > 0, classes, -1), fold)


# Cache of refits on disk


def cache_refit(refit: Refit, folder: Path, digest: bytes) -> Refit:
    """Return a refit that stores its results in a folder, or reads them if they are there.

    The folder is created if necessary, with a folder for each result. Results for other data,
    settings or seeds, which ``digest`` identifies, are not read, and damaged ones are computed
    again.
    """
    make_folder(folder)

    def cached(hidden: np.ndarray) -> np.ndarray:
        place = folder / f"fold-{compute_digest([digest.hex(), hidden]).hex()[:16]}"
        with contextlib.suppress(CheckpointError):  # missing or damaged: fitted again
            return np.asarray(read_archive(place, dict)["probabilities"])
        found = np.asarray(refit(hidden))
        write_archive(place, {"probabilities": found})
        return found

    return cached


# Refits without labels


def clone_with(estimator: Any, **changes: Any) -> Any:
    """Return an unfitted copy with changed parameters; parameters it does not have are skipped.

    Unlike scikit-learn's ``clone`` it does not copy callbacks, which may hold a progress bar or
    an open file.
    """
    known = estimator.get_params(deep=False)
    wanted = {name: value for name, value in changes.items() if name in known}
    kept = {
        name: value if name == "callbacks" else clone(value, safe=False)
        for name, value in known.items()
        if name not in wanted
    }
    return type(estimator)(**kept, **wanted)


def mask_labels(
    classes: np.ndarray, encoded: np.ndarray, hidden: np.ndarray, *, use_none: bool = True
) -> np.ndarray:
    """Return the labels with those of some nodes masked.

    The mask is ``None``, or NaN for floats. With ``use_none=False`` numbers are masked by -1, which
    is what classifiers of scikit-learn know.
    """
    known = encoded >= 0
    known[hidden] = False
    if classes.dtype.kind in "if" and not use_none:
        return np.where(known, classes[encoded], UNLABELLED)
    if classes.dtype.kind == "f":
        return np.where(known, classes[encoded], np.nan)
    named: np.ndarray = classes[encoded].astype(object)
    named[~known] = None
    return named


# Weights of labels


def class_weights(class_weight: Any, classes: np.ndarray, encoded: np.ndarray) -> np.ndarray | None:
    r"""Return the weight of every class, or ``None`` if all are equal.

    ``balanced`` is scikit-learn's :math:`n / (C n_c)`. Labels that a dictionary does not name have
    weight 1. ``encoded`` are the class numbers of the labelled nodes.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        known = classes.tolist()
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise InputError(f"class_weight must name labels of y, got {unknown[0]!r}.")
        given = [class_weight.get(label, 1.0) for label in known]
        found = np.array([check_number("class_weight", weight, low=0) for weight in given])
        if not found.any():
            raise InputError("class_weight must be positive for some class, got zero for all.")
    elif isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(encoded, minlength=len(classes))
        found = len(encoded) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    else:
        raise InputError(
            f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}."
        )
    return _rescale(found)


def label_weights(
    class_weight: Any, sample_weight: Any, classes: np.ndarray, encoded: np.ndarray
) -> np.ndarray | None:
    """Return the weight of the label of every node, or ``None`` if all are equal.

    ``encoded`` is -1 for unlabelled nodes.
    """
    by_class = class_weights(class_weight, classes, encoded[encoded >= 0])
    own = None if sample_weight is None else _check_sample_weight(sample_weight, encoded)
    if by_class is None or own is None:
        return own if by_class is None else np.asarray(by_class[encoded])
    return np.asarray(own * by_class[encoded])


def _rescale(weights: np.ndarray) -> np.ndarray:
    """Divide very large and very small weights by the largest, so that no sum overflows.

    Only the ratios of weights matter.
    """
    largest = weights.max()
    return weights if 1e-30 < largest < 1e30 else np.asarray(weights / largest)


def _check_sample_weight(sample_weight: Any, encoded: np.ndarray) -> np.ndarray:
    weights = check_array("sample_weight", sample_weight)
    is_right = weights.shape == encoded.shape and weights.dtype.kind in "fiub"
    if not is_right or not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(
            f"sample_weight must hold a finite weight of at least 0 for each of the {len(encoded)} "
            f"rows, got other values or shape {weights.shape}."
        )
    known = np.where(encoded >= 0, weights.astype(np.float64), 0.0)
    if not known.any():
        raise InputError(
            "sample_weight must be positive for some labelled row, got zero for all of them."
        )
    return _rescale(known)


# scikit-learn scorers


def labelled_scorer(scoring: str = "accuracy") -> Callable[[Any, Any, Any], float]:
    """Return a scorer of scikit-learn that ignores unlabelled rows, for ``cross_val_score``.

    Parameters
    ----------
    scoring : str, default "accuracy"
        Name of the scorer, such as ``balanced_accuracy``, ``f1_macro`` or ``neg_log_loss``. By its
        name alone scikit-learn would count -1 as a class.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> constant = DummyClassifier(strategy="constant", constant=1).fit([[0], [0]], [0, 1])
    >>> labelled_scorer()(constant, np.zeros((3, 1)), np.array([1, -1, 1]))
    1.0
    """
    scorer = get_scorer(scoring)

    def score(estimator: Any, X: Any, y: Any) -> float:
        given = as_labels(y)
        known = np.flatnonzero(~is_unlabelled(given))
        if not known.size:
            raise InputError("a score needs labelled rows, got none.")
        labels = given[known].astype(estimator.classes_.dtype)
        return float(scorer(estimator, _safe_indexing(X, known), labels))

    return score
