"""The estimator :class:`glnn.GLNNClassifier`.

It follows scikit-learn's conventions. The code is split into a parameter base class and four mixins
(report, saving, calibration, explanation); the class itself is at the end of the file.
"""

import dataclasses
import numbers
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from glnn._utils import check_features, check_indices, check_integer, did_you_mean, limit_threads
from glnn.data.arguments import (
    as_fit_arguments,
    convert_features,
    find_row,
    make_name_column,
    resolve_row_names,
)
from glnn.data.node_data import ids_from_text
from glnn.distributed import SINGLE_PROCESS, Partition, Peers, run_everywhere
from glnn.engine.archive import wrap_unpack_errors
from glnn.engine.callbacks import Callback, History, StageLog, notify_stage
from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import RECORD, FitProblem, FitRecord, hide_labels
from glnn.engine.folds import N_FOLDS, Folds, make_folds
from glnn.engine.inputs import (
    UNLABELLED,
    ScalingName,
    as_labels,
    check_device,
    decode_classes,
    encode_classes,
    encode_targets,
    is_unlabelled,
    split_labels,
)
from glnn.engine.mixture import mix
from glnn.engine.model import Model
from glnn.engine.rounds import HeldOutLabels
from glnn.engine.settings import (
    FitSettings,
    Head,
    Metric,
    Preset,
    Signal,
    resolve_settings,
)
from glnn.engine.tasks import Labels, Validation
from glnn.exceptions import InputError, NotFittedError
from glnn.graph.adjacency import GraphOperator, SparseAdjacency
from glnn.graph.convert import as_adjacency, as_adjacency_rows
from glnn.graph.operators import RandomWalk, add_loops, drop_loops, retained_edge_shares
from glnn.graph.prior import PriorKind, normalize_adjacency
from glnn.nn.row_heads import RowNet
from glnn.objective import Reading, Weights
from glnn.quality.calibration import Calibration
from glnn.quality.explain import (
    Explanation,
    FittedNodes,
    Propagate,
    can_refit_quickly,
    center_and_normalize,
    explain,
    leave_one_out_effects,
    rank_label_effects,
)
from glnn.quality.folds import (
    HeldOut,
    hold_out,
    hold_out_validation,
    label_weights,
    labelled_scorer,
    refit_without_labels,
)
from glnn.quality.importance import ColumnImportance, column_importance, metric_weights
from glnn.quality.labelling import (
    ConformalSets,
    min_conformal_labels,
    select_queries,
    suspect_labels,
    uncertainty_weight,
)
from glnn.solver.certificate import Certificate
from glnn.solver.learn import Support

if TYPE_CHECKING:
    from pandas import DataFrame


# Parameters

Calibrate = Literal["auto"]
ClassWeight = Literal["balanced"] | dict[Any, float]
RandomState = int | np.random.RandomState | np.random.Generator | None

P = TypeVar("P", bound="FitParameters")

_NOT_SETTINGS = (
    "preset",
    "head",
    "random_state",
    "device",
    "callbacks",
    "calibrate",
    "class_weight",
    "verbose",
)


class FitParameters(BaseEstimator):  # type: ignore[misc]
    """Constructor parameters, stored unchanged and checked in ``fit``.

    :class:`glnn.GLNNClassifier` documents them.
    """

    def __init__(
        self,
        preset: Preset = "default",
        *,
        head: Head | None = None,
        random_state: RandomState = None,
        device: str = "cpu",
        callbacks: Sequence[Callback] | None = None,
        calibrate: Calibrate | None = "auto",
        class_weight: ClassWeight | None = None,
        verbose: bool | int = False,
        weights: Weights | None = None,
        reading: Reading | None = None,
        signal: Signal | None = None,
        prior: PriorKind | None = None,
        support: Support | None = None,
        n_candidates: int | None = None,
        n_neighbors: float | int | None = None,
        prediction_weight: float | int | None = None,
        task_weight: float | int | None = None,
        metric: Metric | None = None,
        n_rounds: int | None = None,
        scaling: ScalingName | None = None,
        tracks: Sequence[str] | None = None,
        n_hidden: int | None = None,
        dropout: float | int | None = None,
        drop_node: float | int | None = None,
        n_steps: int | None = None,
        teleport: float | int | None = None,
        n_views: int | None = None,
        consistency_weight: float | int | None = None,
        smoothness_weight: float | int | None = None,
        gate: float | int | None = None,
        learning_rate: float | int | None = None,
        weight_decay: float | int | None = None,
        n_epochs: int | None = None,
    ) -> None:
        self.preset = preset
        self.head = head
        self.random_state = random_state
        self.device = device
        self.callbacks = callbacks
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.verbose = verbose
        self.weights = weights
        self.reading = reading
        self.signal = signal
        self.prior = prior
        self.support = support
        self.n_candidates = n_candidates
        self.n_neighbors = n_neighbors
        self.prediction_weight = prediction_weight
        self.task_weight = task_weight
        self.metric = metric
        self.n_rounds = n_rounds
        self.scaling = scaling
        self.tracks = tracks
        self.n_hidden = n_hidden
        self.dropout = dropout
        self.drop_node = drop_node
        self.n_steps = n_steps
        self.teleport = teleport
        self.n_views = n_views
        self.consistency_weight = consistency_weight
        self.smoothness_weight = smoothness_weight
        self.gate = gate
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_epochs = n_epochs

    def set_params(self: P, **params: Any) -> P:
        """Set parameters; the error for an unknown name suggests the closest known one."""
        known = self.get_params(deep=False)
        for name in params:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"Invalid parameter {name!r} for {type(self).__name__}.{hint}")
        return super().set_params(**params)  # type: ignore[no-any-return]

    def _resolve_fit(self) -> dict[str, Any]:
        """Check the parameters and return settings, seed, device and callbacks of a fit."""
        return {
            "settings": self._settings(),
            "seed": self._seed(),
            "device": check_device(self.device),
            "callbacks": self._callbacks(),
        }

    def _settings(self) -> FitSettings:
        params = self.get_params(deep=False)
        changes = {k: v for k, v in params.items() if k not in _NOT_SETTINGS and v is not None}
        return resolve_settings(self.preset, self.head, changes)

    def _callbacks(self) -> list[Callback]:
        callbacks = [] if self.callbacks is None else self.callbacks
        is_list = isinstance(callbacks, Sequence)
        if not is_list or not all(isinstance(c, Callback) for c in callbacks):
            raise InputError(f"callbacks must be a list of Callback objects, got {callbacks!r}.")
        return [*callbacks, StageLog()] if self.verbose else list(callbacks)

    def _seed(self) -> int:
        """Return the seed given as ``random_state``, or draw one."""
        state: Any = self.random_state
        if isinstance(state, numbers.Integral) and int(state) >= 0:
            return int(state)
        if state is None:
            return int(np.random.default_rng().integers(2**31))
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**31))
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        raise InputError(
            f"random_state must be a seed of at least 0 or a generator, got {state!r}."
        )

    def _plain_params(self, seed: int) -> dict[str, Any]:
        """Return the parameters that are not ``None`` as JSON values, with the seed used."""
        params = self.get_params(deep=False) | {"callbacks": None, "random_state": seed}
        if self.weights is not None:
            params["weights"] = vars(self.weights)
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
        return {k: v for k, v in plain.items() if v is not None}

    @staticmethod
    def _parse_params(page: dict[str, Any]) -> dict[str, Any]:
        """Return constructor parameters from the values that ``_plain_params`` wrote."""
        params = {"calibrate": None} | page  # None is not written, and "auto" is the default
        if "weights" in page:
            params["weights"] = Weights(**page["weights"])
        return params


