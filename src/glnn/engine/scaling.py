"""How features are brought to a common scale, by a rule that is fitted once and written down."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice

SCALINGS = ("auto", "rows", "columns", "unit", "none")


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling of features: the same for training rows and for new ones.

    Parameters
    ----------
    kind
        ``rows``: each row is divided by its sum, as for bags of words. ``columns``: each column
        gets mean 0 and variance 1. ``unit``: columns share one unit (pixels, say), so they are
        centred and divided by one number. ``none``: nothing is done.
    center, scale
        What is subtracted from and divided by, column by column; empty for ``rows``, ``none``.
    """

    kind: str
    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, features: Any, kind: str = "auto") -> "Scaling":
        """Choose and fit a scaling.

        ``auto`` takes ``rows`` for non-negative features of which at most a third are not zero,
        ``unit`` if the widest column spans at most four times the median span of the columns
        that vary, and ``columns`` otherwise.
        """
        if check_choice("scaling", kind, SCALINGS) == "auto":
            kind = _natural_kind(features)
        if kind in ("rows", "none"):
            return cls(kind, np.empty(0), np.empty(0))
        dense = features.toarray() if sp.issparse(features) else np.asarray(features)
        center = dense.mean(0, dtype=np.float64)
        scale = dense.std(0, dtype=np.float64)
        if kind == "unit":
            scale = np.full_like(scale, np.sqrt(np.mean(scale**2)))
        tiny = scale <= 1e-12 * np.maximum(1.0, np.abs(center))
        return cls(kind, center, np.where(tiny, 1.0, scale))

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
        dense = features.toarray() if sp.issparse(features) else np.asarray(features)
        return ((dense - self.center) / self.scale).astype(np.float32)


def _natural_kind(features: Any) -> str:
    stored = features.data if sp.issparse(features) else features
    n_entries = features.shape[0] * features.shape[1]
    if np.count_nonzero(stored) * 3 <= n_entries and stored.min(initial=0) >= 0:
        return "rows"
    dense = features.toarray() if sp.issparse(features) else np.asarray(features)
    span = np.ptp(dense, axis=0)
    span = span[span > 0]
    if span.size and span.max() <= 4 * np.median(span):
        return "unit"
    return "columns"
