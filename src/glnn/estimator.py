"""``GLNNClassifier``: scikit-learn's contract over the rounds of graph and classifier."""

import numbers
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from glnn._validation import check_features, check_indices, did_you_mean
from glnn.data.arguments import as_fit_arguments, plain_features
from glnn.engine.callbacks import Callback
from glnn.engine.classifier import Labels
from glnn.engine.fit import fit_problem
from glnn.engine.history import History
from glnn.engine.labels import UNLABELLED, decode_classes, encode_classes, encode_labels
from glnn.engine.model import Model
from glnn.engine.presets import resolve_settings
from glnn.engine.problem import FitProblem
from glnn.engine.record import RECORD, FitRecord
from glnn.engine.seeding import check_device
from glnn.engine.settings import FitSettings
from glnn.engine.trainer import Validation
from glnn.exceptions import InputError, NotFittedError
from glnn.graph.convert import as_adjacency
from glnn.objective import Weights
from glnn.parallel.fit import FitPlan, fit_rows
from glnn.peers import Peers
from glnn.quality.reasons import ReasonsMixin
from glnn.quality.trusted import TrustedMixin
from glnn.solver.certificate import Certificate
from glnn.solver.shares import link_shares

_NOT_SETTINGS = ("preset", "head", "random_state", "device", "callbacks", "calibrate")


