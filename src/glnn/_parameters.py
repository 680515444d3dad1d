"""The parameters of :class:`glnn.GLNNClassifier`: stored as given, checked when a fit begins."""

import numbers
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from glnn._validation import did_you_mean
from glnn.engine.callbacks import Callback, StageLines
from glnn.engine.presets import resolve_settings
from glnn.engine.scaling import ScalingName
from glnn.engine.seeding import check_device
from glnn.engine.settings import FirstGraph, FitSettings, Head, Metric, Preset, Selection, Signal
from glnn.exceptions import InputError
from glnn.graph.prior import PriorKind
from glnn.objective import Reading, Weights
from glnn.solver.solve import Support

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