# HTML report and networkx export


class ReportMixin:
    """The HTML report and the export to networkx.

    ``glnn.report`` imports this module, so it is imported by name inside the methods. The class
    that uses this mixin must have ``_check_fitted``.
    """

    def report(self, path: str | Path) -> Path:
        """Write the fit as one interactive HTML file that needs no internet connection."""
        page = self._page_module()
        written: Path = page.write_report(self, Path(path), getattr(self, "_fitted_to", None))
        return written

    def to_networkx(self) -> Any:
        """Return the learned graph as a ``networkx.Graph``.

        Nodes have the names of the training rows (their numbers as text if there are no names)
        and the attributes ``class``, ``probability`` and ``given_label`` (empty if unlabelled).
        Edges have ``weight`` and ``origin`` (``given`` or ``learned``); given edges also have
        ``trust``, the fraction of their weight that the learned graph kept.
        """
        page = self._page_module().build_model_page(self, getattr(self, "_fitted_to", None))
        return import_module("glnn.report.export").build_network(page)

    def _page_module(self) -> Any:
        self._check_fitted()  # type: ignore[attr-defined]
        return import_module("glnn.report.page.document")


# Saving and loading

_SaveT = TypeVar("_SaveT", bound="SaveMixin")


class SaveMixin:
    """Saving and loading: safetensors for arrays, JSON for everything else.

    The class that uses this mixin must have ``_store_fit`` and ``_restore_calibration``.
    """

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder as safetensors and JSON, without pickle.

        The saved ``random_state`` is the seed that was used. After a fit over several processes
        every process must call it; the first one writes.
        """
        fit: Any = self
        fit._check_fitted()
        record, shares = fit._record.pack()
        page = {
            "params": fit._plain_params(fit.seed_),
            "classes": encode_classes(fit.classes_),
            "certificate": None if fit.certificate_ is None else fit.certificate_.to_dict(),
            "choices": fit.choices_,
            "mixture": fit.mixture_,
            "calibration": fit.calibration_.to_dict(),
            "n_features_in": fit.n_features_in_,
            "feature_names_in": [str(name) for name in getattr(fit, "feature_names_in_", [])],
            "row_names": None if fit.row_names_ is None else fit.row_names_.astype(str).tolist(),
            "history": [dict(epoch) for epoch in fit.history_],
            "shares": shares,
        }
        fit._model.save(Path(folder), page, fit._held_out_arrays() | record)

    @classmethod
    def load(cls: type[_SaveT], folder: str | Path) -> _SaveT:
        """Load a model that :meth:`save` wrote."""
        model, page = Model.load(Path(folder))
        with wrap_unpack_errors(Path(folder)):
            return cls._restore(model, page)

    @classmethod
    def _restore(cls: type[_SaveT], model: Model, page: dict[str, Any]) -> _SaveT:
        made: Any = cls
        fit = made(**made._parse_params(page["params"]))
        fit.classes_ = decode_classes(page["classes"])
        fit.n_features_in_ = int(page["n_features_in"])
        if page["feature_names_in"]:
            fit.feature_names_in_ = np.array(page["feature_names_in"], dtype=object)
        names = page["row_names"]
        fit.row_names_ = None if names is None else ids_from_text(names)
        fit.folds_ = None  # not saved: they serve fits
        certificate = page["certificate"]
        fit.certificate_ = None if certificate is None else Certificate.from_dict(certificate)
        fit.choices_, fit.seed_ = page["choices"], page["params"]["random_state"]
        fit.mixture_ = page["mixture"]
        history = History()
        for record in page["history"]:
            history.append(record)
        fit._store_fit(model, history)
        fit._record = FitRecord.unpack(page["more"], page["shares"])
        others = {n: array for n, array in page["more"].items() if not n.startswith(RECORD)}
        fit._restore_calibration(page.get("calibration"), others)
        return fit  # type: ignore[no-any-return]


# Calibration, prediction sets, suspect labels


class CalibrationMixin:
    """Calibrated probabilities, conformal prediction sets and suspect labels.

    The class that uses this mixin sets ``raw_distributions_``, ``classes_`` and ``seed_`` in
    ``fit`` and then calls ``_calibrate``.
    """

    calibrate: Any
    class_weight: Any
    classes_: np.ndarray
    seed_: int
    raw_distributions_: np.ndarray
    folds_: Folds | None
    _fitted_to: tuple[Any, Any, Any, Any]  # X, y, graph, validation
    _sample_weight: Any
    _fold_options: dict[str, Any]  # how labels are hidden
    _model: Model
    _record: FitRecord
    _leave_one_out_cache: np.ndarray | None

    def fit_predict(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> np.ndarray:
        """Fit and return the predicted label of every row; the arguments are those of ``fit``."""
        self.fit(X, y, graph, validation)  # type: ignore[attr-defined]
        return self.transduction_

    def predict_log_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, links)))  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy on the labelled rows; unlabelled rows are ignored.

        This lets ``cross_val_score`` work with unlabelled rows. For other metrics see
        :func:`glnn.quality.folds.labelled_scorer`.
        """
        return labelled_scorer("accuracy")(self, X, y)

    def set_calibration(self, held_out: HeldOut | None) -> Any:
        """Calibrate the probabilities with predictions of hidden labels.

        ``fit`` does this itself, controlled by ``calibrate``. If an :class:`~glnn.Evaluation` of
        the same data exists, pass its ``held_out`` to calibrate without further fits.

        Parameters
        ----------
        held_out : HeldOut or None
            Predictions of labels that the fits did not see; ``None`` removes the calibration.

        Returns
        -------
        GLNNClassifier
            The estimator itself.
        """
        if held_out is None:
            return self._store_calibration(None, Calibration.identity(len(self.classes_)))
        return self._store_calibration(
            held_out, held_out.calibration(weights=self._calibration_weights(held_out))
        )

    def _calibration_weights(self, held_out: HeldOut) -> np.ndarray | None:
        """Return the weights of the hidden labels, as in the fit; ``None``: all equal."""
        given = getattr(self, "_sample_weight", None)
        if given is not None and not np.asarray(given)[held_out.hidden_nodes].any():
            given = None  # every hidden label has weight zero: weight them equally instead
        return label_weights(self.class_weight, given, self.classes_, held_out.classes)

    def _store_calibration(self, held_out: HeldOut | None, calibration: Calibration) -> Any:
        self.held_out_, self.calibration_ = held_out, calibration
        self._leave_one_out_cache = None  # it was computed for other probabilities
        self.label_distributions_ = self.calibration_.apply(self.raw_distributions_)
        self.transduction_ = np.asarray(self.classes_[self.label_distributions_.argmax(1)])
        return self

    def predict_set(
        self, alpha: float = 0.1, X: Any = None, links: Any = None
    ) -> list[tuple[Any, ...]]:
        r"""Return conformal prediction sets: :math:`1 - \alpha` of them contain the true label.

        This holds on average over rows from the same distribution as the labelled ones. An empty
        set means that the row is unlike the labelled rows of every class. If the fit has too few
        predictions of hidden labels, the first call makes five more fits.

        Parameters
        ----------
        alpha : number in (0, 1), default 0.1
            Fraction of sets that may miss the true label.
        X, links
            New rows, as in ``predict_proba``; ``None``: the training rows.

        Returns
        -------
        list of tuple
            The labels in the set of each row.
        """
        held_out = self._require_held_out(min_conformal_labels(alpha))
        sets = ConformalSets.of(held_out)
        raw = held_out.probabilities if X is None else self._raw_proba(X, links)  # type: ignore[attr-defined]
        inside = sets.contains(raw, alpha)
        if sets.note is not None:
            warnings.warn(sets.note, stacklevel=2)
        return [tuple(self.classes_[row].tolist()) for row in inside]

    def suspect_labels(self) -> "DataFrame":
        """Return labels that disagree with the model and may be mistakes.

        A label is listed if a fit that did not see it predicts another class with confidence.
        After a fit with validation nodes, the first call makes five more fits.

        Returns
        -------
        DataFrame
            One row for each suspect label, the most suspect first: the row's number (``node``),
            its ``name`` if rows have names, the ``given`` label, the ``predicted`` label and its
            ``probability``. ``attrs["n_estimated"]`` is the estimated number of mistakes.
        """
        from pandas import DataFrame

        held_out = self._require_held_out(None)
        found = suspect_labels(held_out, held_out.calibrated())
        columns = {
            "node": found.nodes,
            **make_name_column(getattr(self, "row_names_", None), found.nodes),
            "given": self.classes_[found.given],
            "predicted": self.classes_[found.predicted],
            "probability": found.probability,
        }
        frame = DataFrame(columns)
        frame.attrs["n_estimated"] = found.n_estimated
        return frame

    def _check_calibrate(self) -> None:
        """Raise an error for an invalid ``calibrate`` before the fit starts."""
        if self.calibrate not in (None, "auto"):
            raise InputError(f"calibrate must be 'auto' or None, got {self.calibrate!r}.")

    def _calibrate(self, problem: FitProblem, hidden: HeldOutLabels | None) -> None:
        """Calibrate with labels that the fit has not trained on, in process 0."""
        held_out = None
        if problem.peers.rank == 0 and self.calibrate is not None:
            if hidden is not None:
                held_out = _hold_out_folds(self.raw_distributions_, hidden)
            elif problem.validation is not None:
                nodes = problem.validation.nodes.numpy()
                held_out = hold_out_validation(self.raw_distributions_, self._record.labels, nodes)
        self.set_calibration(held_out)

    def _hold_out(self) -> HeldOut | None:
        """Fit once per fold without its labels; ``None`` if no label can be hidden."""
        trains = np.where(self._record.trains, self._record.labels, UNLABELLED)
        if np.bincount(trains[trains >= 0]).max() < 2:
            return None
        folds = make_folds(trains, N_FOLDS, self.seed_)
        with notify_stage(self._callbacks(), "hidden labels"):  # type: ignore[attr-defined]
            return hold_out(lambda hidden: self._refit(hidden, self.seed_), trains, folds)

    def _refit(self, hidden: np.ndarray, seed: int, calibrate: Any = None) -> np.ndarray:
        """Fit again without the labels of some rows; return the probabilities of all rows."""
        known = self._fitted_to, self._record
        return refit_without_labels(
            self, *known, hidden, seed, self._sample_weight, calibrate, self._fold_options
        )

    def _check_unchanged(self) -> None:
        """Raise an error if ``X`` or ``graph`` was changed in place since the fit."""
        X, _, graph, _ = self._fitted_to
        features = self._check_features(X, reset=False)  # type: ignore[attr-defined]
        if not self._model.was_fitted_to(features, graph):
            raise InputError(
                "X and graph must be unchanged since fit, because this method fits to them again; "
                "got changed ones. Fit again, or give fit a copy."
            )

    def _n_fits_per_call(self) -> int:
        """Return how often one call of ``fit`` trains, including folds."""
        return 1 if self.folds_ is None else 1 + len(self.folds_)

    def _require_held_out(self, at_least: int | None) -> HeldOut:
        """Return at least this many predictions of hidden labels, with new fits if necessary.

        ``None``: predictions of all labels that can be hidden.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        found: HeldOut | None = self.held_out_
        n_hidden = 0 if found is None else len(found.hidden_nodes)
        is_complete = found is not None and found.n_folds > 1
        if found is not None and (is_complete or (at_least is not None and n_hidden >= at_least)):
            return found
        if not hasattr(self, "_fitted_to"):
            raise InputError(
                "a loaded model must have been saved with predictions of hidden labels, got one "
                "without. Fit without validation nodes before saving."
            )
        self._check_unchanged()
        complete = self._hold_out()
        if complete is None:
            raise InputError(
                "some class must have at least two labels, so that one can be hidden; got one "
                "label per class. Label more rows."
            )
        self.held_out_ = complete
        return complete

    def _held_out_arrays(self) -> dict[str, np.ndarray]:
        """Return the predictions of hidden labels as arrays for saving."""
        held_out = self.held_out_
        return (
            {} if held_out is None else {name: np.asarray(a) for name, a in vars(held_out).items()}
        )

    def _restore_calibration(
        self, calibration: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Restore the calibration of a saved model."""
        none = Calibration.identity(len(self.classes_))
        self._store_calibration(
            HeldOut(**arrays) if arrays else None,
            none if calibration is None else Calibration.from_dict(calibration),
        )


