"""Importance of feature columns: weights of the learned metric and permutation importance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from glnn._utils import check_integer
from glnn.exceptions import InputError
from glnn.solver.attribution import LinkShares

if TYPE_CHECKING:
    import pandas as pd

# Returns class probabilities of rows, each treated as a new node.
Predict = Callable[[Any], np.ndarray]


@dataclass(frozen=True, eq=False)
class ColumnImportance:
    """Importance of feature columns, the most important first.

    Parameters
    ----------
    columns, names
        Numbers and names of the columns.
    weight
        Weight of the column in the learned similarity; the mean over all columns is 1.
    loss, deviation
        Loss of accuracy if the column is shuffled among the rows: mean and standard deviation over
        the repeats.
    accuracy
        Accuracy on the unchanged rows.
    """

    columns: np.ndarray
    names: tuple[str, ...]
    weight: np.ndarray
    loss: np.ndarray
    deviation: np.ndarray
    accuracy: float

    def to_frame(self) -> "pd.DataFrame":
        """Return a table with one row for each column."""
        import pandas as pd

        parts = {"weight": self.weight, "loss": self.loss, "deviation": self.deviation}
        return pd.DataFrame(parts, index=pd.Index(self.names, name="column"))


def metric_weights(shares: LinkShares | None, n_features: int) -> Float[np.ndarray, "f"]:
    r"""Return the weight of each column in :math:`s_i^\top M s_j`, with mean 1.

    The weight is the squared scale of the column times its entry on the diagonal of :math:`M`. All
    weights are one if no term of the graph problem compares signals.
    """
    if shares is None or shares.metric is None:
        return np.ones(n_features)
    metric = np.diag(shares.metric) if shares.metric.ndim == 2 else shares.metric
    scale = np.ones(n_features) if shares.transform.scale is None else shares.transform.scale
    weights = np.abs(metric) * np.square(scale)
    mean = weights.mean()
    return np.asarray(weights / mean) if mean > 0 else np.ones(n_features)


def column_importance(
    predict: Predict,
    features: Any,
    classes: np.ndarray,
    *,
    weights: Float[np.ndarray, "f"],
    names: Sequence[str],
    n_columns: int = 20,
    n_repeats: int = 5,
    seed: int = 0,
) -> ColumnImportance:
    """Return the permutation importance of the columns with the largest weights.

    ``predict`` must treat every row as a new node: a row that equals a training row gets the
    prediction of that row, and shuffling would destroy the match.
    """
    check_integer("n_columns", n_columns, low=1)
    check_integer("n_repeats", n_repeats, low=1)
    if features.shape[0] < 2:
        raise InputError(f"X must have at least two rows to shuffle, got {features.shape[0]}.")
    rng = np.random.default_rng(seed)
    whole = _accuracy(predict(features), classes)
    tried = np.argsort(-weights, kind="stable")[:n_columns]
    orders = [rng.permutation(features.shape[0]) for _ in range(n_repeats)]
    losses = np.array(
        [
            [
                whole - _accuracy(predict(_shuffle_column(features, c, order)), classes)
                for order in orders
            ]
            for c in tried.tolist()
        ]
    )
    order = np.argsort(-losses.mean(1), kind="stable")
    chosen = tried[order]
    return ColumnImportance(
        chosen,
        tuple(names[c] for c in chosen),
        weights[chosen],
        losses.mean(1)[order],
        losses.std(1)[order],
        whole,
    )


def _accuracy(probabilities: np.ndarray, classes: np.ndarray) -> float:
    return float((probabilities.argmax(1) == classes).mean())


def _shuffle_column(features: Any, column: int, order: np.ndarray) -> Any:
    """Return the features with one column permuted."""
    if not sp.issparse(features):
        changed = np.array(features)
        changed[:, column] = changed[order, column]
        return changed
    by_column = sp.csc_matrix(features, copy=True)
    values = by_column[:, [column]].toarray()[order]
    before, after = by_column[:, :column], by_column[:, column + 1 :]
    return sp.csr_matrix(sp.hstack([before, sp.csc_matrix(values), after], format="csr"))
