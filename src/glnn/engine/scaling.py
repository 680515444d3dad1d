"""How features are brought to a common scale, by a rule that is fitted once and written down."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from glnn._threads import by_rows
from glnn._validation import check_choice
from glnn.graph.dense_rows import dense_rows
from glnn.peers import ALONE, Peers

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
