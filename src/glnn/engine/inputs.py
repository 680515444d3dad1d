"""Prepare the inputs of a fit: scale features, seed generators."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch

from glnn._utils import check_choice, map_row_blocks
from glnn.distributed import SINGLE_PROCESS, Peers
from glnn.graph.rows import to_dense_array

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


# Random generators


def make_generator(seed: int, *stream: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return an independent generator for a numbered stream of a seed."""
    state = np.random.SeedSequence([seed, *stream]).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))
