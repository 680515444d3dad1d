"""``GLNNClassifier``: scikit-learn's contract over the rounds of graph and classifier."""

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from glnn._utils import check_choice, check_features, check_indices, check_integer, did_you_mean
from glnn.data.arguments import (
    as_fit_arguments,
    name_column,
    names_of_rows,
    plain_features,
    row_number,
)
from glnn.data.node_data import ids_from_text
from glnn.distributed import ALONE, Partition, Peers, agreed
from glnn.engine.archive import unpacking
from glnn.engine.callbacks import Callback, History, StageLines, told_of_stage
from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import RECORD, FitProblem, FitRecord
from glnn.engine.inputs import (
    UNLABELLED,
    ScalingName,
    as_labels,
    check_device,
    decode_classes,
    encode_classes,
    encode_labels,
    is_unlabelled,
    split_labels,
)
from glnn.engine.model import Model
from glnn.engine.settings import (
    FirstGraph,
    FitSettings,
    Head,
    Metric,
    Preset,
    Selection,
    Signal,
    resolve_settings,
)
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation
from glnn.exceptions import InputError, NotFittedError
from glnn.graph.adjacency import GraphOperator, SparseAdjacency
from glnn.graph.convert import as_adjacency, as_adjacency_rows
from glnn.graph.operators import RandomWalk, edge_trust, with_loops, without_loops
from glnn.graph.prior import PriorKind, normalized
from glnn.nn.row_heads import RowNet
from glnn.objective import Reading, Weights
from glnn.quality.calibration import Calibration
from glnn.quality.explain import (
    Explanation,
    FittedNodes,
    Spread,
    explain,
    is_quickly_refitted,
    left_out_effects,
    unit_rows,
    voices_of,
)
from glnn.quality.folds import (
    Folds,
    HeldOut,
    hold_out,
    label_weights,
    labelled_scorer,
    of_validation,
    one_group,
    refitted,
    stratified_folds,
)
from glnn.quality.importance import ColumnImportance, column_importance, metric_weights
from glnn.quality.labelling import (
    ConformalSets,
    attention,
    fewest_labels,
    most_telling,
    suspect_labels,
)
from glnn.solver.certificate import Certificate
from glnn.solver.learn import Support

if TYPE_CHECKING:
    from pandas import DataFrame


# --- _parameters: The parameters of :class:`glnn.GLNNClassifier`: stored as given, checked when a