def _hold_out_folds(probabilities: np.ndarray, hidden: HeldOutLabels) -> HeldOut:
    """Return the mixture's predictions of labels hidden in folds, beside those of other rows."""
    rows, classes = probabilities.copy(), np.full(len(probabilities), UNLABELLED, dtype=np.int64)
    fold = np.zeros(len(probabilities), dtype=np.int64)
    rows[hidden.nodes], classes[hidden.nodes] = hidden.probabilities, hidden.classes
    fold[hidden.nodes] = hidden.folds
    return HeldOut(rows, classes, fold)


# Explanations, label suggestions, column importance


class ExplanationMixin:
    """Explanations of predictions, importance of columns, suggestions of labels.

    The class that uses this mixin sets ``classes_``, ``label_distributions_``, ``_model`` and
    ``_record`` in ``fit``, and ``row_names_`` if rows have names.
    """

    classes_: np.ndarray
    label_distributions_: np.ndarray
    n_features_in_: int
    _model: Model
    _record: FitRecord
    _sample_weight: Any
    _leave_one_out_cache: np.ndarray | None = None  # effects of all labels on all rows
    seed_: int

    def explain(
        self,
        node: int | str,
        *,
        n_links: int = 10,
        n_labels: int = 10,
        refits: int | None = None,
        column_names: Sequence[str] | None = None,
    ) -> Explanation:
        """Explain why a training row got its class.

        Parameters
        ----------
        node : int or str
            Number of the row, or its name (from ``ids`` or the index of ``X``) as text.
        n_links, n_labels : int >= 0, default 10
            How many links and how many labelled rows to return.
        refits : int >= 0 or None, default None
            How the effects of labels are computed. ``0``: a fast estimate without fits. A positive
            number: the labels with the largest estimated effects are left out one at a time, and
            this many fits with and without each label are compared, which costs
            ``refits * (n_labels + 1)`` fits including calibration. This needs the training data,
            so it does not work on a loaded model. ``None``: for small data (at most 1,000 rows and
            100,000 feature values) where 80 fits are enough, the first call leaves out every label
            once with the seed of this fit; otherwise, and for a loaded model, effects are
            estimated.
        column_names
            Names of the feature columns; ``None``: those of the training table, or numbers if it
            has no names.

        Returns
        -------
        Explanation
            The heaviest links with the contribution of each term of the graph problem to their
            weights, the labelled rows with the largest effects on this row, and the columns that
            contribute most to the links.
        """
        if refits is not None:
            check_integer("refits", refits, low=0)
        nodes = self.fitted_nodes(column_names)
        node = find_row(node, self._row_names())
        found = explain(nodes, node, n_links=n_links, n_labels=n_labels)
        if refits == 0 or n_labels == 0:
            return found
        if refits is None:
            labelled, effects = nodes.trained, self._all_label_effects(nodes)
        else:
            labelled = np.array([label.node for label in found.voices], dtype=np.int64)
            effects = self._measure_label_effects(labelled, refits)
        if effects is None:
            return found
        others = labelled != node
        ranked = rank_label_effects(nodes, labelled[others], effects[others, node])[:n_labels]
        return dataclasses.replace(found, voices=ranked, is_measured=True)

    def suggest_labels(self, k: int = 10, among: Any = None) -> "DataFrame":
        """Suggest which rows to label next (active learning).

        Suggested are the rows whose labels would reduce the uncertainty of the predictions most.

        Parameters
        ----------
        k : int >= 1, default 10
            Number of suggestions.
        among
            Numbers or mask of the rows that may be suggested; ``None``: all. Labelled rows are
            never suggested.

        Returns
        -------
        DataFrame
            One row for each suggestion, the best first: the row's number (``node``), its ``name``
            if rows have names, the ``predicted`` label and its ``probability``, and the ``gain``:
            by how much the label would reduce the variance of all rows, weighted by their
            uncertainty.
        """
        from pandas import DataFrame

        check_integer("k", k, low=1)
        nodes = self.fitted_nodes()
        every = np.arange(nodes.n_nodes)
        may = every if among is None else check_indices("among", among, nodes.n_nodes)
        pool = np.intersect1d(may, every[nodes.labels == UNLABELLED])
        known = np.flatnonzero(nodes.labels != UNLABELLED)
        weights = uncertainty_weight(nodes.probabilities)
        chosen, gains = select_queries(
            center_and_normalize(nodes.embedding()), weights, known, pool, k
        )
        best = nodes.probabilities[chosen].argmax(1)
        columns = {
            "node": chosen,
            **make_name_column(self._row_names(), chosen),
            "predicted": self.classes_[best],
            "probability": nodes.probabilities[chosen, best],
            "gain": gains,
        }
        return DataFrame(columns)

    def column_importance(
        self,
        X: Any,
        y: Any,
        links: Any = None,
        *,
        n_columns: int = 20,
        n_repeats: int = 5,
        random_state: int = 0,
    ) -> ColumnImportance:
        """Measure the permutation importance of feature columns on rows that were not fitted.

        Each row is classified as a new node, once with its own values and once with one column
        shuffled among the rows.

        Parameters
        ----------
        X, y
            Rows and their labels; unlabelled rows are ignored.
        links
            Known edges from the rows to the training rows, as in ``predict_proba``.
        n_columns : int >= 1, default 20
            Number of columns to shuffle: those with the largest weight in the learned similarity.
        n_repeats : int >= 1, default 5
            How often each column is shuffled.
        random_state : int >= 0, default 0
            Seed of the shuffling.

        Returns
        -------
        ColumnImportance
            The loss of accuracy for each shuffled column, the largest first.
        """
        features = self._check_features(X, reset=False)  # type: ignore[attr-defined]
        numbers = self._encode_labels(y, features.shape[0])
        labelled = np.flatnonzero(numbers != UNLABELLED)
        labelled_links = None if links is None else links[labelled]
        nodes = self.fitted_nodes()
        if nodes.compared is not None:
            raise InputError(
                "column_importance needs a fit whose graph was learned from features, got one that "
                "compares nodes by the structure of the given graph."
            )
        return column_importance(
            lambda rows: self._model.predict_new(rows, labelled_links),
            features[labelled],
            numbers[labelled],
            weights=metric_weights(nodes.shares, self.n_features_in_),
            names=nodes.column_names,
            n_columns=n_columns,
            n_repeats=n_repeats,
            seed=check_integer("random_state", random_state, low=0),
        )

    def _all_label_effects(self, nodes: FittedNodes) -> np.ndarray | None:
        """Return the effects of all labels on all rows; ``None`` if that takes too many fits."""
        n_fits = (len(nodes.trained) + 1) * self._n_fits_per_call()  # type: ignore[attr-defined]
        is_quick = can_refit_quickly(n_fits, nodes.features.shape)
        if not is_quick or not hasattr(self, "_fitted_to"):
            return None
        if self._leave_one_out_cache is None:
            self._leave_one_out_cache = self._measure_label_effects(nodes.trained, 1)
        return self._leave_one_out_cache

    def _measure_label_effects(self, labelled: np.ndarray, n_seeds: int) -> np.ndarray:
        """Leave labels out one at a time, with the seed of this fit and further seeds."""
        if not hasattr(self, "_fitted_to"):
            raise InputError("refits must be 0 for a loaded model, which has no training data.")
        self._check_unchanged()  # type: ignore[attr-defined]
        seeds = [self.seed_ ^ k for k in range(n_seeds)]  # XOR keeps them in the range of seeds
        refit = partial(self._refit, calibrate=self.calibrate)  # type: ignore[attr-defined]
        with notify_stage(self._callbacks(), "labels left out"):  # type: ignore[attr-defined]
            return leave_one_out_effects(refit, labelled, seeds)

    def _row_names(self) -> np.ndarray | None:
        """Return the names of the training rows, if they have any."""
        return getattr(self, "row_names_", None)

    def _encode_labels(self, y: Any, n_rows: int) -> np.ndarray:
        """Return the class numbers of labels, as they are in the fit."""
        labels = as_labels(y)
        if labels.shape != (n_rows,):
            raise InputError(f"y must have one label a row, {n_rows}, got shape {labels.shape}.")
        known = ~is_unlabelled(labels)
        unknown = [label for label in labels[known].tolist() if label not in self.classes_]
        if unknown:
            raise InputError(f"y must hold labels of the fit, got {unknown[0]!r}.")
        numbers = np.full(n_rows, UNLABELLED, dtype=np.int64)
        numbers[known] = np.searchsorted(self.classes_, labels[known])
        return numbers

    def fitted_nodes(self, column_names: Sequence[str] | None = None) -> FittedNodes:
        """Return the training rows with all that explanations need.

        ``column_names`` defaults to the names in the training table, or numbers.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        model = self._model
        names = column_names or getattr(self, "feature_names_in_", None)
        if names is None:
            names = [str(number) for number in range(self.n_features_in_)]
        compared = model.structure_columns()
        if compared is not None:
            names = [f"structure {number}" for number in range(compared.shape[1])]
        return FittedNodes(
            model.adjacency,
            model.features,
            _make_propagate(model),
            self._record.labels,
            np.flatnonzero(self._record.trains),
            self.label_distributions_,
            self.classes_,
            [str(name) for name in names],
            self._record.shares,
            compared,
        )


def _make_propagate(model: Model) -> Propagate:
    """Return a function that propagates signals as the tracks do, mixed by their weights.

    For a head that keeps the hops apart, the mean over the hops counts.
    """

    @cache
    def graph(place: int) -> GraphOperator:
        track = model.tracks[place]
        if not isinstance(track.network, RowNet):
            return SparseAdjacency.from_scipy(normalize_adjacency(track.graph))
        seen = add_loops if track.network.needs_loops else drop_loops
        return RandomWalk.of(seen(track.graph), dtype=torch.float64)

    def propagate(signals: np.ndarray) -> np.ndarray:
        columns = torch.from_numpy(np.ascontiguousarray(signals, dtype=np.float64))
        parts = []
        for place, track in enumerate(model.tracks):
            network: Any = track.network
            with torch.no_grad():
                found = network.propagate(graph(place), columns)
            parts.append((found.mean(1) if isinstance(network, RowNet) else found).numpy())
        return mix(parts, [track.weight for track in model.tracks])

    return propagate


# The classifier


class GLNNClassifier(
    CalibrationMixin,
    ExplanationMixin,
    ReportMixin,
    SaveMixin,
    ClassifierMixin,  # type: ignore[misc]
    FitParameters,
):
    """Learn a graph from features and a few labels, and classify its nodes.

    ``fit`` alternates between two steps. The graph step learns a sparse weighted graph by solving
    a convex problem; the classifier step trains a graph neural network on that graph. Rows without
    a label take part in both. It follows scikit-learn's conventions for semi-supervised
    classifiers: ``-1`` in ``y`` marks an unlabelled row.

    Parameters
    ----------
    preset : {"default", "paper", "literal"}, default "default"
        Named set of defaults. ``default``: the settings that gave the best accuracy in our
        benchmarks. ``paper``: the terms, weights and network of the paper, solved exactly.
        ``literal``: the optimiser as printed in the paper, for comparison. Every parameter after
        ``verbose``, and ``head``, defaults to ``None``, which means the value of the preset.
    head : {"propagation", "gcn", "linear", "hops"}
        The network. ``propagation``: a perceptron on features that are propagated over the graph,
        trained on random views with some nodes dropped. ``gcn``: a two-layer graph convolutional
        network. ``linear``: one layer on features that were propagated over the given graph.
        ``hops``: a perceptron on the concatenated features of a node and of each ring of its
        neighbourhood. If a head is given, it is the only track of the fit.
    random_state : int >= 0, generator or None, default None
        Seed. The same seed gives bit-identical results on the CPU. ``None``: a new seed for each
        fit, stored in ``seed_``.
    device : str, default "cpu"
        ``cpu`` or a CUDA device of PyTorch such as ``cuda:0``.
    callbacks : list of Callback, default None
        :class:`glnn.engine.callbacks.Callback` objects that are called during the fit.
    calibrate : "auto" or None, default "auto"
        How probabilities are calibrated. ``auto``: with the validation nodes, or else with the
        labels that are hidden in folds (a fit of several tracks hides them anyway). ``None``: no
        calibration. The preset ``literal`` has none.
    class_weight : "balanced", dict or None, default None
        Weight of the labels of each class in the losses, in the choice of the epoch and in
        calibration. ``balanced``: inversely proportional to class frequencies, as in scikit-learn.
    verbose : bool, default False
        Print each stage of the fit and the time it took.
    weights : Weights
        Weights of the terms of the graph problem; see :func:`glnn.learn_graph`.
    reading : {"trace", "channel", "frobenius"}
        Interpretation of the graph Laplacian regulariser of the paper.
    signal : {"l2", "idf", "standardized", "raw", "structure"}
        How features are transformed before nodes are compared. ``structure``: a spectral
        embedding of the given graph is added to the features; the default preset chooses this if
        the features carry no information (none, the identity, constants).
    prior : {"binary", "symmetric", "renormalized", "pagerank"}
        How the given graph is normalised to the prior graph.
    support : {"candidates", "all"}
        Which pairs of nodes may become edges: the given edges and the most similar pairs, or all
        pairs.
    n_candidates : int >= 1
        Number of most similar rows of each node that are candidates for edges.
    n_neighbors : number > 0
        Target for the mean number of neighbours; sets the weight of the sparsity term.
    prediction_weight, task_weight : number >= 0
        From the second round on: weight of the predictions among the signals of the graph step,
        and weight of the gradient of the classification loss in the graph step.
    metric : {"learned", "fixed"}
        ``learned``: from the second round on, columns are weighted by how well they separate the
        classes. ``fixed``: all columns keep the same weight.
    n_rounds : int >= 1
        Number of rounds, each a graph step and a classifier step.
    scaling : {"auto", "rows", "columns", "trimmed", "unit", "none"}
        How features are scaled; see :class:`glnn.engine.inputs.Scaling`.
    tracks : list of str
        Names of the tracks to train; see ``mixture_``. Default: all tracks of the preset.
    n_hidden : int >= 1
        Number of hidden units of the network.
    dropout, drop_node, teleport : number in [0, 0.99]
        Fraction of entries and fraction of nodes that are dropped during training, and the
        teleport probability of personalised PageRank (0: mean of the powers). ``drop_node`` and
        ``teleport`` apply to the head ``propagation``.
    n_steps, n_views : int
        For the head ``propagation``: number of propagation steps (>= 0) and number of random views
        per epoch (>= 1).
    consistency_weight, smoothness_weight : number >= 0
        Weights of two losses on the predictions: consistency between random views, and the graph
        Laplacian regulariser.
    gate : number in [0, 0.99]
        How far above chance the confidence of a node must be for it to take part in these losses.
        The preset's value depends on the number of classes.
    learning_rate : number > 0
        Learning rate of Adam.
    weight_decay : number >= 0
        Weight decay of the first layer.
    n_epochs : int >= 1
        Number of epochs per round.

    Attributes
    ----------
    classes_
        The sorted labels.
    transduction_, label_distributions_
        Predicted label and calibrated class probabilities of every training row.
    raw_distributions_
        Class probabilities before calibration.
    calibration_
        The map from raw to calibrated probabilities, a :class:`glnn.quality.Calibration`.
    held_out_
        Predictions of hidden labels, a :class:`glnn.quality.HeldOut`, or ``None``.
    folds_
        Which labels were hidden together during the fit, or ``None``.
    row_names_
        Names of the training rows, from ``ids`` or the index of ``X``; ``None`` without names.
    graph_, prior_graph_
        The learned graph and the prior graph as scipy CSR matrices. ``prior_graph_`` is ``None``
        if no graph was given.
    edge_trust_
        For each given edge the fraction of its weight that the learned graph kept, from 0
        (removed) to 1, times the trust in the given graph, as a scipy CSR matrix; ``None`` if
        ``prior_graph_`` is ``None``.
    n_edges_
        Number of learned edges, without the self-loops that ``graph_`` also stores.
    certificate_
        How close the learned graph is to the optimum, a :class:`glnn.Certificate`; ``None`` for
        the preset ``literal``.
    mixture_
        Weight of each track, by name. A track is a complete way to classify: ``learned`` (the
        learned graph), ``features`` (the same without the given graph), ``far`` (many propagation
        steps, no losses on predictions), ``linear`` and ``hops`` (heads on propagated columns).
        The probabilities are the weighted mean of theirs; the weights are found on labels that the
        tracks were not trained on.
    choices_
        What the fit chose by itself, in words: the mixture, how far the given graph is trusted
        (the weight of the tracks that use it), and which track learned ``graph_``.
    history_
        Losses and metrics of every epoch.
    n_iter_
        Number of epochs over all rounds.
    seed_
        The seed that was used.
    n_features_in_
        Number of feature columns.

    Notes
    -----
    Without ``validation`` every labelled row is used for training, the number of epochs is fixed
    and the last epoch is kept. With ``validation`` the epoch with the lowest loss on those rows is
    kept; they are never used for training.

    For a row that equals a training row, ``predict`` returns the prediction of that training row
    (the mean over all equal ones). Any other row is a new node: its edges to the training rows are
    found by solving the graph problem for this one row.

    In a fit over several processes each process calls ``fit`` with its own rows. Attributes with
    one row per node then hold all nodes in process 0 and the process's own rows elsewhere.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
    >>> clf = GLNNClassifier(n_epochs=20, random_state=0).fit(X, [0, -1, 1, -1])
    >>> clf.predict([[0.0, 0.9]])
    array([0])
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        graph: Any = None,
        validation: Any = None,
        *,
        ids: Any = None,
        sample_weight: Any = None,
        folds: int = N_FOLDS,
        groups: Any = None,
        times: Any = None,
        peers: Peers = SINGLE_PROCESS,
        checkpoint: str | Path | None = None,
    ) -> "GLNNClassifier":
        """Learn the graph and train the classifier.

        Parameters
        ----------
        X
            Features, nodes x columns, dense or sparse: array, tensor or numeric DataFrame (its
            index gives the names of the rows). A ``NodeData`` or PyG ``Data`` also provides the
            labels (of its training and validation nodes), the graph and the validation nodes.
            ``None``: there are no features, only a graph; the index of a Series ``y`` then gives
            the names of the rows.
        y
            One label per row, of any sortable type; ``-1`` (or ``None``, NaN, ``pd.NA``, empty
            text) marks an unlabelled row.
        graph
            ``None``, a scipy sparse or dense adjacency matrix, a ``2 x E`` array of node numbers,
            or PyG ``Data``; or a networkx graph or a DataFrame of edges (source, target, optional
            weight) that refers to rows by name.
        validation
            Numbers or mask of labelled rows that are used only to choose the epoch and to
            calibrate.
        ids
            Names of the rows; default: the index of a DataFrame ``X``, else numbers from 0.
        sample_weight
            Weight of the label of each row, at least 0; ignored for unlabelled rows.
        folds
            Without ``validation``, the labels are hidden in this many folds, to find the weights of
            the tracks and to calibrate.
        groups
            A value for each row; the labels of a group are hidden together. For rows that belong
            together, such as visits of one patient.
        times
            A value for each row; labels are predicted from earlier ones alone.
        peers
            The processes of a distributed fit (:func:`glnn.distributed.join_processes`). With
            several processes, ``X`` and ``graph`` (scipy sparse, rows x N) hold only the rows that
            ``glnn.distributed.Partition(len(y), peers)`` assigns to this process, as arrays; ``y``
            and ``validation`` are the same in every process.
        checkpoint
            Folder for the state after each round, so that an interrupted fit can be resumed.

        Returns
        -------
        GLNNClassifier
            The fitted estimator itself.
        """
        self._check_calibrate()
        self.row_names_ = None
        if peers.size == 1:
            self.row_names_ = resolve_row_names(X, y, ids)
            X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
        checked: list[tuple[dict[str, Any], FitProblem]] = []
        run_everywhere(
            peers,
            lambda: checked.append(
                (self._resolve_fit(), self._make_problem(X, y, validation, peers, sample_weight))
            ),
        )
        plan, problem = checked[0]
        if graph is not None:
            problem = dataclasses.replace(problem, graph=_convert_graph(graph, problem.partition))
        if not isinstance(self.random_state, numbers.Integral):
            plan["seed"] = int(
                peers.broadcast(float(plan["seed"]))
            )  # use the one drawn in process 0
        hides = (
            self.calibrate is not None or len(plan["settings"].tracks_for(graph is not None)) > 1
        )
        self.folds_ = None
        if hides and not plan["settings"].is_literal:
            self.folds_ = hide_labels(problem, folds, plan["seed"], groups, times)
        if self.folds_ is None and not (groups is None and times is None):
            raise InputError(
                "groups and times must come with labels that can be hidden in folds, got "
                "validation nodes, the preset 'literal', or one label a class. Leave them out."
            )
        self._fold_options = {"folds": folds, "groups": groups, "times": times}
        problem = dataclasses.replace(problem, folds=self.folds_)
        folder = None if checkpoint is None else Path(checkpoint)
        with limit_threads(problem.labels.n_nodes) if peers.size == 1 else nullcontext():
            result = fit_problem(problem, **plan, checkpoint=folder)
        self._store_fit(Model.of(problem.features, result), result.history)
        self._record = FitRecord.of(problem, result.learned or result.shares)
        self.certificate_, self.choices_ = result.certificate, result.choices
        self.mixture_, self.seed_ = result.weights, plan["seed"]
        if peers.size == 1:
            self._fitted_to, self._sample_weight = (X, y, graph, validation), sample_weight
        self._calibrate(problem, result.held_out)
        return self

    @property
    def edge_trust_(self) -> sp.csr_matrix | None:
        """For each given edge the fraction that was kept, times the weight of the given graph."""
        graph, prior = self.graph_, self.prior_graph_
        if prior is None or graph.shape[0] != graph.shape[1]:
            return None
        return retained_edge_shares(graph, prior) * self._model.graph_trust

    @property
    def n_edges_(self) -> int:
        """Number of learned edges without self-loops."""
        return int(sp.triu(self.graph_, k=1).nnz)

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return calibrated class probabilities of training rows or new rows.

        Parameters
        ----------
        X
            Features, as in ``fit``. ``None`` after a fit without features: all training rows, or
            the new rows of ``links``.
        links
            Known edges from new rows to the training rows (rows x training rows), if the model was
            fitted with a graph. With ``links`` every row is treated as a new node.

        Returns
        -------
        ndarray
            Probabilities, rows x classes, in the order of ``classes_``.
        """
        raw = self._raw_proba(X, links)
        return self.calibration_.apply(raw)

    def _raw_proba(self, X: Any, links: Any) -> np.ndarray:
        """Return class probabilities before calibration."""
        self._check_fitted()
        if X is None:
            X = self._featureless_rows(links)
        return self._model.predict_proba(self._check_features(X, reset=False), links)

    def _featureless_rows(self, links: Any) -> sp.csr_matrix:
        """Return placeholder features for a fit without features, of training or new rows."""
        n_nodes = len(self._model.distributions)
        if self._model.structure is None or self.n_features_in_ != n_nodes:
            raise InputError("X must hold features as in fit, got None.")
        if links is None:
            return sp.identity(n_nodes, dtype=np.float32, format="csr")
        return sp.csr_matrix((links.shape[0], n_nodes), dtype=np.float32)

    def predict(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        best = self.predict_proba(X, links).argmax(1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _store_fit(self, model: Model, history: History) -> None:
        self._model, self.history_ = model, history
        self.raw_distributions_ = model.gather("distributions")
        self.graph_, self.prior_graph_ = model.gather("adjacency"), model.gather("prior")
        self.n_iter_ = len(history)

    def _make_problem(
        self, X: Any, y: Any, validation: Any, peers: Peers, sample_weight: Any = None
    ) -> FitProblem:
        """Check the arguments of ``fit`` except the graph, and encode the labels."""
        X = self._check_features(X, reset=True)
        if y is None:
            raise InputError("GLNNClassifier requires y to be passed, but the target y is None.")
        n_nodes = X.shape[0] if peers.size == 1 else len(y)
        if n_nodes < 2:
            raise InputError("X must have at least two rows, got n_samples = 1.")
        partition = Partition(n_nodes, peers)
        if X.shape[0] != partition.n_rows:
            raise InputError(
                f"X must have {partition.n_rows} rows in process {peers.rank}, those that "
                f"glnn.distributed.Partition(len(y), peers).rows names, got {X.shape[0]}."
            )
        self.classes_, encoded = encode_targets(y, n_nodes)
        train, held = split_labels(encoded, validation, len(self.classes_))
        labels = Labels(train, encoded[train], n_nodes, len(self.classes_))
        chosen = None
        if held.size:
            chosen = Validation(torch.from_numpy(held), torch.from_numpy(encoded[held]))
        weights = label_weights(self.class_weight, sample_weight, self.classes_, encoded)
        if weights is not None:
            labels = labels.with_weights(weights[train])
            chosen = None if chosen is None else chosen.with_weights(weights[held])
        return FitProblem(X, labels, None, chosen, peers)

    def _check_features(self, X: Any, *, reset: bool) -> Any:
        """Check features, and their number of columns with scikit-learn's ``validate_data``."""
        try:
            X = validate_data(
                self,
                convert_features(X),
                accept_sparse="csr",
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=0,
                ensure_min_features=0,
                reset=reset,
            )
        except ValueError as error:
            raise InputError(" ".join(str(error).split())) from None
        return check_features("X", X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError("This GLNNClassifier is not fitted yet; call fit first.")


def _convert_graph(graph: Any, partition: Partition) -> sp.csr_matrix:
    """Return the graph as a checked CSR matrix, or the rows of this process."""
    if partition.peers.size == 1:
        return as_adjacency(graph, partition.n_nodes)
    return as_adjacency_rows(graph, partition)
