"""Prepare the inputs of a fit: encode labels, scale features, seed generators, check the device."""

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from glnn._utils import check_choice, check_indices, map_row_blocks
from glnn.data.arguments import convert_labels
from glnn.distributed import SINGLE_PROCESS, Peers
from glnn.exceptions import InputError
from glnn.graph.rows import to_dense_array

# Labels

UNLABELLED = -1  # class number of a node without a label


def encode_targets(y: Any, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and the class number of every node, -1 where unlabelled.

    In ``y``, ``-1`` marks an unlabelled node among numbers; ``None``, NaN, ``""`` or ``"-1"``
    among text and objects.

    Examples
    --------
    >>> encode_targets(["cat", "", "ant", " cat"], 4)
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
    """Return labels as an array, with surrounding blanks removed from text.

    Missing values of pandas become ``None``, or -1 among integers.

    Examples
    --------
    >>> as_labels(["loyal", " loyal", None])
    array(['loyal', 'loyal', None], dtype=object)
    >>> as_labels([3, None, 5])
    array([ 3, -1,  5])
    """
    labels = np.asarray(convert_labels(y))
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
    """Split the labelled nodes into training nodes and validation nodes.

    ``validation`` holds node numbers or is a mask; ``None`` leaves every labelled node in the
    training set. Every class must keep at least one training label.
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


def warn_of_class_minus_one(y: Any) -> None:
    """Warn if ``y`` holds -1, 0 and 1, and -1 is no more frequent than 0 and 1 on average."""
    if not isinstance(y, Sequence | np.ndarray | pd.Series):
        return
    labels = np.asarray(y)
    if labels.dtype.kind not in "if" or not np.isin(labels, (-1, 0, 1)).all():
        return
    counts = [int((labels == value).sum()) for value in (-1, 0, 1)]
    if counts[0] and 2 * counts[0] <= counts[1] + counts[2]:
        warnings.warn(
            "y holds -1, 0 and 1, and -1 is read as 'no label'. If it is a class, rename the "
            "classes, as in y + 1; if not, None in place of -1 silences this.",
            stacklevel=3,
        )


def _check_targets(labels: np.ndarray) -> None:
    """Refuse targets that are not classes, with scikit-learn's error message."""
    if labels.ndim == 1 and labels.dtype.kind in "iub":
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise InputError(str(error)) from None


def _minus_one_hint(unlabelled: np.ndarray) -> str:
    """Return a hint for labels that use -1 as a class."""
    if not np.isin(unlabelled.astype(np.str_), ["-1", "-1.0"]).any():
        return ""
    return " -1 marks unlabelled rows: if it is a class, rename it, as in np.where(y < 0, 0, 1)."


def is_unlabelled(labels: np.ndarray) -> np.ndarray:
    """Return the mask of the labels that mean "no label"."""
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


# Scaling of features

ScalingName = Literal["auto", "rows", "columns", "trimmed", "unit", "none"]
SCALINGS = get_args(ScalingName)
ScalingKind = Literal["rows", "columns", "trimmed", "unit", "none"]  # ``auto`` resolved

_MAX_DEVIATIONS = 5.0  # ``trimmed`` clips entries at this many standard deviations


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling of features, for training rows and for new ones.

    Kinds: ``rows`` divides each row by its sum, as for bags of words. ``columns`` gives each
    column mean 0 and variance 1. ``trimmed`` does the same and clips at five standard deviations,
    so that a few extreme rows do not stretch all distances. ``unit`` is for columns that share
    one unit, such as pixels: they are centred and divided by one number. ``none`` does nothing.
    """

    kind: ScalingKind
    center: np.ndarray  # subtracted from each column; empty for ``rows`` and ``none``
    scale: np.ndarray  # divides each column; empty for ``rows`` and ``none``

    @classmethod
    def fit(
        cls,
        features: Any,
        kind: ScalingName = "auto",
        peers: Peers = SINGLE_PROCESS,
        *,
        trims: bool = False,
    ) -> "Scaling":
        """Choose and fit a scaling; each process passes its rows, and all get the same result.

        ``auto`` takes ``rows`` for non-negative features with at most a third non-zero entries,
        ``unit`` if the widest column spans at most four times the median span of the columns
        that vary, and otherwise ``columns``, or ``trimmed`` if ``trims`` is set.
        """
        check_choice("scaling", kind, SCALINGS)
        taken = _choose_kind(features, peers, trims=trims) if kind == "auto" else kind
        if taken in ("rows", "none"):
            return cls(taken, np.empty(0), np.empty(0))
        dense = to_dense_array(features)
        n_nodes = peers.all_reduce(float(len(dense)))
        center = peers.all_reduce(dense.sum(0, dtype=np.float64)) / n_nodes
        scale = np.sqrt(peers.all_reduce(np.square(dense - center).sum(0)) / n_nodes)
        if taken == "unit":
            scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
        tiny = scale <= 1e-12 * np.maximum(1.0, np.abs(center))
        if tiny.all() and scale.any():
            warnings.warn(
                f"X varies by at most {scale.max():.0e} in every column and counts as constant. "
                "Multiply it, or subtract its columns' means.",
                stacklevel=2,
            )
        return cls(taken, center, np.where(tiny, 1.0, scale))

    def apply(self, features: Any) -> Any:
        """Return scaled features in float32; they stay sparse unless they are centred."""
        if self.kind == "none":
            return features.astype(np.float32)
        if self.kind == "rows":
            sums = np.asarray(abs(features).sum(1), dtype=np.float64).ravel()
            inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
            if sp.issparse(features):
                return sp.csr_matrix(sp.diags(inverse) @ features).astype(np.float32)
            return (features * inverse[:, None]).astype(np.float32)
        return map_row_blocks(self._scale_rows, to_dense_array(features))

    def _scale_rows(self, rows: np.ndarray) -> np.ndarray:
        """Scale the columns of a block of rows."""
        scaled: np.ndarray = (rows - self.center) / self.scale
        if self.kind == "trimmed":
            scaled = np.clip(scaled, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
        return scaled.astype(np.float32)


def _choose_kind(features: Any, peers: Peers, *, trims: bool) -> ScalingKind:
    stored = features.data if sp.issparse(features) else features
    n_filled = peers.all_reduce(float(np.count_nonzero(stored)))
    n_entries = peers.all_reduce(float(features.shape[0] * features.shape[1]))
    lowest = -peers.all_reduce(-float(stored.min(initial=0)), "max")
    if n_filled * 3 <= n_entries and lowest >= 0:
        return "rows"
    dense = to_dense_array(features)
    high, low = dense.max(0).astype(np.float64), dense.min(0).astype(np.float64)
    span = peers.all_reduce(high, "max") + peers.all_reduce(-low, "max")
    span = span[span > 0]
    if span.size and span.max() <= 4 * np.median(span):
        return "unit"
    return "trimmed" if trims else "columns"


# Random generators and devices


def make_generator(seed: int, *stream: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return an independent generator for a numbered stream of a seed."""
    state = np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


def check_device(device: Any) -> str:
    """Return the name of a device after checking that PyTorch can use it."""
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
