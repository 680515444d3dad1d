"""Which labels are hidden together, so that every label can be judged unseen."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from joblib import Parallel, delayed
from safetensors import SafetensorError
from safetensors.numpy import load, save
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from glnn._utils import check_integer
from glnn.data.files import atomic_write, cannot_write, shown_path
from glnn.engine.archive import read_sealed, write_sealed
from glnn.engine.fit_problem import FitRecord
from glnn.engine.inputs import UNLABELLED, as_labels, is_unlabelled
from glnn.exceptions import CheckpointError, InputError
from glnn.quality.calibration import Calibration, fit_calibration

# --- folds: Which labels are hidden together, so that every label can be judged unseen

_REPEATED = 5
"""Folds that may hide a label more than once, where labels are few."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Groups of labelled nodes that are hidden together, one fit for each.

    Parameters
    ----------
    hidden
        Node numbers, one array for each fold.
    single
        Classes with one label. It always trains: without it the class would be unknown.
    is_repeated
        Whether some labels are hidden more than once, because a class has fewer than folds.
    """

    hidden: tuple[np.ndarray, ...]
    single: np.ndarray
    is_repeated: bool = False

    def __len__(self) -> int:
        return len(self.hidden)

    @property
    def nodes(self) -> np.ndarray:
        """Every node that is hidden at least once, sorted."""
        return np.unique(np.concatenate(self.hidden))


def stratified_folds(classes: np.ndarray, n_folds: int, seed: int) -> Folds:
    """Deal the labelled nodes into folds, each class evenly.

    A class with at least ``n_folds`` labels is dealt by scikit-learn's ``StratifiedKFold``. A
    class with fewer (two or more) has one label hidden in every fold, each of them in turn:
    leave-some-out, repeated. Beyond five there are no more folds than labels in the largest class:
    from there on every fold hides one label of each class, and more would only repeat fits. To
    hide one label alone would tell a fit its class, as that one would be rarer than the others.

    Parameters
    ----------
    classes
        Class number of every node, -1 where it has no label or must not be hidden.
    n_folds
        Number of folds that are asked for, 2 or more.
    seed
        Of the deal.

    Examples
    --------
    >>> folds = stratified_folds(np.array([0, 0, 0, 1, 1, 1, 2, -1]), 3, seed=0)
    >>> folds.nodes.tolist(), folds.single.tolist(), [len(nodes) for nodes in folds.hidden]
    ([0, 1, 2, 3, 4, 5], [2], [2, 2, 2])
    """
    check_integer("folds", n_folds, low=2)
    numbers, counts = np.unique(classes[classes >= 0], return_counts=True)
    if not (counts >= 2).any():
        raise InputError(
            f"too few labels to tell: {len(numbers)}. Folds must hide labels of classes that have "
            f"another one, got one label in each of {len(numbers)} classes. Label more rows, two "
            "of a class at least."
        )
    rng = np.random.default_rng(seed)
    n_folds = min(n_folds, most_folds(classes))
    common, rare = numbers[counts >= n_folds], numbers[(counts >= 2) & (counts < n_folds)]
    parts = [[np.empty(0, np.int64)] for _ in range(n_folds)]
    if common.size:
        nodes = np.flatnonzero(np.isin(classes, common))
        dealer = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
        for part, (_, places) in zip(parts, dealer.split(nodes, classes[nodes])):
            part.append(nodes[places])
    for number in rare:
        turn = rng.permutation(np.flatnonzero(classes == number))
        for fold, part in enumerate(parts):
            part.append(turn[[fold % len(turn)]])
    hidden = tuple(np.sort(np.concatenate(part)) for part in parts)
    return Folds(hidden, numbers[counts == 1], bool(rare.size))


def most_folds(classes: np.ndarray) -> int:
    """Return how many folds tell something of these labels: more would only repeat fits.

    Examples
    --------
    >>> most_folds(np.array([0] * 7 + [1, -1])), most_folds(np.array([0, 0, 1]))
    (7, 5)
    """
    return max(_REPEATED, int(np.bincount(classes[classes >= 0], minlength=1).max()))


def one_group(classes: np.ndarray, share: float, seed: int) -> Folds:
    """Hide one share of the labels of every class that has two or more, at least one of each.

    Examples
    --------
    >>> len(one_group(np.array([0] * 6 + [1] * 3), 1 / 3, seed=0).hidden[0])
    3
    """
    n_folds = max(2, round(1 / share))
    folds = stratified_folds(classes, n_folds, seed)
    return Folds(folds.hidden[:1], folds.single)


# --- held_out: Predictions of labels that were hidden: one fit for each fold, the same machinery a

Refit = Callable[[np.ndarray], np.ndarray]
"""Fits without the labels of some nodes; returns raw class probabilities of every node."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What fits say of every node without knowing its label.

    Parameters
    ----------
    probabilities
        Raw class probabilities, nodes x classes. A judged node's come from the fits that its
        label was hidden from (their mean, if there are several); those of a node without a label
        from one fit of the same kind, so that the two can be compared. Rows of labelled nodes
        that were never hidden come from a fit that knew their label.
    classes
        Class number of each judged node; -1 for all others.
    fold
        Which fit a row comes from.
    """

    probabilities: np.ndarray
    classes: np.ndarray
    fold: np.ndarray

    @property
    def n_folds(self) -> int:
        """Number of fits that the rows come from."""
        return int(self.fold.max()) + 1

    @property
    def judged(self) -> np.ndarray:
        """Numbers of the nodes whose hidden label is known."""
        return np.flatnonzero(self.classes >= 0)

    def calibration(
        self, keep: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> Calibration:
        """Learn the map to calibrated probabilities from the judged nodes.

        Parameters
        ----------
        keep
            Which nodes may teach, a mask; all by default.
        weights
            How much each node counts, by node number.
        """
        known = self.classes >= 0
        nodes = np.flatnonzero(known if keep is None else known & keep)
        chosen = None if weights is None else weights[nodes]
        return fit_calibration(self.probabilities[nodes], self.classes[nodes], chosen)

    def calibrated(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return calibrated probabilities of every node, by a map that its fold did not teach."""
        found = np.array(self.probabilities, dtype=np.float64)
        for number in np.unique(self.fold):
            own = self.fold == number
            found[own] = self.calibration(~own, weights).apply(self.probabilities[own])
        return found


