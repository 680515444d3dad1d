"""The labels of a new table against its predictions: those that the fit has seen do not count."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool

from glnn.data.graph_npz import read_graph_npz
from glnn.engine.row_index import known_distributions, row_digests
from glnn.estimator import GLNNClassifier
from glnn.quality.intervals import Interval, accuracy_interval
from glnn.report.words import count, percent


@dataclass(frozen=True)
class JudgedRows:
    """Rows with a label: how many are right of those whose label the fit has not seen.

    Parameters
    ----------
    n_right, n_judged
        Rows whose label it has not seen.
    n_seen
        Rows left out, as the fit has seen their label.
    """

    n_right: int
    n_judged: int
    n_seen: int

    @classmethod
    def of(
        cls, truth: Sequence[str], predicted: np.ndarray, seen: Bool[np.ndarray, "n"]
    ) -> "JudgedRows":
        """Count; an empty text is no label.

        Examples
        --------
        >>> seen = np.array([True, False, False])
        >>> JudgedRows.of(["u", "u", ""], np.array(["u", "v", "v"]), seen)
        JudgedRows(n_right=0, n_judged=1, n_seen=1)
        """
        known = np.array(truth, dtype=object) != ""
        judged = known & ~seen
        is_right = np.array(truth, dtype=object) == predicted.astype(object)
        return cls(int((is_right & judged).sum()), int(judged.sum()), int((known & seen).sum()))

    @property
    def accuracy(self) -> Interval | None:
        """Share that is right, with its interval; nothing without a row to judge."""
        return accuracy_interval(self.n_right, self.n_judged) if self.n_judged else None

    def lines(self) -> list[str]:
        """Return the accuracy in one line, none where the table has no label."""
        found = self.accuracy
        left_out = f"{count(self.n_seen, 'row')} whose label the fit has seen"
        if found is None:
            why = f"no accuracy: left out {left_out}, and no other row has a label"
            return [why] if self.n_seen else []
        said = (
            f"accuracy on {count(self.n_judged, 'row')} with a label that the fit has not seen: "
            f"{percent(found.value)} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
        )
        return [f"{said}; left out {left_out}" if self.n_seen else said]


def seen_rows(
    run: Path, model: GLNNClassifier, features: sp.csr_matrix, ids: np.ndarray | None
) -> Bool[np.ndarray, "n"]:
    """Return which rows of a table are nodes of the run whose label its fit was given.

    They are found by their ids; where run or table has none, by their values, as the model does.

    Parameters
    ----------
    run, model
        The folder that a fit left, and its model.
    features, ids
        The rows of the table.
    """
    given = model.fitted_nodes().labels >= 0
    _, known = read_graph_npz(run / "graph.npz")
    if known is not None and ids is not None:
        names = [str(name) for name in known[given].tolist()]
        return np.isin([str(name) for name in ids.tolist()], names)
    fitted = model._model
    digests = row_digests(model._checked(features, reset=False))
    equal, shares = known_distributions(digests, fitted.digests, given[:, None].astype(float))
    seen = np.zeros(len(equal), dtype=bool)
    seen[equal] = shares[:, 0] > 0
    return seen