Calibrate = Literal["auto", "folds"]
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
    """Parameters by scikit-learn's contract; see :class:`glnn.GLNNClassifier` for their meaning."""

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
        first_graph: FirstGraph | None = None,
        scaling: ScalingName | None = None,
        doubts_graph: bool | None = None,
        competes: bool | None = None,
        selection: Selection | None = None,
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
        self.first_graph = first_graph
        self.scaling = scaling
        self.doubts_graph = doubts_graph
        self.competes = competes
        self.selection = selection
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
        """Set parameters; an unknown name is refused with the nearest known one."""
        known = self.get_params(deep=False)
        for name in params:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"Invalid parameter {name!r} for {type(self).__name__}.{hint}")
        return super().set_params(**params)  # type: ignore[no-any-return]

    def _plan(self) -> dict[str, Any]:
        """Return settings, seed, device and callbacks of a fit, checked."""
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
        return [*callbacks, StageLines()] if self.verbose else list(callbacks)

    def _seed(self) -> int:
        """Return the seed, or draw one from the generator."""
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
        """Return what JSON can hold of the parameters, with the seed that was used."""
        params = self.get_params(deep=False) | {"callbacks": None, "random_state": seed}
        if self.weights is not None:
            params["weights"] = vars(self.weights)
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}
        return {k: v for k, v in plain.items() if v is not None}

    @staticmethod
    def _params_of(page: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters that were written as plain values."""
        params = {"calibrate": None} | page  # which None is not written
        if "weights" in page:
            params["weights"] = Weights(**page["weights"])
        return params


# --- _outputs: What a fitted classifier gives to people and other programs; a part of ``GLNNClassi


class OutputsMixin:
    """The page to explore, and the graph for networkx.

    Both are made by ``glnn.report``, which is above the estimator in the order of imports, so it
    is looked up by name when it is asked for. A class that mixes it in has ``_check_fitted``.
    """

    def report(self, path: str | Path) -> Path:
        """Write a page to explore the fit with, one HTML file that needs no network."""
        page = self._page_module()
        written: Path = page.write_report(self, Path(path), getattr(self, "_fitted_to", None))
        return written

    def to_networkx(self) -> Any:
        """Return the learned graph as a ``networkx.Graph``.

        Nodes are named as the rows of the training table, else by their numbers as text, and have
        ``class``, ``probability`` and ``given_label`` (empty without one); edges have ``weight``
        and ``origin``, which is ``given`` or ``learned``, and given ones ``trust``, the share of
        their weight that was kept.
        """
        page = self._page_module().page_of_model(self, getattr(self, "_fitted_to", None))
        return import_module("glnn.report.export").network_of(page)

    def _page_module(self) -> Any:
        self._check_fitted()  # type: ignore[attr-defined]
        return import_module("glnn.report.page.document")


# --- _saved: A fitted classifier as a folder and back; a part of ``GLNNClassifier``

_Estimator = TypeVar("_Estimator", bound="SavedMixin")


class SavedMixin:
    """Saving and loading: safetensors for numbers, JSON for everything else.

    A class that mixes it in has the attributes of a fit, ``_keep`` and ``_restore_trust``.
    """

    def save(self, folder: str | Path) -> None:
        """Write the fitted model into a folder as safetensors and JSON; nothing is pickled.

        The seed that was used is saved, whatever ``random_state`` was. After a fit over several
        processes all call it, and the first one writes.
        """
        fit: Any = self
        fit._check_fitted()
        record, shares = fit._record.packed()
        page = {
            "params": fit._plain_params(fit.seed_),
            "classes": encode_classes(fit.classes_),
            "certificate": None if fit.certificate_ is None else fit.certificate_.to_dict(),
            "choices": fit.choices_,
            "calibration": fit.calibration_.to_dict(),
            "n_features_in": fit.n_features_in_,
            "feature_names_in": [str(name) for name in getattr(fit, "feature_names_in_", [])],
            "row_names": None if fit.row_names_ is None else fit.row_names_.astype(str).tolist(),
            "history": [dict(epoch) for epoch in fit.history_],
            "shares": shares,
        }
        fit._model.save(Path(folder), page, fit._held_out_arrays() | record)

    @classmethod
    def load(cls: type[_Estimator], folder: str | Path) -> _Estimator:
        """Read a model that :meth:`save` wrote."""
        model, page = Model.load(Path(folder))
        with unpacking(Path(folder)):
            return cls._restored(model, page)

    @classmethod
    def _restored(cls: type[_Estimator], model: Model, page: dict[str, Any]) -> _Estimator:
        made: Any = cls
        fit = made(**made._params_of(page["params"]))
        fit.classes_ = decode_classes(page["classes"])
        fit.n_features_in_ = int(page["n_features_in"])
        if page["feature_names_in"]:
            fit.feature_names_in_ = np.array(page["feature_names_in"], dtype=object)
        names = page["row_names"]
        fit.row_names_ = None if names is None else ids_from_text(names)
        certificate = page["certificate"]
        fit.certificate_ = None if certificate is None else Certificate.from_dict(certificate)
        fit.choices_, fit.seed_ = page["choices"], page["params"]["random_state"]
        history = History()
        for record in page["history"]:
            history.append(record)
        fit._keep(model, history)
        fit._record = FitRecord.unpacked(page["more"], page["shares"])
        others = {n: array for n, array in page["more"].items() if not n.startswith(RECORD)}
        fit._restore_trust(page.get("calibration"), others)
        return fit  # type: ignore[no-any-return]


# --- trusted: What a fitted classifier says about how far to trust it; a part of ``GLNNClassifier`

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
        :func:`glnn.quality.folds.labelled_scorer`.
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


# --- reasons: What a fitted classifier says about its reasons; a part of ``GLNNClassifier``


class ReasonsMixin:
    """Why a node got its class, which columns count, and what to label next.

    A class that mixes it in sets ``classes_`` and ``label_distributions_`` in ``fit``, and keeps
    its model as ``_model`` and what it was told as ``_record``; where rows have names, they are
    ``row_names_``.
    """

    classes_: np.ndarray
    label_distributions_: np.ndarray
    n_features_in_: int
    _model: Model
    _record: FitRecord
    _sample_weight: Any
    _left_out: np.ndarray | None = None  # effects of all labels on all rows, once they are known
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
        """Say why a training row got its class.

        Parameters
        ----------
        node : int or str
            Number of the row, or its name as text: that of ``ids`` or of the index of ``X``.
        n_links, n_labels : int >= 0, default 10
            How many links and labelled rows to name.
        refits : int >= 0 or None, default None
            How the effects of labels are found. 0: they are estimates, at once. Otherwise the
            labels with the largest estimates are really left out, one at a time, and this many fits
            with and without each are compared: ``refits * (n_labels + 1)`` of them, each with its
            calibration. That needs the data, so the fit must have been made in this session.
            ``None``: where 80 fits of at most 1,000 rows and 100,000 numbers will do, every label
            is left out once, with the seed of this fit, at the first call; elsewhere, and after
            loading, effects are estimates.
        column_names
            Names of the feature columns; ``None``: those of the training table, else numbers.

        Returns
        -------
        Explanation
            The heaviest links with what each term of the graph problem gives to their weight, the
            labelled rows that speak for and against, and the columns that made the links.
        """
        if refits is not None:
            check_integer("refits", refits, low=0)
        nodes = self.fitted_nodes(column_names)
        node = row_number(node, self._row_names())
        found = explain(nodes, node, n_links=n_links, n_labels=n_labels)
        if refits == 0 or n_labels == 0:
            return found
        if refits is None:
            labelled, effects = nodes.trained, self._effects_of_all(nodes)
        else:
            labelled = np.array([voice.node for voice in found.voices], dtype=np.int64)
            effects = self._measured_effects(labelled, refits)
        if effects is None:
            return found
        others = labelled != node
        voices = voices_of(nodes, labelled[others], effects[others, node])[:n_labels]
        return dataclasses.replace(found, voices=voices, is_measured=True)

    def suggest_labels(self, k: int = 10, among: Any = None) -> "DataFrame":
        """Say which rows to label next: those whose labels would tell most about uncertain rows.

        Parameters
        ----------
        k : int >= 1, default 10
            How many.
        among
            Numbers or mask of the rows that may be suggested; ``None``: all. Rows whose labels
            are known never are.

        Returns
        -------
        DataFrame
            One line for each suggestion, the best first: the row's number (``node``), its ``name``
            where rows have names, what is ``predicted`` now with which ``probability``, and the
            ``gain``: by how much the label would lower the variance of all rows, weighted by how
            uncertain they are.
        """
        from pandas import DataFrame

        check_integer("k", k, low=1)
        nodes = self.fitted_nodes()
        every = np.arange(nodes.n_nodes)
        may = every if among is None else check_indices("among", among, nodes.n_nodes)
        pool = np.intersect1d(may, every[nodes.labels == UNLABELLED])
        known = np.flatnonzero(nodes.labels != UNLABELLED)
        weights = attention(nodes.probabilities)
        chosen, gains = most_telling(unit_rows(nodes.rows()), weights, known, pool, k)
        best = nodes.probabilities[chosen].argmax(1)
        columns = {
            "node": chosen,
            **name_column(self._row_names(), chosen),
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
        """Say which feature columns count, on rows whose labels the fit has not seen.

        Each row is classified as a new node, with its columns as they are and with one of them
        shuffled among the rows.

        Parameters
        ----------
        X, y
            Rows and their labels; unlabelled rows are left out.
        links
            Known edges of the rows to the training rows, as in ``predict_proba``.
        n_columns : int >= 1, default 20
            Columns to shuffle: those that count most in the learned similarity.
        n_repeats : int >= 1, default 5
            How often each is shuffled.
        random_state : int >= 0, default 0
            Seed of the shuffling.
        """
        features = self._checked(X, reset=False)  # type: ignore[attr-defined]
        numbers = self._class_numbers(y, features.shape[0])
        judged = np.flatnonzero(numbers != UNLABELLED)
        joined = None if links is None else links[judged]
        nodes = self.fitted_nodes()
        if nodes.compared is not None:
            raise InputError(
                "column_importance must come after a fit that compares features, got one that "
                "compares the graph's structure."
            )
        return column_importance(
            lambda rows: self._model.predict_new(rows, joined),
            features[judged],
            numbers[judged],
            weights=metric_weights(nodes.shares, self.n_features_in_),
            names=nodes.column_names,
            n_columns=n_columns,
            n_repeats=n_repeats,
            seed=check_integer("random_state", random_state, low=0),
        )

    def _effects_of_all(self, nodes: FittedNodes) -> np.ndarray | None:
        """Return the effects of all labels on all rows; ``None`` where they cannot be had soon."""
        n_fits = (len(nodes.trained) + 1) * self._fits_of_one()  # type: ignore[attr-defined]
        is_quick = is_quickly_refitted(n_fits, nodes.features.shape)
        if not is_quick or not hasattr(self, "_fitted_to"):
            return None
        if self._left_out is None:
            self._left_out = self._measured_effects(nodes.trained, 1)
        return self._left_out

    def _measured_effects(self, labelled: np.ndarray, n_seeds: int) -> np.ndarray:
        """Leave labels out one at a time, with the seed of this fit and others."""
        if not hasattr(self, "_fitted_to"):
            raise InputError("refits must be 0 for a model that was loaded, which has no data.")
        self._check_unchanged()  # type: ignore[attr-defined]
        seeds = [self.seed_ ^ k for k in range(n_seeds)]  # its own first, and no larger ones
        refit = partial(self._refit, calibrate=self.calibrate)  # type: ignore[attr-defined]
        with told_of_stage(self._callbacks(), "labels left out"):  # type: ignore[attr-defined]
            return left_out_effects(refit, labelled, seeds)

    def _row_names(self) -> np.ndarray | None:
        """Return the names of the training rows, if they have any."""
        return getattr(self, "row_names_", None)

    def _class_numbers(self, y: Any, n_rows: int) -> np.ndarray:
        """Return the classes of labels by the numbers they have in the fit."""
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
        """Return the training rows as explanations see them.

        Parameters
        ----------
        column_names
            Names of the feature columns; ``None``: those of the training table, else numbers.
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
            _spread_of(model),
            self._record.labels,
            np.flatnonzero(self._record.trains),
            self.label_distributions_,
            self.classes_,
            [str(name) for name in names],
            self._record.shares,
            compared,
        )