def hold_out(
    refit: Refit,
    classes: np.ndarray,
    folds: Folds,
    *,
    n_jobs: int | None = 1,
    watch: Callable[[int], None] | None = None,
) -> HeldOut:
    """Fit once for each fold without its labels, and gather what each fit says of hidden nodes.

    Parameters
    ----------
    refit
        Given the numbers of the nodes to hide, returns raw probabilities of every node.
    classes
        Class number of each labelled node, -1 elsewhere.
    folds
        Which labels are hidden together.
    n_jobs
        Fits at a time, as in joblib.
    watch
        Told the number of each fold before its fit, where fits are made one after another.
    """
    if n_jobs == 1:
        found = (_told(refit, hidden, number, watch) for number, hidden in enumerate(folds.hidden))
    else:
        found = iter(Parallel(n_jobs)(delayed(refit)(hidden) for hidden in folds.hidden))
    n_nodes = len(classes)
    fold = np.arange(n_nodes) % len(folds)
    times = np.zeros(n_nodes)
    total: np.ndarray | None = None
    for number, (hidden, probabilities) in enumerate(zip(folds.hidden, found)):
        if total is None:
            total = np.zeros(probabilities.shape)
        total[hidden] += probabilities[hidden]
        fold[hidden[times[hidden] == 0]] = number
        times[hidden] += 1
        others = (fold == number) & ~np.isin(np.arange(n_nodes), folds.nodes)
        total[others] = probabilities[others]
    assert total is not None  # there are at least two folds
    total /= np.maximum(times, 1)[:, None]
    judged = np.where(times > 0, classes, -1)
    return HeldOut(total, judged, fold)


def _told(
    refit: Refit, hidden: np.ndarray, number: int, watch: Callable[[int], None] | None
) -> np.ndarray:
    if watch is not None:
        watch(number)
    return refit(hidden)


def of_validation(probabilities: np.ndarray, classes: np.ndarray, nodes: np.ndarray) -> HeldOut:
    """Return what a fit says of its validation nodes, which chose epochs but never trained."""
    judged = np.full(len(classes), -1, dtype=np.int64)
    judged[nodes] = classes[nodes]
    return HeldOut(probabilities, judged, np.zeros(len(classes), dtype=np.int64))


# --- fold_store: What the fits of an estimate have said, on disk: one that was cut off goes on wit

FORMAT, VERSION, PAGE = "glnn-folds", 1, "folds.json"


@dataclass(frozen=True)
class StoredRefit:
    """A fit without some labels that is made once: what it said is read again from a folder.

    Parameters
    ----------
    refit
        Fits without the labels of some nodes; returns raw class probabilities of every node.
    folder
        Where answers lie, one file each; get one from :func:`stored`.
    """

    refit: Refit
    folder: Path

    def __call__(self, hidden: np.ndarray) -> np.ndarray:
        """Return the answer without these labels, from the folder if it is there."""
        key = hashlib.sha256(np.ascontiguousarray(hidden, dtype=np.int64).data).hexdigest()[:16]
        for path in self.folder.glob(f"fold-{key}-*.safetensors"):
            return _read(path)
        found = np.asarray(self.refit(hidden))
        packed = save({"probabilities": np.ascontiguousarray(found)})
        name = f"fold-{key}-{hashlib.sha256(packed).hexdigest()[:16]}.safetensors"
        with atomic_write(self.folder / name, "wb") as file:
            file.write(packed)
        return found


