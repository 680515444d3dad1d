"""Signals, from which similarity is computed: scaled features and predictions."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from glnn._utils import map_row_blocks
from glnn.distributed import Partition
from glnn.exceptions import InputError
from glnn.graph.operators import count_nonzero
from glnn.graph.rows import to_dense_array

Matrix: TypeAlias = Any  # an array or a CSR matrix; scipy has no types
SignalKind = Literal["l2", "idf", "standardized", "raw"]  # how features become signals
SIGNALS: tuple[SignalKind, ...] = get_args(SignalKind)

# scikit-learn's normalize treats shorter rows as zero, so they are enlarged before
_TINY = 1e-14


@dataclass(frozen=True, eq=False)
class FeatureSignal:
    r"""Turns features into the signal rows :math:`s_i`, for training rows and new rows.

    ``raw``: unchanged features; ``l2``: rows of length one; ``idf``: columns times
    :math:`\ln\frac{1+n}{1+\mathrm{df}}+1`, then rows of length one; ``standardized``: columns of
    mean zero and deviation one (sparse features are not centred, and constant columns become
    zero), then rows of length one.
    """

    kind: SignalKind
    n_features: int
    scale: np.ndarray | None = None  # factors of the columns
    shift: np.ndarray | None = None  # subtracted before

    @classmethod
    def fit(
        cls,
        kind: SignalKind,
        features: Matrix,
        column_weights: np.ndarray | None = None,
        layout: Partition | None = None,
    ) -> "FeatureSignal":
        r"""Compute scales and means of the training rows; each process passes its own rows.

        ``column_weights`` are the weights :math:`w \ge 0` of a metric
        :math:`x_i^\top \operatorname{diag}(w) x_j`: columns are multiplied with their square roots.
        """
        layout = layout or Partition(features.shape[0])
        n_features = features.shape[1]
        scale, shift = None, None
        if kind == "idf":
            n_with = layout.sum(count_nonzero(features))  # rows with an entry in the column
            scale = np.log((1.0 + layout.n_nodes) / (1.0 + n_with)) + 1.0
        elif kind == "standardized":
            scale, shift = _column_scales(features, layout)
        if column_weights is not None:
            scale = np.sqrt(column_weights) * (1.0 if scale is None else scale)
        return cls(kind, n_features, scale, shift)

    def transform(self, features: Matrix) -> Matrix:
        """Return the signal rows of ``features`` in float64; sparse stays sparse."""
        if self.shift is None and sp.issparse(features):
            return self._transform_rows(features)
        return map_row_blocks(self._transform_rows, to_dense_array(features))

    def _transform_rows(self, features: Matrix) -> Matrix:
        """Return the signals of a block of rows."""
        signal = features.astype(np.float64)
        if self.shift is not None:
            signal = signal - self.shift
        if self.scale is not None and sp.issparse(signal):
            signal.data *= self.scale[signal.indices]  # in place: astype has copied
        elif self.scale is not None:
            signal = signal * self.scale
        if self.kind != "raw":
            if self.shift is None:  # with a shift a tiny row is zero up to rounding
                signal = _enlarge_tiny_rows(signal)
            signal = normalize(signal, copy=not sp.issparse(signal))  # rows of zeros stay zero
        if sp.issparse(signal):
            signal.eliminate_zeros()
            signal.sort_indices()
        return signal


def _enlarge_tiny_rows(signal: Matrix) -> Matrix:
    """Multiply tiny rows with a power of two; leave all other rows unchanged."""
    peaks = abs(signal).max(1)
    peaks = peaks.toarray().ravel() if sp.issparse(signal) else peaks
    exponents = np.where(peaks < _TINY, -np.frexp(peaks)[1], 0)
    if not exponents.any():
        return signal
    if not sp.issparse(signal):
        return np.asarray(np.ldexp(signal, exponents[:, None]))
    larger = np.ldexp(signal.data, np.repeat(exponents, np.diff(signal.indptr)))
    return sp.csr_matrix((larger, signal.indices, signal.indptr), shape=signal.shape)


def _column_scales(features: Matrix, layout: Partition) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the inverse deviation of each column, and the means of dense features."""
    n_rows = float(layout.n_nodes)
    if sp.issparse(features):
        columns, values = features.indices, features.data.astype(np.float64)
        width = features.shape[1]
        mean = layout.sum(np.bincount(columns, values, width)) / n_rows
        off = np.bincount(columns, (values - mean[columns]) ** 2, width)
        n_stored = np.bincount(columns, minlength=width)
        off = off + (features.shape[0] - n_stored) * mean**2  # zeros that are not stored
        deviation = np.sqrt(layout.sum(off) / n_rows)
    else:
        mean = layout.sum(features.sum(0, dtype=np.float64)) / n_rows
        deviation = np.sqrt(layout.sum(((features - mean) ** 2).sum(0)) / n_rows)
    flat = deviation <= 1e-12 * np.abs(mean)
    scale = 1.0 / np.where(flat | (deviation == 0), 1.0, deviation)
    if sp.issparse(features):
        return np.where(flat, 0.0, scale), None
    return scale, mean


def prediction_signal(predictions: object, weight: float | int, n_nodes: int) -> np.ndarray:
    r"""Return :math:`\sqrt{w}\,(P - 1/C)\sqrt{C/(C-1)}`.

    A certain prediction then has length :math:`\sqrt w`. Two certain predictions of different
    classes have a negative product, which makes the edge weaker.
    """
    probability = np.asarray(predictions, dtype=np.float64)
    if probability.ndim != 2 or len(probability) != n_nodes or probability.shape[1] < 2:
        raise InputError(
            f"predictions must have {n_nodes} rows and at least two columns, "
            f"got shape {probability.shape}."
        )
    if not (probability.min() > -1e-6 and probability.max() < 1 + 1e-6):  # also if one is NaN
        raise InputError(
            "predictions must be probabilities between 0 and 1, got "
            f"{probability.min():g} to {probability.max():g}. Apply a softmax to scores."
        )
    n_classes = probability.shape[1]
    centred = (probability - 1.0 / n_classes) * np.sqrt(n_classes / (n_classes - 1.0))
    return np.asarray(np.sqrt(weight) * centred)


def append_columns(signal: Matrix, more: np.ndarray) -> Matrix:
    """Append the columns ``more`` to the signal; CSR if the signal is CSR."""
    if not sp.issparse(signal):
        return np.hstack([signal, more])
    return sp.csr_matrix(sp.hstack([signal, sp.csr_matrix(more)], format="csr"))
