"""Hyperparameter search with Optuna and cross-validation over the labels."""

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from glnn._utils import check_choice, check_integer, import_optional
from glnn.data.arguments import as_fit_arguments
from glnn.data.files import lock_folder, quote_path, wrap_write_errors
from glnn.estimator import GLNNClassifier, encode_features
from glnn.evaluation import evaluate, evaluation_digest, make_node_problem
from glnn.exceptions import DataFormatError, OutputError
from glnn.quality.folds import clone_with

Goal = Literal["accuracy", "balanced_accuracy", "macro_f1", "log_loss"]

_N_ATTEMPTS = 50  # to open a storage that another worker is creating


@dataclass(frozen=True)
class Range:
    """Search range of one parameter."""

    low: float | int
    high: float | int
    log: bool = False  # sample on a log scale
    whole: bool = False  # sample integers only


# The default search space; all other parameters keep the estimator's values.
SPACE = {
    "n_neighbors": Range(3, 40, log=True, whole=True),
    "n_steps": Range(1, 10, whole=True),
    "n_rounds": Range(1, 3, whole=True),
    "dropout": Range(0.0, 0.8),
    "learning_rate": Range(1e-3, 5e-2, log=True),
    "weight_decay": Range(1e-5, 5e-2, log=True),
    "consistency_weight": Range(0.0, 2.0),
}


@dataclass(frozen=True, eq=False)
class Trials:
    """Result of a search.

    ``value`` is optimistic, because it is the best of many trials; use :func:`glnn.evaluate` on a
    :class:`TunedClassifier` for an unbiased value.
    """

    params: dict[str, Any]  # of the best trial; empty if the unchanged estimator was best
    value: float  # the cross-validated goal of the best trial
    table: list[dict[str, Any]]  # number, parameters and value of each completed trial


class TunedClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier that tunes its parameters by cross-validation before each fit.

    ``evaluate(X, y, graph, TunedClassifier())`` is a nested cross-validation: in each of its folds
    the whole search runs without the hidden labels, so the result is not biased by the choice.

    Parameters
    ----------
    estimator
        The classifier to tune; ``None``: ``GLNNClassifier(random_state=random_state)``.
    n_trials : int >= 1, default 20
        Number of trials; the first one is the unchanged estimator.
    goal : {"accuracy", "balanced_accuracy", "macro_f1", "log_loss"}, default "accuracy"
        The metric to optimise.
    folds : int >= 2, default 3
        Number of folds of each trial.
    storage : path or None, default None
        SQLite file of Optuna. A search continues from the trials in it, and several processes
        with the same file share their trials. ``None``: trials are not stored.
    space : dict or None, default None
        A :class:`Range` for each parameter or setting; ``None``: :data:`SPACE`.
    random_state : int >= 0, default 0
        Seed of the folds and of the search.
    watch : function or None, default None
        Called with number, value and parameters of each completed trial.

    Attributes
    ----------
    trials_
        The result of the search, a :class:`Trials`.
    best_estimator_
        The estimator with the best parameters, fitted to all labels.
    label_distributions_
        Its class probabilities of the training rows.
    """

    def __init__(
        self,
        estimator: GLNNClassifier | None = None,
        *,
        n_trials: int = 20,
        goal: Goal = "accuracy",
        folds: int = 3,
        storage: str | Path | None = None,
        space: dict[str, Range] | None = None,
        random_state: int = 0,
        watch: Callable[[int, float, dict[str, Any]], None] | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_trials = n_trials
        self.goal = goal
        self.folds = folds
        self.storage = storage
        self.space = space
        self.random_state = random_state
        self.watch = watch

    def fit(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> "TunedClassifier":
        """Search, then fit with the best parameters; the arguments are those of the estimator."""
        self.trials_ = self.search(X, y, graph, validation)
        best = self._with_params(self.trials_.params)
        self.best_estimator_ = best.fit(X, y, graph, validation)
        self.classes_ = self.best_estimator_.classes_
        self.label_distributions_ = self.best_estimator_.label_distributions_
        return self

    def predict(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X, links))

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of training rows or new rows."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X, links))

    def search(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> Trials:
        """Run the missing trials without a final fit; failed trials do not count."""
        check_choice("goal", self.goal, get_args(Goal))
        check_integer("n_trials", self.n_trials, low=1)
        check_integer("folds", self.folds, low=2)
        X, _ = encode_features(X, self._with_params({}).encode, y)
        given = as_fit_arguments(X, y, graph, validation, None)
        optuna = import_optional("optuna")
        space = SPACE if self.space is None else self.space
        study = self._open_study(space, given)
        done = (optuna.trial.TrialState.COMPLETE,)
        with contextlib.ExitStack() as stack:
            is_first = True
            try:
                if self.storage is not None:
                    stack.enter_context(lock_folder(Path(self.storage)))
            except OutputError:  # another worker has the lock
                is_first = False
            while (n_done := len(study.get_trials(False, done))) < self.n_trials:
                params: dict[str, Any] = {}
                if n_done:
                    # A killed search continues to the same result, as the seed depends on the
                    # number of completed trials alone. Further workers draw other parameters.
                    seed = self.random_state + n_done if is_first else None
                    study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
                    trial = study.ask({name: _distribution(part) for name, part in space.items()})
                    params = trial.params
                    value = self._value(params, given)
                    study.tell(trial, value)
                else:  # the unchanged estimator
                    value = self._value(params, given)
                    study.add_trial(optuna.trial.create_trial(value=value))
                if self.watch is not None:
                    self.watch(n_done, value, params)
        best, trials = study.best_trial, study.get_trials(False, done)
        table = [{"trial": k, **t.params, self.goal: t.value} for k, t in enumerate(trials)]
        return Trials(dict(best.params), float(best.value), table)

    def _with_params(self, params: dict[str, Any]) -> Any:
        """Return the unfitted estimator with other parameters."""
        base = self.estimator or GLNNClassifier(random_state=self.random_state)
        return clone_with(base).set_params(**params)

    def _value(self, params: dict[str, Any], given: tuple[Any, Any, Any, Any]) -> float:
        """Return the goal of the estimator with other parameters, by cross-validation."""
        X, y, graph, validation = given
        found = evaluate(
            X,
            y,
            graph,
            clone_with(self._with_params(params), encode=None),  # X has been encoded
            self.folds,
            validation=validation,
            rivals=None,
            random_state=self.random_state,
        )
        return float(found.metrics[self.goal].value)

    def _open_study(self, space: dict[str, Range], given: tuple[Any, ...]) -> Any:
        """Return the study with the trials of its storage, under a name made of its inputs."""
        optuna = import_optional("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        digest = evaluation_digest(*make_node_problem(*given), self._with_params({}))
        how = [self.goal, self.folds, self.random_state, space, digest.hex()]
        return optuna.create_study(
            study_name=hashlib.sha256(repr(how).encode()).hexdigest()[:16],
            storage=None if self.storage is None else _open_storage(Path(self.storage)),
            direction="minimize" if self.goal == "log_loss" else "maximize",
            load_if_exists=True,
        )


def _open_storage(path: Path) -> Any:
    """Return Optuna's storage in an SQLite file, which is created if necessary."""
    optuna = import_optional("optuna")
    errors = import_optional("sqlalchemy.exc")
    url = import_optional("sqlalchemy").URL.create("sqlite", database=str(path))
    with wrap_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    for _ in range(_N_ATTEMPTS):
        try:
            # a timeout of 60 seconds, for other workers
            return optuna.storages.RDBStorage(
                str(url), engine_kwargs={"connect_args": {"timeout": 60}}
            )
        except (errors.OperationalError, errors.IntegrityError):
            time.sleep(0.1)  # another worker is creating the tables
        except (errors.DatabaseError, RuntimeError):
            break
    raise DataFormatError(
        f"{quote_path(path)} must be the storage of a search, got something else. Remove it to "
        "search anew, or name another folder."
    )


def _distribution(part: Range) -> Any:
    optuna = import_optional("optuna.distributions")
    kind = optuna.IntDistribution if part.whole else optuna.FloatDistribution
    return kind(part.low, part.high, log=part.log)