def stored(refit: Refit, folder: Path, digest: bytes) -> StoredRefit:
    """Keep what a fit says in a folder; refuse a folder of another estimate in one line.

    Parameters
    ----------
    refit
        Fits without the labels of some nodes.
    folder
        Where; it is made if it is not there.
    digest
        Of all that the answers depend on: data, settings, seed.
    """
    path, page = folder / PAGE, {"estimate": digest.hex()}
    if path.exists():
        if read_sealed(path, FORMAT, VERSION)["estimate"] != page["estimate"]:
            raise CheckpointError(
                f"{shown_path(folder)} must hold folds of this very estimate, got those of other "
                "data, settings or seed. Name another folder, or remove it."
            )
        return StoredRefit(refit, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    write_sealed(path, FORMAT, VERSION, page)
    return StoredRefit(refit, folder)


def _read(path: Path) -> np.ndarray:
    try:
        packed = path.read_bytes()
        if path.stem.endswith(hashlib.sha256(packed).hexdigest()[:16]):
            return np.asarray(load(packed)["probabilities"])
    except (OSError, LookupError, SafetensorError):
        pass  # said below
    raise CheckpointError(f"{shown_path(path)} was damaged. Remove it to fit this fold again.")


# --- copies: Unfitted copies of an estimator, for fits without some labels


def unfitted(estimator: Any, **changes: Any) -> Any:
    """Return an unfitted copy with some parameters changed; those that it lacks are skipped.

    Unlike scikit-learn's ``clone`` it does not copy callbacks, which may hold a progress bar or
    an open file.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> unfitted(LogisticRegression(C=2.0), max_iter=7, callbacks=None)
    LogisticRegression(C=2.0, max_iter=7)
    """
    known = estimator.get_params(deep=False)
    wanted = {name: value for name, value in changes.items() if name in known}
    kept = {
        name: value if name == "callbacks" else clone(value, safe=False)
        for name, value in known.items()
        if name not in wanted
    }
    return type(estimator)(**kept, **wanted)


# --- labels: Labels as a fit is shown them, some of them hidden


def named_labels(classes: np.ndarray, encoded: np.ndarray) -> np.ndarray:
    """Return labels by class number; unlabelled is -1 for numbers and ``None`` for the rest.

    Examples
    --------
    >>> named_labels(np.array(["a", "b"]), np.array([1, -1]))
    array(['b', None], dtype=object)
    """
    known = encoded >= 0
    if classes.dtype.kind in "if":
        return np.where(known, classes[encoded], UNLABELLED)
    named = np.full(len(encoded), None, dtype=object)
    named[known] = classes[encoded[known]]
    return named


def without(classes: np.ndarray, encoded: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return the labels with those of some nodes hidden.

    Examples
    --------
    >>> without(np.array([5, 7]), np.array([0, 1, 1]), np.array([2]))
    array([ 5,  7, -1])
    """
    fewer = encoded.copy()
    fewer[hidden] = UNLABELLED
    return named_labels(classes, fewer)


def labelled_rows(y: Any) -> np.ndarray:
    """Return which rows have a label, as a mask; what counts as none is said in ``fit``.

    Examples
    --------
    >>> labelled_rows(["a", "", "b"])
    array([ True, False,  True])
    """
    return np.asarray(~is_unlabelled(as_labels(y)))


# --- refit: The same fit once more, without some of its labels


def refitted(
    estimator: Any,
    fitted_to: tuple[Any, Any, Any, Any],
    record: FitRecord,
    hidden: Int[np.ndarray, "h"],
    seed: int,
    sample_weight: Any = None,
    calibrate: Any = None,
) -> Float[np.ndarray, "n c"]:
    """Fit a copy without the labels of some nodes; return the class probabilities of all.

    A class that has no label left to train on has probability zero, and its validation nodes take
    no part.

    Parameters
    ----------
    estimator
        The fitted classifier.
    fitted_to, sample_weight
        What it was fitted to: features, labels, graph, validation nodes; weights of rows.
    record
        Which labels it was given, and which of them trained.
    hidden
        The nodes whose labels are left out.
    seed
        Of the fit.
    calibrate
        How the copy calibrates; ``None``: raw probabilities are returned.
    """
    X, _, graph, validation = fitted_to
    labels, trains = record.labels.copy(), record.trains.copy()
    labels[hidden], trains[hidden] = UNLABELLED, False
    n_classes = len(estimator.classes_)
    is_left = np.isin(np.arange(n_classes), labels[trains])
    found = np.zeros((len(labels), n_classes))
    if is_left.sum() == 1:
        found[:, is_left] = 1.0
        return found
    if not is_left.all():
        gone = np.flatnonzero((labels >= 0) & ~is_left[labels])
        hidden, labels[gone] = np.union1d(hidden, gone), UNLABELLED
        judges = np.flatnonzero((labels >= 0) & ~trains)
        validation = judges if len(judges) else None
    own = {"random_state": seed, "calibrate": calibrate, "callbacks": None, "verbose": False}
    if isinstance(estimator.class_weight, Mapping):
        left = set(estimator.classes_[is_left].tolist())
        weights = estimator.class_weight.items()
        own["class_weight"] = {label: weight for label, weight in weights if label in left}
    model = unfitted(estimator, **own)
    seen = without(estimator.classes_, record.labels, hidden)
    model.fit(X, seen, graph, validation, sample_weight=sample_weight)
    found[:, is_left] = model.label_distributions_
    return found


# --- weights: How much each label counts: class weights and sample weights together


def class_weights(class_weight: Any, classes: np.ndarray, encoded: np.ndarray) -> np.ndarray | None:
    r"""Return the weight of every class, or ``None`` where all count the same.

    ``balanced`` is scikit-learn's :math:`n / (C n_c)`.

    Parameters
    ----------
    class_weight
        ``None``, ``"balanced"``, or a number for each label; labels that are left out count 1.
    classes
        The labels, sorted.
    encoded
        Class number of the labelled nodes.

    Examples
    --------
    >>> class_weights("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]))
    array([0.66666667, 2.        ])
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        known = classes.tolist()
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise InputError(f"class_weight must name labels of y, got {unknown[0]!r}.")
        found = np.array([class_weight.get(label, 1.0) for label in known], dtype=np.float64)
    elif class_weight == "balanced":
        counts = np.bincount(encoded, minlength=len(classes))
        found = len(encoded) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    else:
        raise InputError(
            f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}."
        )
    if not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise InputError(
            f"class_weight must hold finite weights of at least 0, got {class_weight}."
        )
    return np.asarray(found)


def label_weights(
    class_weight: Any, sample_weight: Any, classes: np.ndarray, encoded: np.ndarray
) -> np.ndarray | None:
    """Return the weight of every node's label, or ``None`` where all count the same.

    Parameters
    ----------
    class_weight
        As in :func:`class_weights`.
    sample_weight
        One weight a node, or ``None``.
    classes, encoded
        The labels, and every node's class number, -1 where there is none.
    """
    by_class = class_weights(class_weight, classes, encoded[encoded >= 0])
    if by_class is None and sample_weight is None:
        return None
    weights = np.ones(len(encoded)) if sample_weight is None else _checked(sample_weight, encoded)
    return weights if by_class is None else weights * by_class[encoded]


def _checked(sample_weight: Any, encoded: np.ndarray) -> np.ndarray:
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must hold numbers, got others.") from None
    if weights.shape != encoded.shape:
        raise InputError(
            f"sample_weight must hold one weight for each of the {len(encoded)} rows, got shape "
            f"{weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise InputError(
            f"sample_weight must hold finite weights of at least 0, got {weights[bad[0]]:g} in row "
            f"{bad[0]}."
        )
    if not weights[encoded >= 0].any():
        raise InputError(
            "sample_weight must leave a label that counts, got a weight of zero for all of them."
        )
    return weights


# --- scorer: Scikit-learn's scores for data of which some rows have no label

Scorer = Callable[[Any, Any, Any], float]


def labelled_scorer(scoring: str = "accuracy") -> Scorer:
    """Return one of scikit-learn's scorers that leaves rows without a label out.

    Parameters
    ----------
    scoring
        Its name, such as ``accuracy``, ``balanced_accuracy``, ``f1_macro`` or ``neg_log_loss``.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> constant = DummyClassifier(strategy="constant", constant=1).fit([[0], [0]], [0, 1])
    >>> labelled_scorer()(constant, np.zeros((3, 1)), np.array([1, -1, 1]))
    1.0
    """
    scorer = get_scorer(scoring)

    def score(estimator: Any, X: Any, y: Any) -> float:
        known = np.flatnonzero(labelled_rows(y))
        if not known.size:
            raise InputError("a score needs rows with a label, got none.")
        labels = as_labels(y)[known]
        return float(
            scorer(estimator, _safe_indexing(X, known), labels.astype(estimator.classes_.dtype))
        )

    return score