class GLNNClassifier(TrustedMixin, ReasonsMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a graph from features and a few labels, and classify its nodes.

    Parameters
    ----------
    preset
        ``default``, ``paper`` (the paper's terms, weights and network, solved exactly) or
        ``literal`` (the paper's optimiser as printed, for the record).
    head
        ``propagation`` or ``gcn``; ``None``: the preset's.
    random_state
        Seed, generator or ``None``; the same seed gives the same bits on the CPU.
    device
        ``cpu``, or a CUDA device of PyTorch.
    callbacks
        Objects of :class:`glnn.engine.callbacks.Callback` that watch the fit.
    calibrate : {"auto", "folds"} or None, default "auto"
        Where calibrated probabilities come from. ``auto``: the validation nodes, at no cost;
        without them a third of the labels, hidden once, which makes ``fit`` take about twice as
        long. ``folds``: each label hidden once in five fits, six times as long in all, and the
        most exact. ``None``: probabilities stay as the network gives them; nothing is spent.
    weights, reading, signal, prior, support, n_candidates, n_neighbors
        The graph problem; see :func:`glnn.learn_graph`. ``None``: the preset's.
    prediction_weight, task_weight
        How much predictions count among the signals, and the classification loss's gradient in
        the graph step, from the second round on.
    metric
        ``learned``: from the second round on, columns count by what they say about the classes;
        ``fixed``: they never do.
    n_rounds, first_graph, scaling
        Rounds of graph step and classifier step; what the first classifier sees of a given graph
        (``prior``: as it is, ``features``: learned from features); how features are scaled.
    doubts_graph
        Whether probes decide how far a given graph is trusted: left out where features alone
        serve the labels clearly better, followed more closely where it does.
    n_hidden, dropout, drop_node, n_steps, teleport, n_views
        The network; the last four are those of the head ``propagation``.
    consistency_weight, smoothness_weight, gate
        Weights of the losses on predictions (agreement of views, and the graph Laplacian
        regulariser on the predictions), and how far above chance a prediction must be to take
        part. ``None``: the gate follows the number of classes and, for few labels, a choice.
    learning_rate, weight_decay, n_epochs
        The optimiser.

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
    graph_, prior_graph_
        The learned graph and the prior graph, scipy CSR; the latter is ``None`` without a given
        graph, or if the fit chose not to trust it.
    certificate_
        What is proven about the learned graph; ``None`` for the preset ``literal``.
    choices_
        What the fit chose by itself: source (``given`` graph, ``features`` in spite of one, or
        ``none`` given), signal, closeness, gate, steps and number of rounds.
    history_
        Every epoch's named numbers.
    n_iter_
        Number of epochs over all rounds.
    n_features_in_
        Number of columns of the features.

    Notes
    -----
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

    # Each type admits Any: scikit-learn's contract is to take anything here and to check in fit.
    def __init__(
        self,
        preset: str | Any = "default",
        *,
        head: str | Any | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | Any | None = None,
        device: str | Any = "cpu",
        callbacks: Sequence[Callback] | Any | None = None,
        calibrate: Literal["auto", "folds"] | Any | None = "auto",
        weights: Weights | Any | None = None,
        reading: str | Any | None = None,
        signal: str | Any | None = None,
        prior: str | Any | None = None,
        support: str | Any | None = None,
        n_candidates: int | Any | None = None,
        n_neighbors: int | Any | None = None,
        prediction_weight: float | Any | None = None,
        task_weight: float | Any | None = None,
        metric: str | Any | None = None,
        n_rounds: int | Any | None = None,
        first_graph: str | Any | None = None,
        scaling: str | Any | None = None,
        doubts_graph: bool | Any | None = None,
        n_hidden: int | Any | None = None,
        dropout: float | Any | None = None,
        drop_node: float | Any | None = None,
        n_steps: int | Any | None = None,
        teleport: float | Any | None = None,
        n_views: int | Any | None = None,
        consistency_weight: float | Any | None = None,
        smoothness_weight: float | Any | None = None,
        gate: float | Any | None = None,
        learning_rate: float | Any | None = None,
        weight_decay: float | Any | None = None,
        n_epochs: int | Any | None = None,
    ) -> None:
        self.preset = preset
        self.head = head
        self.random_state = random_state
        self.device = device
        self.callbacks = callbacks
        self.calibrate = calibrate
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

    def fit(
        self, X: Any, y: Any = None, graph: Any = None, validation: Any = None, *, ids: Any = None
    ) -> "GLNNClassifier":
        """Learn graph and classifier together.

        Parameters
        ----------
        X
            Features, nodes x columns, dense or sparse: arrays, tensors or a frame of numbers, whose
            index names the rows. Or a whole ``NodeData`` or PyG ``Data``, which also brings labels
            (those of its training and validation nodes), graph and validation nodes.
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
        """
        self._check_calibrate()
        X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
        settings, seed = self._settings(), self._seed()
        device, callbacks = check_device(self.device), self._callbacks()
        problem = self._problem(X, y, graph, validation)
        result = fit_problem(problem, settings, seed=seed, device=device, callbacks=callbacks)
        self._keep(Model.of(problem.features, result), result.history)
        shares = None if result.learned is None else link_shares(result.learned)
        self._record = FitRecord.of(problem, shares)
        self.certificate_ = None if result.learned is None else result.learned.certificate
        self.choices_ = result.choices
        self.seed_ = seed
        self._calibrate(X, y, graph, validation)
        return self

    def fit_over(
        self,
        peers: Peers,
        load: Callable[[], Sequence[Any]],
        *,
        checkpoint: str | Path | None = None,
    ) -> "GLNNClassifier":
        """Learn as ``fit`` does, rows spread over processes; process 0 ends with the model.

        Parameters
        ----------
        peers
            The processes; see :func:`glnn.peers.group.joined_peers`.
        load
            Returns the arguments of ``fit``, the same in every process. Each process keeps its
            rows of them; process 0 loads them a second time when all is done.
        checkpoint
            Folder for the state after each round, to go on from after an interruption.
        """
        settings, seed = self._settings(), self._seed()
        plan = FitPlan(settings, seed, check_device(self.device), self._callbacks())
        store = None if checkpoint is None else Path(checkpoint)
        fitted = fit_rows(peers, lambda: self._problem(*load()), plan, store)
        if fitted is None:
            return self
        problem = self._problem(*load())
        self._keep(fitted.model(problem.features), fitted.history)
        self._record = FitRecord.of(problem, None)
        self.certificate_, self.choices_ = fitted.certificate, fitted.choices
        self.seed_ = seed
        self.trust(None)
        return self

    def _problem(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> FitProblem:
        """Check the arguments of ``fit`` and number the classes."""
        X = self._checked(X, reset=True)
        n_nodes = X.shape[0]
        if n_nodes < 2:
            raise InputError("X must have at least two rows, got n_samples = 1.")
        if y is None:
            raise InputError("GLNNClassifier requires y to be passed, but the target y is None.")
        _check_targets(y)
        self.classes_, encoded = encode_labels(y, n_nodes)
        adjacency = None if graph is None else as_adjacency(graph, n_nodes)
        train, chosen = self._split(encoded, validation)
        return FitProblem(
            X,
            Labels(train, encoded[train], n_nodes, len(self.classes_)),
            adjacency,
            chosen,
        )

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, from training or new.

        Parameters
        ----------
        X
            Features, as in ``fit``.
        links
            Known edges of new rows to the training rows (rows x training rows), if the model was
            fitted with a graph. Given links make every row a new node.
        """
        raw = self._raw_proba(X, links)
        return self.calibration_.apply(raw)

    def _raw_proba(self, X: Any, links: Any) -> np.ndarray:
        """Return class probabilities as the network gives them."""
        self._check_fitted()
        return self._model.predict_proba(self._checked(X, reset=False), links)

    def predict(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        best = self.predict_proba(X, links).argmax(1)
        return np.asarray(self.classes_[best])

    def report(self, path: str | Path) -> Path:
        """Write a page to explore the fit with, one HTML file that needs no network.

        The page is above the estimator in the order of imports, so it is looked up by name when
        it is asked for.
        """
        self._check_fitted()
        page: Any = import_module("glnn.report.model_page")
        written: Path = page.write_report(self, Path(path), getattr(self, "_fitted_to", None))
        return written

    def save(self, folder: str | Path) -> None:
        """Write the fitted model into a folder as safetensors and JSON; nothing is pickled."""
        self._check_fitted()
        record, shares = self._record.packed()
        page = {
            "params": {k: v for k, v in self._plain_params().items() if v is not None},
            "classes": encode_classes(self.classes_),
            "certificate": None if self.certificate_ is None else self.certificate_.to_dict(),
            "choices": self.choices_,
            "calibration": self.calibration_.to_dict(),
            "n_features_in": self.n_features_in_,
            "feature_names_in": [str(name) for name in getattr(self, "feature_names_in_", [])],
            "history": [dict(epoch) for epoch in self.history_],
            "shares": shares,
        }
        self._model.save(Path(folder), page, self._held_out_arrays() | record)

    @classmethod
    def load(cls, folder: str | Path) -> "GLNNClassifier":
        """Read a model that :meth:`save` wrote."""
        model, page = Model.load(Path(folder))
        params = {"calibrate": None} | page["params"]
        if "weights" in params:
            params["weights"] = Weights(**params["weights"])
        estimator = cls(**params)
        estimator.classes_ = decode_classes(page["classes"])
        estimator.n_features_in_ = int(page["n_features_in"])
        if page["feature_names_in"]:
            estimator.feature_names_in_ = np.array(page["feature_names_in"], dtype=object)
        certificate = page["certificate"]
        estimator.certificate_ = None if certificate is None else Certificate.from_dict(certificate)
        estimator.choices_ = page["choices"]
        history = History()
        for record in page["history"]:
            history.append(record)
        estimator._keep(model, history)
        estimator._record = FitRecord.unpacked(page["more"], page["shares"])
        others = {n: array for n, array in page["more"].items() if not n.startswith(RECORD)}
        estimator._restore_trust(page.get("calibration"), others)
        return estimator

    def set_params(self, **params: Any) -> "GLNNClassifier":
        """Set parameters; an unknown name is refused with the nearest known one."""
        known = self.get_params(deep=False)
        for name in params:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"Invalid parameter {name!r} for GLNNClassifier.{hint}")
        return super().set_params(**params)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _keep(self, model: Model, history: History) -> None:
        self._model, self.history_ = model, history
        self.raw_distributions_ = model.distributions
        self.graph_, self.prior_graph_ = model.adjacency, model.prior
        self.n_iter_ = len(history)

    def _settings(self) -> FitSettings:
        params = self.get_params(deep=False)
        changes = {k: v for k, v in params.items() if k not in _NOT_SETTINGS and v is not None}
        return resolve_settings(self.preset, self.head, changes)

    def _callbacks(self) -> list[Callback]:
        callbacks = [] if self.callbacks is None else self.callbacks
        is_list = isinstance(callbacks, Sequence)
        if not is_list or not all(isinstance(c, Callback) for c in callbacks):
            raise InputError(f"callbacks must be a list of Callback objects, got {callbacks!r}.")
        return list(callbacks)

    def _plain_params(self) -> dict[str, Any]:
        """Parameters that JSON can hold; the seed is the one number that was used."""
        params = self.get_params(deep=False) | {"callbacks": None}
        if not isinstance(self.random_state, numbers.Integral):
            params["random_state"] = None
        if self.weights is not None:
            params["weights"] = vars(self.weights)
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items()}

    def _seed(self) -> int:
        state = self.random_state
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

    def _split(self, encoded: np.ndarray, validation: Any) -> tuple[np.ndarray, Validation | None]:
        """Return the training nodes and, if asked for, the validation nodes apart from them."""
        labelled = np.flatnonzero(encoded != UNLABELLED)
        if validation is None:
            return labelled, None
        chosen = check_indices("validation", validation, len(encoded))
        if not chosen.size:
            return labelled, None
        if (encoded[chosen] == UNLABELLED).any():
            n_bad = int((encoded[chosen] == UNLABELLED).sum())
            raise InputError(f"validation must name labelled rows, got {n_bad} without a label.")
        train = np.setdiff1d(labelled, chosen)
        n_left = np.unique(encoded[train]).size
        if n_left < len(self.classes_):
            raise InputError(
                f"y must leave training labels of all {len(self.classes_)} classes outside "
                f"validation, got {n_left}."
            )
        nodes = torch.from_numpy(chosen)
        return train, Validation(nodes, torch.from_numpy(encoded[chosen]))

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError("This GLNNClassifier is not fitted yet; call fit first.")


def _check_targets(y: Any) -> None:
    """Refuse targets that are no classes, with scikit-learn's own words for them."""
    labels = np.asarray(y)
    if labels.ndim == 1 and labels.dtype.kind in "iub":
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise InputError(str(error)) from None
