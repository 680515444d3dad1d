"""The estimator :class:`glnn.GLNNClassifier`, which follows scikit-learn's conventions."""

import dataclasses
import functools
import inspect
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, ParamSpec

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from glnn._utils import (
    check_device,
    check_features,
    check_indices,
    check_integer,
    did_you_mean,
    limit_threads,
)
from glnn.data.arguments import as_fit_arguments, convert_features, find_row, resolve_row_names
from glnn.data.encode import TableEncoder, encode_frame, is_frame, transform_frame, warn_of_notes
from glnn.data.labels import (
    N_FOLDS,
    as_labels,
    encode_targets,
    is_unlabelled,
    split_labels,
    warn_of_class_minus_one,
)
from glnn.distributed import SINGLE_PROCESS, Partition, Peers, run_everywhere
from glnn.engine.archive import read_archive, wrap_unpack_errors, write_archive
from glnn.engine.callbacks import Callback, History, Record, notify_stage, show_progress
from glnn.engine.fit import FitResult, fit_problem
from glnn.engine.fit_problem import FitProblem, FitRecord, hide_labels
from glnn.engine.model import Model
from glnn.engine.settings import (
    SETTING_NAMES,
    FitSettings,
    Preset,
    check_setting_name,
    resolve_settings,
)
from glnn.engine.steps import Steps
from glnn.engine.tasks import Labels
from glnn.exceptions import InputError, InputTypeError, NotFittedError
from glnn.graph.operators import retained_edge_shares
from glnn.graph.pairs import as_adjacency_rows
from glnn.objective import Weights
from glnn.quality.calibration import Calibration
from glnn.quality.explain import (
    Explanation,
    FittedNodes,
    explain,
    nearest_labels,
    sort_label_effects,
)
from glnn.quality.folds import HeldOut, clone_with, label_weights, labelled_scorer, mask_labels
from glnn.quality.labelling import ConformalSets, suggest_nodes, suspect_labels
from glnn.solver.certificate import Certificate

_P = ParamSpec("_P")
_SETTING = "settings__"  # prefix of the names of single settings, as in scikit-learn
_OWN_SETTINGS = ("n_neighbors", "tracks", "n_rounds", "n_epochs")  # which are parameters, too


def suggest_parameters(init: Callable[_P, None]) -> Callable[_P, None]:
    """Let a constructor refuse unknown keywords in one line that names the nearest known one."""
    known = list(inspect.signature(init).parameters)

    @functools.wraps(init)
    def checked(*args: _P.args, **params: _P.kwargs) -> None:
        for name in params:
            if name not in known:
                raise InputTypeError(_unknown_parameter(name, known[1:]))
        init(*args, **params)

    return checked


def _unknown_parameter(name: str, known: Iterable[str]) -> str:
    if name in SETTING_NAMES:
        return f"{name!r} is a setting: give GLNNClassifier(settings={{{name!r}: ...}})."
    hint = did_you_mean(name, known) or did_you_mean(name, SETTING_NAMES)
    return f"GLNNClassifier has no parameter {name!r}.{hint}"


def encode_features(X: Any, encode: Any, y: Any) -> tuple[Any, TableEncoder | None]:
    """Encode a frame as the parameter ``encode`` says; return anything else unchanged."""
    if encode not in (None, "auto") and not isinstance(encode, Mapping):
        raise InputError(f"encode must be 'auto', a dictionary or None, got {encode!r}.")
    if encode is None or not is_frame(X):
        return X, None
    texts: list[str] = []
    labels = np.empty(0) if y is None else as_labels(y).ravel()
    if len(labels) == len(X):  # another length is refused later
        texts = np.where(is_unlabelled(labels), "", labels.astype(str)).tolist()
    kinds = {} if encode == "auto" else encode
    return encode_frame(X, kinds=kinds, drop_constant=True, labels=texts)


class GLNNClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a graph from features and a few labels, and classify its nodes.

    ``fit`` alternates between two steps. The graph step learns a sparse weighted graph by solving
    a convex problem; the classifier step trains a graph neural network on that graph. The preset
    ``default`` trains several models and mixes their predictions (``mixture_``). Rows without a
    label take part, too; ``-1`` in ``y`` marks them, as in scikit-learn.

    Most fits need no parameter. The first four are worth knowing.

    Parameters
    ----------
    preset : {"default", "paper", "literal"}, default "default"
        ``default``: the best settings in our benchmarks. ``paper``: the terms, weights and network
        of the paper, solved exactly. ``literal``: the optimiser as printed in the paper.
    n_neighbors : number > 0, default None
        Mean number of neighbours in the learned graph. ``None`` here and below: the preset's value.
    class_weight : "balanced", dict or None, default None
        Weight of the labels of each class, as in scikit-learn.
    tracks : list of str, default None
        Names of the tracks to train; see ``mixture_``. One track takes a fraction of the time.
    calibrate : "auto" or None, default "auto"
        ``auto``: probabilities are calibrated with the validation nodes, or else with labels that
        are hidden in folds. ``None``: they are not. The preset ``literal`` has no calibration.
    encode : "auto", dict or None, default None
        ``auto``: text, categories, dates and missing cells of a DataFrame ``X`` become numbers, as
        in ``glnn fit``, and new rows get the same treatment. A dictionary, such as ``{"zip":
        "category"}``, does so with the kinds of some columns (``number``, ``category``, ``dmy``,
        ``mdy``). ``None``: ``X`` must hold numbers.
    n_rounds, n_epochs : int >= 1, default None
        Number of rounds (a graph step and a classifier step), and of epochs per round.
    device : str, default "cpu"
        ``cpu`` or a CUDA device of PyTorch such as ``cuda:0``.
    random_state : int >= 0, generator or None, default None
        Seed. ``None``: a new one for each fit, stored in ``seed_``.
    callbacks : list of Callback, default None
        :class:`glnn.engine.callbacks.Callback` objects that are called during the fit.
    verbose : bool, default False
        Show a progress bar.
    settings : dict or FitSettings, default None
        All other settings by name, such as ``{"head": "gcn", "learning_rate": 0.1}``; the page
        "Choose parameters" lists them. ``set_params`` and ``GridSearchCV`` take one of them as
        ``settings__learning_rate``. A ``FitSettings`` replaces the preset.

    Attributes
    ----------
    classes_
        The sorted labels.
    transduction_, label_distributions_, raw_distributions_
        Predicted label and class probabilities of every training row, calibrated and raw.
    graph_, prior_graph_
        The learned graph, and the prior graph made of the given one or ``None``, as CSR matrices.
    edge_trust_
        For each given edge the fraction of its weight that the learned graph kept, times the trust
        in the given graph; ``None`` without one.
    n_edges_
        Number of learned edges, without the self-loops of ``graph_``.
    certificate_
        How close the learned graph is to the optimum, a :class:`glnn.Certificate`; ``None`` for
        the preset ``literal``.
    mixture_
        Weight of each track, by name. A track is a complete way to classify: ``learned`` (the
        learned graph), ``features`` (the same without the given graph), ``linear`` and ``hops``
        (heads on propagated columns), and, where the features carry no information,
        ``spectral`` (eigenvectors of the given graph). Probabilities are the weighted mean of
        theirs; the weights are found on labels that the tracks have not seen.
    encoder_
        How ``encode="auto"`` encodes the columns of a frame, or ``None``; ``encoder_.describe()``
        lists the columns and what was done with each.
    choices_
        What the fit chose by itself, in words.
    calibration_, held_out_, folds_
        The map from raw to calibrated probabilities, the predictions of hidden labels behind it
        (or ``None``), and which labels were hidden together (or ``None``).
    row_names_
        Names of the training rows, from ``ids`` or the index of ``X``; ``None`` without names.
    history_, n_iter_, seed_, n_features_in_
        Losses and metrics of every epoch, number of epochs, the seed that was used, number of
        feature columns.

    Notes
    -----
    With ``validation`` the epoch with the lowest loss on those rows is kept; otherwise the mean of
    the parameters over the second half of the epochs (in the preset ``paper`` the last epoch).
    A row that equals a training row gets its prediction. Any other row is a new node: its edges to
    the training rows are found by solving the graph problem for this one row. In a fit over several
    processes each one passes its own rows, and attributes with one row per node hold all nodes in
    process 0 and the process's own rows elsewhere.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
    >>> clf = GLNNClassifier(n_epochs=20, random_state=0).fit(X, [0, -1, 1, -1])
    >>> clf.predict([[0.0, 0.9]])
    array([0])
    """

    _shared: list[Steps] | None = None  # what fits to the same data have in common
    _fitted_to: dict[str, Any] | None = None  # arguments of the fit, after encoding; not saved

    @suggest_parameters
    def __init__(
        self,
        preset: Preset = "default",
        *,
        n_neighbors: float | int | None = None,
        class_weight: Literal["balanced"] | dict[Any, float] | None = None,
        calibrate: Literal["auto"] | None = "auto",
        tracks: Sequence[str] | None = None,
        encode: Literal["auto"] | dict[str, str] | None = None,
        n_rounds: int | None = None,
        n_epochs: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        settings: Mapping[str, Any] | FitSettings | None = None,
    ) -> None:
        self.preset = preset
        self.n_neighbors = n_neighbors
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.tracks = tracks
        self.encode = encode
        self.n_rounds = n_rounds
        self.n_epochs = n_epochs
        self.device = device
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; ``deep`` adds each entry of ``settings``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.settings, Mapping):
            params |= {f"{_SETTING}{name}": value for name, value in self.settings.items()}
        return params

    def set_params(self, **params: Any) -> "GLNNClassifier":
        """Set parameters, or single settings as ``settings__name`` or by their name alone."""
        known = self.get_params(deep=False)
        changes = {}
        for name, value in params.items():
            setting = name.removeprefix(_SETTING)
            if name in known:
                setattr(self, name, value)
            elif setting != name or name in SETTING_NAMES:
                check_setting_name(setting)
                changes[setting] = value
            else:
                raise InputError(_unknown_parameter(name, known))
        if isinstance(self.settings, FitSettings):
            self.settings = resolve_settings(self.settings, changes)
        elif changes:
            self.settings = self._settings_by_name() | changes
        return self

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
            Features, nodes x columns: array, tensor, sparse matrix or DataFrame of numbers; with
            ``encode="auto"`` any DataFrame. A ``NodeData`` or PyG ``Data`` also has labels, graph
            and validation nodes. ``None``: there is only a graph.
        y
            One label per row, of any sortable type; ``-1`` (or ``None``, NaN, ``pd.NA``, empty
            text) marks an unlabelled row.
        graph
            ``None``, an adjacency matrix or a ``2 x E`` array of node numbers; or a networkx graph
            or a DataFrame of edges (source, target, optional weight) that refers to rows by name.
        validation
            Numbers or mask of labelled rows that do not train: they choose the epoch, find the
            weights of the tracks, correct the classes of their mixture and calibrate.
        ids
            Names of the rows; default: the index of a DataFrame ``X`` (or of a Series ``y`` without
            ``X``), else numbers from 0.
        sample_weight
            Weight of the label of each row, at least 0.
        folds
            Number of folds in which labels are hidden, without ``validation``, to weight the tracks
            and to calibrate.
        groups, times
            A value for each row: the labels of a group are hidden together, such as visits of one
            patient; labels are predicted from earlier ones alone.
        peers
            The processes of a distributed fit (:func:`glnn.distributed.join_processes`). ``X`` and
            ``graph`` (scipy sparse, rows x N) then hold only the rows that
            ``glnn.distributed.Partition(len(y), peers)`` assigns to this process.
        checkpoint
            Folder for the state after each round, so that an interrupted fit can be resumed.
        """
        if peers.size > 1 and self.encode is not None and is_frame(X):
            raise InputError(
                "encode must be None with several processes, each of which has some rows only, got "
                f"{self.encode!r}. Encode the whole frame first, with glnn.data.encode_frame."
            )
        X, self.encoder_ = encode_features(X, self.encode, y)
        if self.encoder_ is not None:
            warn_of_notes(self.encoder_)
        self.row_names_, given = None, y
        if peers.size == 1:
            self.row_names_ = resolve_row_names(X, y, ids)
            X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
        settings, seed, device, callbacks = run_everywhere(peers, self._check_parameters)
        problem = run_everywhere(
            peers, lambda: self._make_problem(X, y, validation, peers, sample_weight)
        )
        warn_of_class_minus_one(given)
        if graph is not None:
            checked = as_adjacency_rows(graph, problem.partition)
            problem = dataclasses.replace(problem, graph=checked)
        if not isinstance(self.random_state, numbers.Integral):  # use the seed of process 0
            seed = int(peers.broadcast(float(seed)))
        self.folds_ = None
        hides = self.calibrate is not None or len(settings.tracks_for(graph is not None)) > 1
        if hides and not settings.is_literal:
            self.folds_ = hide_labels(problem, folds, seed, groups, times)
        if self.folds_ is None and not (groups is None and times is None):
            raise InputError(
                "groups and times must come with labels that can be hidden in folds, got "
                "validation nodes, the preset 'literal', or one label a class. Leave them out."
            )
        problem = dataclasses.replace(problem, folds=self.folds_)
        n_fits = 1 if self.folds_ is None else 1 + len(self.folds_)
        n_epochs = n_fits * settings.count_epochs(graph is not None)
        with (
            limit_threads(problem.labels.n_nodes) if peers.size == 1 else nullcontext(),
            show_progress(callbacks, n_epochs, is_shown=bool(self.verbose)) as shown,
        ):
            result = fit_problem(
                problem,
                settings,
                seed=seed,
                device=device,
                callbacks=shown,
                checkpoint=None if checkpoint is None else Path(checkpoint),
                shared=self._shared,
            )
        self._store_fit(result.model, result.history)
        self._record = FitRecord.of(problem, result.attribution)
        self.certificate_, self.choices_ = result.certificate, result.choices
        self.mixture_, self.seed_ = result.weights, seed
        self._fitted_to = None
        if peers.size == 1:
            data = {"X": X, "y": y, "graph": graph, "validation": validation}
            how = {"sample_weight": sample_weight, "folds": folds, "groups": groups, "times": times}
            self._fitted_to = data | how
        is_calibrated = peers.rank == 0 and self.calibrate is not None
        return self.set_calibration(self._find_held_out(problem, result) if is_calibrated else None)

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return calibrated class probabilities of training rows or new rows, rows x classes.

        ``links`` are known edges from new rows to the training rows (rows x training rows), if the
        model was fitted with a graph; with them every row is treated as a new node. After a fit
        without features ``X`` is ``None``: all training rows, or the new rows of ``links``.
        """
        raw = self._raw_proba(X, links)  # says so if there was no fit
        return self.calibration_.apply(raw)

    def predict(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        best = self.predict_proba(X, links).argmax(1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy on the labelled rows; unlabelled rows are ignored.

        This lets ``cross_val_score`` work with unlabelled rows. For other metrics see
        :func:`glnn.labelled_scorer`: a scorer given by name counts -1 as a class.
        """
        return labelled_scorer("accuracy")(self, X, y)

    def set_calibration(self, held_out: HeldOut | None) -> "GLNNClassifier":
        """Calibrate the probabilities with predictions of hidden labels.

        ``fit`` does this itself, controlled by ``calibrate``. If an :class:`~glnn.Evaluation` of
        the same data exists, pass its ``held_out`` to calibrate without further fits; ``None``
        removes the calibration.
        """
        self._check_fitted()
        if held_out is None:
            return self._store_calibration(None, Calibration.identity(len(self.classes_)))
        given = (self._fitted_to or {}).get("sample_weight")
        if given is not None and not np.asarray(given)[held_out.hidden_nodes].any():
            given = None  # every hidden label has weight zero: weight them equally instead
        weights = label_weights(self.class_weight, given, self.classes_, held_out.classes)
        return self._store_calibration(held_out, held_out.calibration(weights=weights))

    def predict_set(
        self, alpha: float = 0.1, X: Any = None, links: Any = None
    ) -> list[tuple[Any, ...]]:
        r"""Return conformal prediction sets: :math:`1 - \alpha` of them contain the true label.

        This holds on average over rows from the same distribution as the labelled ones. An empty
        set means that the row is unlike the labelled rows of every class. ``X`` and ``links`` are
        new rows, as in ``predict_proba``; without them the sets are those of the training rows.
        """
        held_out = self._get_held_out()
        sets = ConformalSets.of(held_out)
        is_new = X is not None or links is not None
        raw = self._raw_proba(X, links) if is_new else held_out.probabilities
        inside = sets.contains(raw, alpha)
        if sets.note is not None:
            warnings.warn(sets.note, stacklevel=2)
        return [tuple(self.classes_[row].tolist()) for row in inside]

    def suspect_labels(self) -> pd.DataFrame:
        """Return labels that disagree with the model and may be mistakes.

        A label is listed if a fit that did not see it predicts another class with confidence.
        The most suspect comes first; ``attrs["n_estimated"]`` is the estimated number of mistakes.
        """
        held_out = self._get_held_out(in_folds=True)
        calibrated = held_out.calibrated()
        nodes, n_estimated = suspect_labels(held_out, calibrated)
        frame = self._make_frame(
            nodes,
            given=self.classes_[held_out.classes[nodes]],
            predicted=self.classes_[calibrated[nodes].argmax(1)],
            probability=calibrated[nodes].max(1),
        )
        frame.attrs["n_estimated"] = n_estimated
        return frame

    def explain(
        self,
        node: int | str,
        *,
        n_links: int = 10,
        n_labels: int = 10,
        refits: int = 0,
        column_names: Sequence[str] | None = None,
    ) -> Explanation:
        """Explain why a training row got its class.

        Parameters
        ----------
        node : int or str
            Number of the row, or its name (from ``ids`` or the index of ``X``) as text.
        n_links, n_labels : int >= 0, default 10
            How many links and how many labelled rows to return.
        refits : int >= 0, default 0
            With a positive number, effects of labels are measured: the ``n_labels`` labelled rows
            most similar to this row are left out one at a time, and the effects are means over
            this many seeds. This costs ``refits * (n_labels + 1)`` fits, less those of earlier
            calls, and needs the training data, which a loaded model does not have.
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
        check_integer("refits", refits, low=0)
        check_integer("n_labels", n_labels, low=0)
        nodes, ranked = self.fitted_nodes(column_names), None
        row = check_integer("node", find_row(node, self.row_names_), low=0, high=nodes.n_nodes - 1)
        if refits:
            labelled = nearest_labels(nodes, row, n_labels)
            effects = self._measure_label_effects(labelled, refits)[:, row]
            ranked = sort_label_effects(nodes, labelled, effects)
        return explain(nodes, row, n_links=n_links, label_effects=ranked)

    def suggest_labels(self, k: int = 10, among: Any = None) -> pd.DataFrame:
        """Suggest which rows to label next (active learning).

        Suggested are the ``k`` rows whose labels would reduce the uncertainty of the predictions
        most, the best first; ``gain`` is by how much. ``among`` are the numbers or the mask of the
        rows that may be suggested, by default all without a label.
        """
        check_integer("k", k, low=1)
        nodes = self.fitted_nodes()
        may = None if among is None else check_indices("among", among, nodes.n_nodes)
        chosen, gains = suggest_nodes(nodes, k, may)
        best = nodes.probabilities[chosen].argmax(1)
        return self._make_frame(
            chosen,
            predicted=self.classes_[best],
            probability=nodes.probabilities[chosen, best],
            gain=gains,
        )

    def _make_frame(self, rows: np.ndarray, **columns: np.ndarray) -> pd.DataFrame:
        """Return a table of rows by number (``node``), with their names if they have any."""
        named = {} if self.row_names_ is None else {"name": self.row_names_[rows]}
        return pd.DataFrame({"node": rows, **named, **columns})

    @property
    def edge_trust_(self) -> sp.csr_matrix | None:
        """For each given edge the fraction that was kept, times the trust in the given graph."""
        graph, prior = self.graph_, self.prior_graph_
        if prior is None or graph.shape[0] != graph.shape[1]:  # of several processes
            return None
        return retained_edge_shares(graph, prior) * self._model.graph_trust

    @property
    def n_edges_(self) -> int:
        """Number of learned edges without self-loops."""
        return int(sp.triu(self.graph_, k=1).nnz)

    def report(self, path: str | Path | None = None) -> Any:
        """Return the fit as an interactive page, which a notebook shows inline.

        With ``path`` it is also written to that HTML file. It needs no internet connection.
        """
        from glnn.report.page.document import make_report

        self._check_fitted()
        return make_report(self, None if path is None else Path(path))

    def to_networkx(self) -> Any:
        """Return the learned graph as a ``networkx.Graph``.

        Nodes have the names of the training rows (or numbers, as text) and the attributes
        ``class``, ``probability`` and ``given_label`` (empty if unlabelled). Edges have ``weight``
        and ``origin`` (``given`` or ``learned``); given ones also ``trust``, from ``edge_trust_``.
        """
        from glnn.report.export import build_network
        from glnn.report.results import collect_model_results

        self._check_fitted()
        return build_network(collect_model_results(self))

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder as safetensors and JSON, without pickle.

        The saved ``random_state`` is the seed that was used. After a fit over several processes
        every process must call it; the first one writes.
        """
        self._check_fitted()
        params = self.get_params(deep=False) | {"random_state": self.seed_, "callbacks": None}
        own = params.pop("settings")
        saved = _SavedFit(
            model=self._model,
            params=params | {"device": str(self.device)},
            settings=dict(own) if isinstance(own, Mapping) else own,
            feature_names=[str(name) for name in getattr(self, "feature_names_in_", [])],
            record=dataclasses.replace(self._record, attribution=self._record.shares),
            history=[dict(epoch) for epoch in self.history_],
            **{name: getattr(self, name) for name in _SavedFit.attributes()},
        )
        write_archive(Path(folder), saved, self._model.partition)

    @classmethod
    def load(cls, folder: str | Path) -> "GLNNClassifier":
        """Load a model that :meth:`save` wrote."""
        saved = read_archive(Path(folder), _SavedFit)
        with wrap_unpack_errors(Path(folder)):
            found = cls(**saved.constructor_params())
            for name in saved.attributes():
                setattr(found, name, getattr(saved, name))
            found.seed_ = saved.params["random_state"]
            found.folds_ = None  # not saved: they serve fits
            if saved.feature_names:
                found.feature_names_in_ = np.array(saved.feature_names, dtype=object)
            found._store_fit(saved.model.with_networks(), History(saved.history))
            found._record = saved.record
            return found._store_calibration(saved.held_out_, saved.calibration_)

    def fitted_nodes(self, column_names: Sequence[str] | None = None) -> FittedNodes:
        """Return the training rows with all that explanations need.

        ``column_names`` defaults to the names in the training table, or numbers.
        """
        self._check_fitted()
        model = self._model
        columns = range(self.n_features_in_)
        names: Any = column_names or getattr(self, "feature_names_in_", columns)
        compared = model.structure_columns()
        if compared is not None:
            names = [f"structure {number}" for number in range(compared.shape[1])]
        elif len(names) != len(columns):
            raise InputError(
                f"column_names must name each of the {len(columns)} columns, got {len(names)}."
            )
        return FittedNodes(
            model.adjacency,
            model.features,
            model.propagate,
            self._record.labels,
            np.flatnonzero(self._record.trains),
            self.label_distributions_,
            self.classes_,
            [str(name) for name in names],
            self._record.shares,
            compared,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _resolve_settings(self) -> FitSettings:
        base: Any = self.settings if isinstance(self.settings, FitSettings) else self.preset
        own = {name: getattr(self, name) for name in _OWN_SETTINGS}
        given = {name: value for name, value in own.items() if value is not None}
        return resolve_settings(base, self._settings_by_name() | given)

    def _settings_by_name(self) -> dict[str, Any]:
        """Return a copy of ``settings``; empty for a ``FitSettings``."""
        if self.settings is None or isinstance(self.settings, FitSettings):
            return {}
        if not isinstance(self.settings, Mapping):
            kind = type(self.settings).__name__
            raise InputError(f"settings must be a dictionary or FitSettings, got {kind}.")
        return dict(self.settings)

    def _resolve_callbacks(self) -> list[Callback]:
        callbacks = [] if self.callbacks is None else self.callbacks
        is_list = isinstance(callbacks, Sequence)
        if not is_list or not all(isinstance(c, Callback) for c in callbacks):
            raise InputError(f"callbacks must be a list of Callback objects, got {callbacks!r}.")
        return list(callbacks)

    def _resolve_seed(self) -> int:
        """Return the seed given as ``random_state``, or draw one."""
        state: Any = self.random_state
        if isinstance(state, numbers.Integral) and int(state) >= 0:
            return int(state)
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        if state is None or isinstance(state, np.random.Generator):
            return int(np.random.default_rng(state).integers(2**31))
        raise InputError(
            f"random_state must be a seed of at least 0 or a generator, got {state!r}."
        )

    def _raw_proba(self, X: Any, links: Any) -> np.ndarray:
        """Return class probabilities before calibration."""
        self._check_fitted()
        if X is None:  # after a fit without features
            n_nodes = len(self._model.distributions)
            if self._model.structure is None or self.n_features_in_ != n_nodes:
                raise InputError("X must hold features as in fit, got None.")
            X = sp.identity(n_nodes, dtype=np.float32, format="csr")
            if links is not None:
                X = sp.csr_matrix((links.shape[0], n_nodes), dtype=np.float32)
        if self.encoder_ is not None and is_frame(X):
            X = transform_frame(X, self.encoder_)
        return self._model.predict_proba(self._check_features(X, reset=False), links)

    def _store_fit(self, model: Model, history: History) -> None:
        self._model, self.history_ = model, history
        self.raw_distributions_ = model.gather("distributions")
        self.graph_, self.prior_graph_ = model.gather("adjacency"), model.gather("prior")
        self.n_iter_ = len(history)

    def _check_parameters(self) -> tuple[FitSettings, int, str, list[Callback]]:
        """Check the parameters; return settings, seed, device and callbacks."""
        if self.calibrate not in (None, "auto"):
            raise InputError(f"calibrate must be 'auto' or None, got {self.calibrate!r}.")
        settings, seed = self._resolve_settings(), self._resolve_seed()
        return settings, seed, check_device(self.device), self._resolve_callbacks()

    def _make_problem(
        self, X: Any, y: Any, validation: Any, peers: Peers, sample_weight: Any
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
        weights = label_weights(self.class_weight, sample_weight, self.classes_, encoded)

        def labels_of(nodes: np.ndarray) -> Labels:
            labels = Labels(nodes, encoded[nodes], n_nodes, len(self.classes_))
            return labels if weights is None else labels.with_weights(weights[nodes])

        validated = labels_of(held) if held.size else None
        return FitProblem(X, labels_of(train), validation=validated, peers=peers)

    def _check_features(self, X: Any, *, reset: bool) -> Any:
        """Check features, and their number of columns with scikit-learn's ``validate_data``."""
        try:
            X = validate_data(
                self,
                convert_features(X),
                reset=reset,
                accept_sparse="csr",
                dtype=None,  # check_features checks the values
                ensure_all_finite=False,
                ensure_min_samples=0,
                ensure_min_features=0,
            )
        except ValueError as error:
            raise InputError(" ".join(str(error).split())) from None
        return check_features("X", X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError("This GLNNClassifier is not fitted yet; call fit first.")

    def _store_calibration(
        self, held_out: HeldOut | None, calibration: Calibration
    ) -> "GLNNClassifier":
        self.held_out_, self.calibration_ = held_out, calibration
        self._refits: dict[tuple[int | None, int], np.ndarray] = {}  # by label left out and seed
        self.label_distributions_ = self.calibration_.apply(self.raw_distributions_)
        self.transduction_ = np.asarray(self.classes_[self.label_distributions_.argmax(1)])
        return self

    def _find_held_out(self, problem: FitProblem, result: FitResult) -> HeldOut | None:
        """Return the predictions of labels that a fit has not trained on, if there are any."""
        hidden, raw = result.held_out, self.raw_distributions_
        if hidden is not None:
            return HeldOut.of(raw, hidden.nodes, hidden.classes, hidden.probabilities, hidden.folds)
        if problem.validation is None:
            return None
        nodes = problem.validation.nodes.numpy()
        return HeldOut.of(raw, nodes, self._record.labels[nodes])

    def _get_held_out(self, *, in_folds: bool = False) -> HeldOut:
        """Return the predictions of hidden labels; without any, the error says how to get them."""
        self._check_fitted()
        found: HeldOut | None = self.held_out_
        if found is None or (in_folds and found.n_folds == 1):
            raise InputError(
                f"labels must have been hidden{' in folds' * in_folds} to judge them, got a fit "
                "without. Fit without validation nodes and with calibrate='auto', or call "
                "set_calibration(glnn.evaluate(X, y, ...).held_out)."
            )
        return found

    def _measure_label_effects(self, labelled: np.ndarray, n_seeds: int) -> np.ndarray:
        """Return how much each label adds to the class probabilities of all rows.

        Dropout changes a fit about as much as one label does, so fits with and without a label
        have the same seed, and the differences are averaged over seeds. Fits are kept for calls
        on other rows.
        """
        if self._fitted_to is None:
            raise InputError("refits must be 0 for a loaded model, which has no training data.")
        features = self._check_features(self._fitted_to["X"], reset=False)
        if not self._model.was_fitted_to(features, self._fitted_to["graph"]):
            raise InputError(
                "X and graph must be unchanged since fit, because this method fits to them again; "
                "got changed ones. Fit again, or give fit a copy."
            )
        seeds = [self.seed_ ^ k for k in range(n_seeds)]  # XOR keeps them in the range of seeds
        fits = [(label, seed) for seed in seeds for label in (None, *labelled.tolist())]
        missing = [fit for fit in fits if fit not in self._refits]
        n_fits, callbacks = len(missing), self._resolve_callbacks()
        with show_progress(callbacks, n_fits, is_shown=bool(self.verbose)) as shown:
            for number, (label, seed) in enumerate(missing, start=1):
                with notify_stage(shown, f"label effects: fit {number} of {n_fits}", 1):
                    self._refits[label, seed] = self._refit_without(label, seed)
        found = np.stack([self._refits[fit] for fit in fits])
        found = found.reshape(n_seeds, 1 + len(labelled), *found.shape[1:])
        return np.asarray((found[:, :1] - found[:, 1:]).mean(0))

    def _refit_without(self, label: int | None, seed: int) -> np.ndarray:
        """Fit again without the label of a row; return the class probabilities of all rows."""
        assert self._fitted_to is not None  # as the caller has checked
        hidden = np.array([] if label is None else [label], dtype=np.int64)
        seen = mask_labels(self.classes_, self._record.labels, hidden)
        model = clone_with(self, random_state=seed, callbacks=None, verbose=False, encode=None)
        model.fit(**self._fitted_to | {"y": seen})
        return np.asarray(model.label_distributions_)


@dataclass(frozen=True, eq=False, kw_only=True)
class _SavedFit:
    """What a folder of a fitted classifier holds; names that end in _ are attributes."""

    model: Model
    params: dict[str, Any]  # of the constructor, without settings
    settings: FitSettings | dict[str, Any] | None
    feature_names: list[str]
    record: FitRecord  # with the shares of the terms in place of the graph problem
    history: list[Record]
    classes_: np.ndarray
    encoder_: TableEncoder | None
    row_names_: np.ndarray | None
    n_features_in_: int
    held_out_: HeldOut | None
    calibration_: Calibration
    certificate_: Certificate | None
    choices_: dict[str, Any]
    mixture_: dict[str, float]

    @classmethod
    def attributes(cls) -> list[str]:
        """Return the names of the attributes that are saved as they are."""
        return [field.name for field in dataclasses.fields(cls) if field.name.endswith("_")]

    def constructor_params(self) -> dict[str, Any]:
        """Return the parameters of the constructor, with what JSON has made plain restored."""
        params = self.params | {"settings": self.settings}
        if isinstance(params["class_weight"], dict):  # JSON has text for keys
            given = params["class_weight"]
            known = {str(label): label for label in self.classes_.tolist()}
            params["class_weight"] = {known[name]: weight for name, weight in given.items()}
        if isinstance(self.settings, dict) and "weights" in self.settings:
            weights = Weights(**self.settings["weights"])
            params["settings"] = self.settings | {"weights": weights}
        return params
