"""What a fitted classifier says about how far to trust it; a part of ``GLNNClassifier``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from glnn._validation import check_choice, check_indices
from glnn.data.row_names import name_column
from glnn.engine.callbacks import told_of_stage
from glnn.engine.labels import UNLABELLED
from glnn.engine.model import Model
from glnn.engine.record import FitRecord
from glnn.exceptions import InputError
from glnn.quality.calibration import Calibration
from glnn.quality.conformal import ConformalSets, fewest_labels
from glnn.quality.folds import Folds, one_group, stratified_folds
from glnn.quality.held_out import HeldOut, hold_out, of_validation
from glnn.quality.refit import refitted
from glnn.quality.scorer import labelled_scorer
from glnn.quality.suspects import suspect_labels
from glnn.quality.weights import label_weights

if TYPE_CHECKING:
    from pandas import DataFrame

CALIBRATIONS = ("auto", "folds")
_N_FOLDS = 5
_HIDDEN_SHARE = 1 / 3
"""Share of the labels that ``calibrate="auto"`` hides once, where validation nodes are none."""


class TrustedMixin:
    """Calibrated probabilities, sets with a promise, doubtful labels; scikit-learn's habits.

    A class that mixes it in sets ``raw_distributions_``, ``classes_`` and ``seed_`` in ``fit`` and
    then calls ``_calibrate``.
    """

    calibrate: Any
    class_weight: Any
    classes_: np.ndarray
    seed_: int
    raw_distributions_: np.ndarray
    _model: Model
    _record: FitRecord
    _left_out: np.ndarray | None

    def fit_predict(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> np.ndarray:
        """Fit, and return the label of every row; arguments as in ``fit``."""
        self.fit(X, y, graph, validation)  # type: ignore[attr-defined]
        return self.transduction_

    def predict_log_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, links)))  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy on the rows that have a label; the others take no part.

        So ``cross_val_score`` can be given unlabelled rows. For other metrics see
        :func:`glnn.quality.scorer.labelled_scorer`.
        """
        return labelled_scorer("accuracy")(self, X, y)

    def trust(self, held_out: HeldOut | None) -> Any:
        """Take what fits said of hidden labels, and calibrate by it.

        ``fit`` does so by itself, as ``calibrate`` says. An :class:`~glnn.Evaluation` of the same
        data has ``held_out`` already; then no further fit is needed.
        """
        if held_out is None:
            return self._take(None, Calibration.identity(len(self.classes_)))
        return self._take(held_out, held_out.calibration(weights=self._weights_of(held_out)))

    def _weights_of(self, held_out: HeldOut) -> np.ndarray | None:
        """Return how much judged labels count, as in the fit; ``None``: all the same."""
        given = getattr(self, "_sample_weight", None)
        if given is not None and not np.asarray(given)[held_out.judged].any():
            given = None  # labels that do not count in the fit are all that there is to judge by
        return label_weights(self.class_weight, given, self.classes_, held_out.classes)

    def _take(self, held_out: HeldOut | None, calibration: Calibration) -> Any:
        self.held_out_, self.calibration_ = held_out, calibration
        self._left_out = None  # what labels change was found for other answers
        self.label_distributions_ = self.calibration_.apply(self.raw_distributions_)
        self.transduction_ = np.asarray(self.classes_[self.label_distributions_.argmax(1)])
        return self

    def predict_set(
        self, alpha: float = 0.1, X: Any = None, links: Any = None
    ) -> list[tuple[Any, ...]]:
        r"""Return sets of labels; a share :math:`1 - \alpha` of them has the true one.

        That holds on average over nodes of the same kind as the labelled ones. An empty set says
        that a node looks unlike those of every class. Where the fit has judged too few labels for
        this, five more fits are made at the first call.

        Parameters
        ----------
        alpha : number in (0, 1), default 0.1
            Share of sets that may miss the true label.
        X, links
            New rows, as in ``predict_proba``; ``None``: the training rows.
        """
        held_out = self._judged(fewest_labels(alpha))
        sets = ConformalSets.of(held_out)
        raw = held_out.probabilities if X is None else self._raw_proba(X, links)  # type: ignore[attr-defined]
        return [tuple(self.classes_[row].tolist()) for row in sets.contains(raw, alpha)]

    def suspect_labels(self) -> "DataFrame":
        """Return given labels that fits without them contradict with confidence.

        One row for each possible mistake, the likeliest first: the row's number (``node``), its
        ``name`` where rows have names, the label that was ``given``, the one ``predicted`` and its
        ``probability``. Unless the fit was made with ``calibrate="folds"``, five more fits are
        made at the first call.
        """
        from pandas import DataFrame

        held_out = self._judged(None)
        found = suspect_labels(held_out, held_out.calibrated())
        columns = {
            "node": found.nodes,
            **name_column(getattr(self, "row_names_", None), found.nodes),
            "given": self.classes_[found.given],
            "predicted": self.classes_[found.predicted],
            "probability": found.probability,
        }
        return DataFrame(columns)

    def _check_calibrate(self) -> None:
        """Refuse a wrong choice before any work is done."""
        if self.calibrate is not None:
            check_choice("calibrate (or None)", self.calibrate, CALIBRATIONS)

    def _calibrate(
        self, X: Any, y: Any, graph: Any, validation: Any, sample_weight: Any = None
    ) -> None:
        """Calibrate as ``calibrate`` says, right after a fit to the same arguments."""
        self._fitted_to, self._sample_weight = (X, y, graph, validation), sample_weight
        n_nodes = len(self.raw_distributions_)
        nodes = _nodes(validation, n_nodes)
        if self.calibrate is None:
            self.trust(None)
        elif self.calibrate == "auto" and nodes.size:
            self.trust(of_validation(self.raw_distributions_, self._record.labels, nodes))
        else:
            self.trust(self._hold_out(is_quick=self.calibrate == "auto"))

    def _hold_out(self, *, is_quick: bool) -> HeldOut | None:
        """Fit without some labels, once or once for each fold; nothing if none can be hidden."""
        trains = np.where(self._record.trains, self._record.labels, UNLABELLED)
        if np.bincount(trains[trains >= 0]).max() < 2:
            return None
        folds: Folds = (
            one_group(trains, _HIDDEN_SHARE, self.seed_)
            if is_quick
            else stratified_folds(trains, _N_FOLDS, self.seed_)
        )
        with told_of_stage(self._callbacks(), "hidden labels"):  # type: ignore[attr-defined]
            return hold_out(lambda hidden: self._refit(hidden, self.seed_), trains, folds)

    def _refit(self, hidden: np.ndarray, seed: int, calibrate: Any = None) -> np.ndarray:
        """Fit again without the labels of some rows; return the probabilities of all rows."""
        told = self._fitted_to, self._record
        return refitted(self, *told, hidden, seed, self._sample_weight, calibrate)

    def _check_unchanged(self) -> None:
        """Refuse to fit again to a table or a graph that was changed in place since the fit."""
        X, _, graph, _ = self._fitted_to
        features = self._checked(X, reset=False)  # type: ignore[attr-defined]
        if not self._model.was_fitted_to(features, graph):
            raise InputError(
                "X and graph must be as they were in fit, as further fits are made of them; got "
                "some that have changed since. Fit again, or give fit a copy."
            )

    def _fits_of_one(self) -> int:
        """Return how many fits one call of ``fit`` makes, those of its calibration included."""
        if self.calibrate is None or (self.calibrate == "auto" and not self._record.trains_all):
            return 1
        return 2 if self.calibrate == "auto" else 1 + _N_FOLDS

    def _judged(self, at_least: int | None) -> HeldOut:
        """Return predictions of hidden labels, made now if the fit has not made them.

        There are at least this many of them; ``None``: of all labels that can be hidden.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        found: HeldOut | None = self.held_out_
        n_judged = 0 if found is None else len(found.judged)
        is_complete = found is not None and found.n_folds > 1
        if found is not None and (is_complete or (at_least is not None and n_judged >= at_least)):
            return found
        if not hasattr(self, "_fitted_to"):
            raise InputError(
                "a saved model must have judged its labels, got one that has not. "
                "Fit with calibrate='folds' before saving."
            )
        self._check_unchanged()
        judged = self._hold_out(is_quick=False)
        if judged is None:
            raise InputError(
                "labels to judge need a class with at least two of them, got one a class. "
                "Label more rows."
            )
        self.held_out_ = judged
        return judged

    def _held_out_arrays(self) -> dict[str, np.ndarray]:
        """Return what a saved model keeps of the predictions of hidden labels."""
        held_out = self.held_out_
        return (
            {} if held_out is None else {name: np.asarray(a) for name, a in vars(held_out).items()}
        )

    def _restore_trust(
        self, calibration: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Take what a saved model kept."""
        none = Calibration.identity(len(self.classes_))
        self._take(
            HeldOut(**arrays) if arrays else None,
            none if calibration is None else Calibration.from_dict(calibration),
        )


def _nodes(validation: Any, n_nodes: int) -> np.ndarray:
    if validation is None:
        return np.empty(0, dtype=np.int64)
    return check_indices("validation", validation, n_nodes)
