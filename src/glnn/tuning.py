"""Hyperparameter search with Optuna and cross-validation over the labels."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import BaseEstimator

from glnn._utils import check_choice, check_integer, import_optional
from glnn.data.arguments import as_fit_arguments
from glnn.data.files import WriterLock, open_journal
from glnn.engine.archive import compute_digest
from glnn.estimator import GLNNClassifier, nest_settings
from glnn.evaluation import evaluate, evaluation_digest, make_node_problem
from glnn.exceptions import OutputError
from glnn.quality.folds import clone_with

Goal = Literal["accuracy", "balanced_accuracy", "macro_f1", "log_loss"]
TrialCallback = Callable[[int, float, dict[str, Any]], None]

_WORKER_SEED_OFFSET = 1_000_000  # larger than the number of trials of one search


@dataclass(frozen=True)
class Range:
    """Search range of one parameter.

    Parameters
    ----------
    low, high
        The smallest and the largest value.
    log : bool, default False
        Sample on a log scale.
    whole : bool, default False
        Sample integers only.
    """

    low: float | int
    high: float | int
    log: bool = False
    whole: bool = False


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

    Parameters
    ----------
    params
        The parameters of the best trial; empty if the unchanged estimator was best.
    value
        The cross-validated goal of the best trial. It is optimistic, because it is the best of
        many trials; use :func:`glnn.evaluate` on a :class:`TunedClassifier` for an unbiased value.
    table
        One dictionary per completed trial, in the order of their start: number, parameters and
        value. Numbers may change while another process is still searching.
    """

    params: dict[str, Any]
    value: float
    table: list[dict[str, Any]]


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
        Number of folds, which is the number of fits per trial.
    storage : path or None, default None
        Journal file of Optuna. A search continues from the trials in it, and several processes
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
        watch: TrialCallback | None = None,
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
        given = as_fit_arguments(X, y, graph, validation, None)
        self.trials_ = self.search(*given)
        best = clone_with(self._base_estimator()).set_params(**nest_settings(self.trials_.params))
        self.best_estimator_ = best.fit(*given)
        self.classes_ = self.best_estimator_.classes_
        return self

    @property
    def label_distributions_(self) -> np.ndarray:
        """Class probabilities of the training rows."""
        return np.asarray(self.best_estimator_.label_distributions_)

    def predict(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        return np.asarray(self.best_estimator_.predict(X, links))

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of training rows or new rows."""
        return np.asarray(self.best_estimator_.predict_proba(X, links))

    def search(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> Trials:
        """Run the missing trials without a final fit; failed trials do not count."""
        check_choice("goal", self.goal, get_args(Goal))
        check_integer("n_trials", self.n_trials, low=1)
        check_integer("folds", self.folds, low=2)
        X, y, graph, validation = as_fit_arguments(X, y, graph, validation, None)
        base = self._base_estimator()
        study = self._open_study(base, (X, y, graph, validation))

        def value(params: dict[str, Any]) -> float:
            model = clone_with(base).set_params(**nest_settings(params))
            options: Any = {"folds": self.folds, "random_state": self.random_state, "rivals": None}
            found = evaluate(X, y, graph, model, validation=validation, **options)
            return float(found.metrics[self.goal].value)

        def objective(trial: Any) -> float:
            space = SPACE if self.space is None else self.space
            return value({name: _suggest(trial, name, part) for name, part in space.items()})

        with self._lock_storage() as is_first:
            if not completed_trials(study):
                study.add_trial(import_optional("optuna").trial.create_trial(value=value({})))
                self._report_trial(0, completed_trials(study)[0])
            while (n_finished := len(completed_trials(study))) < self.n_trials:
                self._run_trial(study, objective, n_finished, is_first=is_first)
        best, done = study.best_trial, completed_trials(study)
        table = [{"trial": k, **t.params, self.goal: t.value} for k, t in enumerate(done)]
        return Trials(dict(best.params), float(best.value), table)

    @contextlib.contextmanager
    def _lock_storage(self) -> Iterator[bool]:
        """Lock the storage; yield whether this is the first process that uses it."""
        if self.storage is None:
            yield True
            return
        try:
            lock = WriterLock.acquire(Path(self.storage))
        except OutputError:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _base_estimator(self) -> GLNNClassifier:
        if self.estimator is not None:
            return self.estimator
        return GLNNClassifier(random_state=self.random_state)

    def _run_trial(
        self, study: Any, objective: Callable[[Any], float], n_finished: int, *, is_first: bool
    ) -> None:
        """Run one trial.

        The seed of the first process depends only on the number of completed trials, so a search
        that was killed continues to the same result. Further workers add the trial number, so that
        no two of them draw the same parameters.
        """
        optuna = import_optional("optuna")
        trial = study.ask()
        seed = n_finished if is_first else _WORKER_SEED_OFFSET + trial.number
        study.sampler = optuna.samplers.TPESampler(
            seed=self.random_state + seed, n_startup_trials=5
        )
        try:
            study.tell(trial, objective(trial))
        except BaseException:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        self._report_trial(n_finished, study.get_trials(deepcopy=False)[trial.number])

    def _report_trial(self, number: int, trial: Any) -> None:
        if self.watch is not None:
            self.watch(number, float(trial.value), dict(trial.params))

    def _open_study(self, base: GLNNClassifier, given: tuple[Any, ...]) -> Any:
        """Return the study, with the trials that the storage already has."""
        optuna = import_optional("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.create_study(
            study_name=self._study_name(base, given),
            storage=None if self.storage is None else open_journal(Path(self.storage)),
            direction="minimize" if self.goal == "log_loss" else "maximize",
            load_if_exists=True,
        )

    def _study_name(self, base: GLNNClassifier, given: tuple[Any, ...]) -> str:
        """Return a name that depends on everything that the values of trials depend on."""
        digest = evaluation_digest(*make_node_problem(*given), base)
        space = SPACE if self.space is None else self.space
        how = [self.goal, self.folds, self.random_state, repr(space), digest.hex()]
        return compute_digest(json.dumps(how), {}).hex()[:16]


def completed_trials(study: Any) -> list[Any]:
    """Return the completed trials of a study."""
    states = (import_optional("optuna").trial.TrialState.COMPLETE,)
    return list(study.get_trials(deepcopy=False, states=states))


def _suggest(trial: Any, name: str, part: Range) -> Any:
    if part.whole:
        return trial.suggest_int(name, int(part.low), int(part.high), log=part.log)
    return trial.suggest_float(name, part.low, part.high, log=part.log)