def _spread_of(model: Model) -> Spread:
    """Return how the first network spreads signals over the graph that it sees, once it is asked.

    Where a head keeps the hops apart, the mean over them.
    """
    network: Any = model.networks[0]
    is_on_rows = isinstance(network, RowNet)

    @cache
    def graph() -> GraphOperator:
        if not is_on_rows:
            return SparseAdjacency.from_scipy(normalized(model.adjacency))
        seen = with_loops if network.needs_loops else without_loops
        return RandomWalk.of(seen(model.row_graph), dtype=torch.float64)

    def spread(signals: np.ndarray) -> np.ndarray:
        columns = torch.from_numpy(np.ascontiguousarray(signals, dtype=np.float64))
        with torch.no_grad():
            found = network.spread(graph(), columns)
        heard: np.ndarray = (found.mean(1) if is_on_rows else found).numpy()
        return heard

    return spread


# --- estimator: ``GLNNClassifier``: scikit-learn's contract over the rounds of graph and classifie


class GLNNClassifier(
    TrustedMixin,
    ReasonsMixin,
    OutputsMixin,
    SavedMixin,
    ClassifierMixin,  # type: ignore[misc]
    FitParameters,
):
    """Learn a graph from features and a few labels, and classify its nodes.

    Parameters
    ----------
    preset : {"default", "paper", "literal"}, default "default"
        ``default``: the best recipe we measured. ``paper``: the paper's terms, weights and
        network, solved exactly. ``literal``: the paper's optimiser as printed, for the record.
        Parameters below are the preset's where they are ``None``, which is their default.
    head : {"propagation", "gcn", "linear", "hops"}
        The network. ``linear``: one layer on features that were spread over the given graph, small
        steps; ``hops``: a perceptron on a node and each ring of its neighbourhood side by side.
        A head that is named competes with no other.
    random_state : int >= 0, generator or None, default None
        Seed; the same seed gives the same bits on the CPU. ``None``: a new one each time.
    device : default "cpu"
        ``cpu``, or a CUDA device of PyTorch.
    callbacks : default None
        Objects of :class:`glnn.engine.callbacks.Callback` that watch the fit.
    calibrate : {"auto", "folds"} or None, default "auto"
        Where calibrated probabilities come from. ``auto``: the validation nodes, at no cost;
        without them a third of the labels, hidden once, which makes ``fit`` take about twice as
        long. ``folds``: each label hidden once in five fits, six times as long in all, and the
        most exact. ``None``: probabilities stay as the network gives them; nothing is spent. Over
        several processes validation nodes alone calibrate.
    class_weight : "balanced", dictionary or None, default None
        How much labels of each class count, in the losses on labels and on predictions, in the
        choice of the epoch and in calibration. ``balanced``: each class as much as any other.
    verbose : bool, default False
        Whether each step of the fit is written to the standard output, with the time it took.
    weights : Weights
        Of the terms of the graph problem; see :func:`glnn.learn_graph`.
    reading : {"trace", "channel", "frobenius"}
        Of the graph Laplacian regulariser.
    signal : {"l2", "idf", "standardized", "raw", "structure"}
        How features become signals of the graph problem. ``structure``: the smooth part of the
        given graph joins the features and nodes are compared by it, as the default does by itself
        where features say nothing (none, the identity, constants).
    prior : {"binary", "symmetric", "renormalized", "pagerank"}
        How the prior graph is made from the given one.
    support : {"candidates", "all"}
        Which pairs may become edges: given ones and similar ones, or any.
    n_candidates : int >= 1
        Similar rows of each node that are candidates.
    n_neighbors : number > 0
        Wanted mean number of neighbours; sets the weight of sparsity.
    prediction_weight, task_weight : number >= 0
        How much predictions count among the signals, and the classification loss's gradient in
        the graph step, from the second round on.
    metric : {"learned", "fixed"}
        ``learned``: from the second round on, columns count by what they say about the classes.
    n_rounds : int >= 1
        Rounds of graph step and classifier step.
    first_graph : {"prior", "features"}
        What the first classifier sees of a given graph: the prior graph as it is, or the graph
        learned from features.
    scaling : {"auto", "rows", "columns", "trimmed", "unit", "none"}
        How features are scaled; see :class:`glnn.engine.inputs.Scaling`.
    doubts_graph : bool
        Whether probes decide how far a given graph is trusted: left out where features alone
        serve the labels clearly better, followed more closely where it does. With validation
        nodes lower degrees of closeness are tried where the graph is not by far the better source.
    competes : bool
        Whether the heads ``linear`` and ``hops`` (and a perceptron on the features alone) are
        trained too in the first round, where something can judge them. The best is taken, and
        those that cannot be told apart from it answer together with it.
    selection : {"auto", "schedule", "folds"}
        Who judges competitors where there are no validation nodes. ``folds``: labels that are
        hidden in turn, which takes three further trainings of each head. ``schedule``: nobody,
        and the number of labels says how cautious the head is. ``auto``, the presets': ``folds``
        where a graph is given with 15 labels a class or more.
    n_hidden : int >= 1
        Hidden units of the network.
    dropout, drop_node, teleport : number in [0, 0.99]
        Share of entries and of nodes that are dropped in training, and PageRank's teleport (0:
        mean of powers). The last two are of the head ``propagation``.
    n_steps, n_views : int
        Of the head ``propagation``: steps over the graph (>= 0), random views an epoch (>= 1).
    consistency_weight, smoothness_weight : number >= 0
        Weights of the losses on predictions: agreement of views, and the graph Laplacian
        regulariser on the predictions.
    gate : number in [0, 0.99]
        How far above chance a prediction must be to take part in them. The preset's follows the
        number of classes and, for few labels, a choice.
    learning_rate : number > 0
        Adam's step size.
    weight_decay : number >= 0
        Of the first layer.
    n_epochs : int >= 1
        Epochs of a round.

    Attributes
    ----------
    classes_
        The sorted labels.
    transduction_, label_distributions_
        Label and calibrated class probabilities of every training row.
    raw_distributions_
        The same before calibration.
    calibration_
        The map from raw to calibrated probabilities, a :class:`glnn.quality.Calibration`.
    held_out_
        Predictions of labels that were hidden, a :class:`glnn.quality.HeldOut`, or ``None``.
    row_names_
        Names of the training rows, from ``ids`` or the index of ``X``; ``None`` without any.
    graph_, prior_graph_
        The learned graph and the prior graph, scipy CSR; the latter is ``None`` without a given
        graph, or if the fit chose not to trust it.
    edge_trust_
        For each given edge the share of its weight that the learned graph kept, from 0 (dropped) to
        1, scipy CSR; ``None`` where ``prior_graph_`` is.
    n_edges_
        Number of learned edges, loops aside, which ``graph_`` stores, too.
    certificate_
        What is proven about the learned graph; ``None`` for the preset ``literal``.
    choices_
        What the fit chose by itself: source (``given`` graph, ``features`` in spite of one, or
        ``none`` given), signal, closeness, gate, head (or heads that answer together), steps and
        number of rounds.
    history_
        Every epoch's named numbers.
    n_iter_
        Number of epochs over all rounds.
    seed_
        The seed that was used.
    n_features_in_
        Number of columns of the features.

    Notes
    -----
    Of several processes each calls ``fit`` with its rows. Attributes with a row a node then are
    those of all nodes in process 0, and those of its rows in every other one.

    Without ``validation`` the schedule takes no label away: every labelled row trains, the number
    of epochs is fixed, and the last epoch counts. With it, the epoch with the lowest loss on those
    rows counts; they never train.

    Prediction on rows that were in the training data returns their transductive answer (for a row
    that equals several, the mean of theirs); any other row is a new node, whose links are the
    answer of the one-row graph problem.

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
        peers: Peers = ALONE,
        checkpoint: str | Path | None = None,
    ) -> "GLNNClassifier":
        """Learn graph and classifier together.

        Parameters
        ----------
        X
            Features, nodes x columns, dense or sparse: arrays, tensors or a frame of numbers, whose
            index names the rows. Or a whole ``NodeData`` or PyG ``Data``, which also brings labels
            (those of its training and validation nodes), graph and validation nodes. ``None``:
            there is nothing but a graph; the index of a series ``y`` then names the rows.
        y
            One label a row, of any sortable type; ``-1`` (or ``None``, NaN, ``pd.NA``, empty text)
            marks an unlabelled row.
        graph
            ``None``, a scipy sparse or dense adjacency matrix, a ``2 x E`` array of node numbers,
            or PyG ``Data``; or a networkx graph or a frame of edges (source, target, perhaps
            weight), whose names are matched with those of the rows.
        validation
            Numbers or mask of labelled rows used for choosing the epoch only.
        ids
            Names of the rows; by default the index of a frame ``X``, else they are numbered from 0.
        sample_weight
            How much the label of each row counts, at least 0; rows without one take no part.
        peers
            The processes of this fit (:func:`glnn.distributed.joined_peers`). With several, ``X``
            and ``graph`` (scipy sparse, rows x N) are the rows that
            ``glnn.distributed.Partition(len(y), peers)`` gives to this one, as arrays; ``y`` and
            ``validation`` are the same everywhere.
        checkpoint
            Folder for the state after each round, to go on from after an interruption.
        """
        self._check_calibrate()
        self.row_names_ = None
        if peers.size == 1:
            self.row_names_ = names_of_rows(X, y, ids)
            X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
        checked: list[tuple[dict[str, Any], FitProblem]] = []
        agreed(
            peers,
            lambda: checked.append(
                (self._plan(), self._problem(X, y, validation, peers, sample_weight))
            ),
        )
        plan, problem = checked[0]
        if graph is not None:
            problem = dataclasses.replace(problem, graph=_adjacency(graph, problem.partition))
        if not isinstance(self.random_state, numbers.Integral):
            plan["seed"] = int(peers.broadcast(float(plan["seed"])))  # it was drawn
        folder = None if checkpoint is None else Path(checkpoint)
        result = fit_problem(problem, **plan, checkpoint=folder)
        self._keep(Model.of(problem.features, result), result.history)
        self._record = FitRecord.of(problem, result.learned or result.shares)
        self.certificate_, self.choices_ = result.certificate, result.choices
        self.seed_ = plan["seed"]
        if peers.size == 1:
            self._calibrate(X, y, graph, validation, sample_weight)
        else:
            self.trust(self._judged_by_validation(problem))
        return self

    def _judged_by_validation(self, problem: FitProblem) -> HeldOut | None:
        """Return what a fit over several processes says of the validation nodes, in the first."""
        nodes = problem.validation
        if problem.peers.rank or nodes is None or self.calibrate is None:
            return None
        encoded = np.full(problem.labels.n_nodes, UNLABELLED, dtype=np.int64)
        encoded[nodes.nodes.numpy()] = nodes.labels.numpy()
        return of_validation(self.raw_distributions_, encoded, nodes.nodes.numpy())

    @property
    def edge_trust_(self) -> sp.csr_matrix | None:
        """For each given edge the share of its weight that was kept."""
        graph, prior = self.graph_, self.prior_graph_
        has_all = prior is not None and graph.shape[0] == graph.shape[1]
        return edge_trust(graph, prior) if has_all else None

    @property
    def n_edges_(self) -> int:
        """Number of learned edges, loops aside."""
        return int(sp.triu(self.graph_, k=1).nnz)

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, from training or new.

        Parameters
        ----------
        X
            Features, as in ``fit``; ``None`` after a fit without any: then all training rows are
            meant, or the new ones that ``links`` have.
        links
            Known edges of new rows to the training rows (rows x training rows), if the model was
            fitted with a graph. Given links make every row a new node.
        """
        raw = self._raw_proba(X, links)
        return self.calibration_.apply(raw)

    def _raw_proba(self, X: Any, links: Any) -> np.ndarray:
        """Return class probabilities as the network gives them."""
        self._check_fitted()
        if X is None:
            X = self._no_features(links)
        return self._model.predict_proba(self._checked(X, reset=False), links)

    def _no_features(self, links: Any) -> sp.csr_matrix:
        """Return rows of a fit without features: those of training, or of new nodes with links."""
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

    def _keep(self, model: Model, history: History) -> None:
        self._model, self.history_ = model, history
        self.raw_distributions_ = model.whole("distributions")
        self.graph_, self.prior_graph_ = model.whole("adjacency"), model.whole("prior")
        self.n_iter_ = len(history)

    def _problem(
        self, X: Any, y: Any, validation: Any, peers: Peers, sample_weight: Any = None
    ) -> FitProblem:
        """Check the arguments of ``fit`` but for the graph, and number the classes."""
        X = self._checked(X, reset=True)
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
        self.classes_, encoded = encode_labels(y, n_nodes)
        train, held = split_labels(encoded, validation, len(self.classes_))
        labels = Labels(train, encoded[train], n_nodes, len(self.classes_))
        chosen = None
        if held.size:
            chosen = Validation(torch.from_numpy(held), torch.from_numpy(encoded[held]))
        weights = label_weights(self.class_weight, sample_weight, self.classes_, encoded)
        if weights is not None:
            labels = labels.weighted(weights[train])
            chosen = None if chosen is None else chosen.weighted(weights[held])
        return FitProblem(X, labels, None, chosen, peers)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Check features with our own messages, and their number with scikit-learn's."""
        try:
            X = validate_data(
                self,
                plain_features(X),
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


def _adjacency(graph: Any, partition: Partition) -> sp.csr_matrix:
    """Return a checked graph, or this process's rows of it."""
    if partition.peers.size == 1:
        return as_adjacency(graph, partition.n_nodes)
    return as_adjacency_rows(graph, partition)
