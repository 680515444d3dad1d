"""From labels of any kind to class numbers, and back."""

import numbers
import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from glnn._utils import by_rows, check_choice, check_indices
from glnn.data.arguments import plain_labels
from glnn.distributed import ALONE, Peers
from glnn.exceptions import InputError
from glnn.graph.rows import dense_rows

# --- labels: From labels of any kind to class numbers, and back

UNLABELLED = -1


def encode_labels(y: Any, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and the class number of every node, -1 where unlabelled.

    Parameters
    ----------
    y
        One label a node. Unlabelled is ``-1`` for numbers, and ``None``, NaN, ``""`` or ``"-1"``
        for text and objects.
    n_nodes
        Number of rows of the features.

    Examples
    --------
    >>> encode_labels(["cat", "", "ant", " cat"], 4)
    (array(['ant', 'cat'], dtype='<U4'), array([ 1, -1,  0,  1]))
    """
    labels = as_labels(y)
    _check_targets(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; its only column is taken.",
            DataConversionWarning,
            stacklevel=3,
        )
        labels = labels[:, 0]
    if labels.shape != (n_nodes,):
        raise InputError(
            f"y must have one label for each of the {n_nodes} rows of X, got shape {labels.shape}. "
            "Mark unlabelled rows with -1."
        )
    known = ~is_unlabelled(labels)
    if not known.any():
        raise InputError("y must label at least two classes, got no label at all.")
    try:
        classes, numbers = np.unique(labels[known], return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels[known]})
        raise InputError(
            f"y must hold labels of one sortable type, got {', '.join(kinds)}."
        ) from None
    if len(classes) < 2:
        hint = "" if known.all() else _minus_one_hint(labels[~known])
        only = classes.tolist()[0]
        raise InputError(f"y must label at least two classes, got one class only ({only!r}).{hint}")
    encoded = np.full(n_nodes, UNLABELLED, dtype=np.int64)
    encoded[known] = numbers
    return classes, encoded


def as_labels(y: Any) -> np.ndarray:
    """Return labels as an array: text without blanks around it, numbers beside gaps as numbers.

    Missing values of pandas become ``None``, or -1 among numbers.

    Examples
    --------
    >>> as_labels(["loyal", " loyal", None])
    array(['loyal', 'loyal', None], dtype=object)
    >>> as_labels([3, None, 5])
    array([ 3, -1,  5])
    """
    labels = np.asarray(plain_labels(y))
    if labels.dtype.kind == "U":
        bare = [label.strip() for label in labels.ravel()]
        return np.array(bare, dtype=labels.dtype).reshape(labels.shape)
    if labels.dtype.kind != "O" or labels.ndim != 1:
        return labels
    known = [label for label in labels if label is not None]
    if known and all(isinstance(k, numbers.Integral) and not isinstance(k, bool) for k in known):
        return np.array([UNLABELLED if label is None else int(label) for label in labels])
    found = np.empty(len(labels), dtype=object)
    found[:] = [label.strip() if isinstance(label, str) else label for label in labels]
    return found


def split_labels(
    encoded: np.ndarray, validation: Any, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the training nodes and, apart from them, the validation nodes, of which none may be.

    Parameters
    ----------
    encoded
        Class numbers of all nodes, -1 where unlabelled.
    validation
        Numbers or mask of labelled nodes, or ``None``.
    n_classes
        Number of classes, all of which must have a training label left.
    """
    labelled = np.flatnonzero(encoded != UNLABELLED)
    none = np.empty(0, dtype=np.int64)
    held = none if validation is None else check_indices("validation", validation, len(encoded))
    if (encoded[held] == UNLABELLED).any():
        n_bad = int((encoded[held] == UNLABELLED).sum())
        raise InputError(f"validation must name labelled rows, got {n_bad} without a label.")
    train = np.setdiff1d(labelled, held)
    n_left = np.unique(encoded[train]).size
    if n_left < n_classes:
        raise InputError(
            f"y must leave training labels of all {n_classes} classes outside validation, "
            f"got {n_left}."
        )
    return train, held


def _check_targets(labels: np.ndarray) -> None:
    """Refuse targets that are no classes, with scikit-learn's own words for them."""
    if labels.ndim == 1 and labels.dtype.kind in "iub":
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise InputError(str(error)) from None


def _minus_one_hint(unlabelled: np.ndarray) -> str:
    """Return a word for those who use -1 as a class."""
    if not np.isin(unlabelled.astype(np.str_), ["-1", "-1.0"]).any():
        return ""
    return " -1 marks unlabelled rows: if it is a class, rename it, as in np.where(y < 0, 0, 1)."


def is_unlabelled(labels: np.ndarray) -> np.ndarray:
    """Return which labels say that there is none, as a mask."""
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise InputError("y must hold finite labels, got infinity.")
        whole = labels[np.isfinite(labels)]
        if (whole != np.round(whole)).any():
            raise InputError(
                "y must hold classes, got continuous values: Unknown label type: continuous. "
                "Bin them first."
            )
        return np.asarray(np.isnan(labels) | (labels == UNLABELLED))
    if labels.dtype.kind in "iu":
        return np.asarray(labels == UNLABELLED)
    if labels.dtype.kind == "b":
        return np.zeros(labels.shape, dtype=bool)
    if labels.dtype.kind == "U":
        return np.isin(labels, ["", "-1"])
    if labels.dtype.kind == "O":
        return np.array([_is_missing(label) for label in labels], dtype=bool)
    raise InputError(f"y must hold whole numbers or text, got dtype {labels.dtype}.")


def _is_missing(label: Any) -> bool:
    is_nan = isinstance(label, float) and label != label
    return label is None or is_nan or (isinstance(label, (int, str)) and label in (-1, "", "-1"))


def encode_classes(classes: np.ndarray) -> dict[str, Any]:
    """Return the classes as JSON can hold them, with their kind."""
    kind = {"i": "integer", "u": "integer", "b": "boolean", "f": "float"}.get(classes.dtype.kind)
    if kind is None and not all(isinstance(label, str) for label in classes.tolist()):
        raise InputError(
            "classes must be numbers or text to be saved, got "
            f"{', '.join(sorted({type(label).__name__ for label in classes.tolist()}))}."
        )
    return {"kind": kind or "text", "values": classes.tolist()}


def decode_classes(page: dict[str, Any]) -> np.ndarray:
    """Return the classes that :func:`encode_classes` wrote."""
    dtypes = {"integer": np.int64, "boolean": np.bool_, "float": np.float64, "text": np.str_}
    return np.array(page["values"], dtype=dtypes[page["kind"]])


# --- scaling: How features are brought to a common scale, by a rule that is fitted once and writte

ScalingName = Literal["auto", "rows", "columns", "trimmed", "unit", "none"]
SCALINGS = get_args(ScalingName)
ScalingKind = Literal["rows", "columns", "trimmed", "unit", "none"]
"""What ``auto`` comes to."""

_FAR = 5.0
"""Deviations from the mean at which a trimmed entry stays."""


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling of features: the same for training rows and for new ones.

    Parameters
    ----------
    kind
        ``rows``: each row is divided by its sum, as for bags of words. ``columns``: each column
        gets mean 0 and variance 1. ``trimmed``: the same, and no entry is more than five
        deviations from its mean: a few extreme rows would stretch all distances. ``unit``: columns
        share one unit (pixels, say), so they are centred and divided by one number. ``none``:
        nothing is done.
    center, scale
        What is subtracted from and divided by, column by column; empty for ``rows``, ``none``.
    """

    kind: ScalingKind
    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(
        cls, features: Any, kind: ScalingName = "auto", peers: Peers = ALONE, *, trims: bool = False
    ) -> "Scaling":
        """Choose and fit a scaling; several processes give their rows and get the same one.

        ``auto`` takes ``rows`` for non-negative features of which at most a third are not zero,
        ``unit`` if the widest column spans at most four times the median span of the columns
        that vary, and ``columns`` otherwise; ``trimmed`` if it ``trims``.
        """
        check_choice("scaling", kind, SCALINGS)
        taken = _natural_kind(features, peers, trims=trims) if kind == "auto" else kind
        if taken in ("rows", "none"):
            return cls(taken, np.empty(0), np.empty(0))
        dense = dense_rows(features)
        n_nodes = peers.all_reduce(float(len(dense)))
        center = peers.all_reduce(dense.sum(0, dtype=np.float64)) / n_nodes
        scale = np.sqrt(peers.all_reduce(np.square(dense - center).sum(0)) / n_nodes)
        if taken == "unit":
            scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
        tiny = scale <= 1e-12 * np.maximum(1.0, np.abs(center))
        return cls(taken, center, np.where(tiny, 1.0, scale))

    def apply(self, features: Any) -> Any:
        """Return scaled features in float32; sparse stays sparse where no centre is taken."""
        if self.kind == "none":
            return features.astype(np.float32)
        if self.kind == "rows":
            sums = np.asarray(abs(features).sum(1), dtype=np.float64).ravel()
            inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
            if sp.issparse(features):
                return sp.csr_matrix(sp.diags(inverse) @ features).astype(np.float32)
            return (features * inverse[:, None]).astype(np.float32)
        return by_rows(self._applied, dense_rows(features))

    def _applied(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows with their columns scaled."""
        scaled: np.ndarray = (rows - self.center) / self.scale
        if self.kind == "trimmed":
            scaled = np.clip(scaled, -_FAR, _FAR)
        return scaled.astype(np.float32)


def _natural_kind(features: Any, peers: Peers, *, trims: bool) -> ScalingKind:
    stored = features.data if sp.issparse(features) else features
    n_filled = peers.all_reduce(float(np.count_nonzero(stored)))
    n_entries = peers.all_reduce(float(features.shape[0] * features.shape[1]))
    lowest = -peers.all_reduce(-float(stored.min(initial=0)), "max")
    if n_filled * 3 <= n_entries and lowest >= 0:
        return "rows"
    dense = dense_rows(features)
    high, low = dense.max(0).astype(np.float64), dense.min(0).astype(np.float64)
    span = peers.all_reduce(high, "max") + peers.all_reduce(-low, "max")
    span = span[span > 0]
    if span.size and span.max() <= 4 * np.median(span):
        return "unit"
    return "trimmed" if trims else "columns"


# --- seeding: Every random number of a fit comes from generators made here; where it runs is check


def generator_for(seed: int, *stream: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return an independent generator for a numbered stream of one seed.

    Examples
    --------
    >>> a = torch.rand(1, generator=generator_for(0, 1))
    >>> b = torch.rand(1, generator=generator_for(0, 1))
    >>> bool(a == b)
    True
    """
    state = np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


def check_device(device: Any) -> str:
    """Return the name of a device that PyTorch has here.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu' or 'cuda', got {device!r}.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"device must exist, got {device!r}, but PyTorch sees no CUDA device here. Use 'cpu'."
        )
    return str(device)
