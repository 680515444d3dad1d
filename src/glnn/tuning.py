"""Parameters chosen by folds over the labels, and an estimate that pays for the choice."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import BaseEstimator

from glnn._utils import check_choice, check_integer, need
from glnn.data.arguments import as_fit_arguments
from glnn.data.files import WriterLock, open_journal
from glnn.engine.archive import digest_of
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate, node_problem, question_digest
from glnn.exceptions import OutputError
from glnn.quality.folds import unfitted

Goal = Literal["accuracy", "balanced_accuracy", "macro_f1", "log_loss"]
Watch = Callable[[int, float, dict[str, Any]], None]

_MANY = 1_000_000
"""More trials than one search has: seeds of further workers begin there."""


@dataclass(frozen=True)
class Range:
    """The values of one parameter: whole numbers or not, evenly spread or on a log scale."""

    low: float | int
    high: float | int
    log: bool = False
    whole: bool = False


SPACE = {
    "n_neighbors": Range(3, 40, log=True, whole=True),
    "n_steps": Range(1, 10, whole=True),
    "n_rounds": Range(1, 3, whole=True),
    "dropout": Range(0.0, 0.8),
    "learning_rate": Range(1e-3, 5e-2, log=True),
    "weight_decay": Range(1e-5, 5e-2, log=True),
    "consistency_weight": Range(0.0, 2.0),
}
"""What is searched by default; everything else stays the estimator's."""


@dataclass(frozen=True, eq=False)
class Trials:
    """What a search has found.

    Parameters
    ----------
    params
        The parameters of the best trial; none if the estimator as it is was best.
    value
        Its goal, on labels that its fits had not seen. It is the best of many, so it flatters:
        :class:`TunedClassifier` can be judged by :func:`glnn.evaluate`.
    table
        Every trial that has ended, in order of beginning: its place among them, its parameters
        and its value. While another process still searches, places may change.
    """

    params: dict[str, Any]
    value: float
    table: list[dict[str, Any]]


class TunedClassifier(BaseEstimator):  # type: ignore[misc]
    """A classifier that chooses its parameters by folds over its labels before each fit.

    ``evaluate(X, y, graph, TunedClassifier())`` is the nested estimate: in each of its folds the
    whole search runs without the hidden labels, so that a lucky choice does not flatter it.

    Parameters
    ----------
    estimator
        What is tuned; ``None``: ``GLNNClassifier(random_state=random_state)``.
    n_trials : int >= 1, default 20
        Trials of a search; the first is the estimator as it is.
    goal : {"accuracy", "balanced_accuracy", "macro_f1", "log_loss"}, default "accuracy"
        What is best.
    folds : int >= 2, default 3
        Fits of each trial.
    storage : default None
        File of Optuna's journal: a search goes on from the trials in it, and several processes
        that name the same file share them. ``None``: nothing is kept.
    space : default None
        :class:`Range` by parameter; ``None``: :data:`SPACE`.
    random_state : int >= 0, default 0
        Seed of the folds and of the search.
    watch : default None
        Told number, value and parameters of each finished trial.

    Attributes
    ----------
    trials_
        What was found, a :class:`Trials`.
    best_estimator_
        Fitted to all labels with the parameters of the best trial.
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
        watch: Watch | None = None,
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
        """Search, then fit with what was found; arguments as those of the estimator."""
        given = as_fit_arguments(X, y, graph, validation, None)
        self.trials_ = self.search(*given)
        self.best_estimator_ = unfitted(self._base(), **self.trials_.params).fit(*given)
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
        """Return class probabilities of rows, from training or new."""
        return np.asarray(self.best_estimator_.predict_proba(X, links))

    def search(self, X: Any, y: Any, graph: Any = None, validation: Any = None) -> Trials:
        """Run the trials that are missing and fit nothing; trials that failed do not count."""
        check_choice("goal", self.goal, get_args(Goal))
        check_integer("n_trials", self.n_trials, low=1)
        check_integer("folds", self.folds, low=2)
        X, y, graph, validation = as_fit_arguments(X, y, graph, validation, None)
        base = self._base()
        study = self._study(base, (X, y, graph, validation))

        def value(params: dict[str, Any]) -> float:
            judged = unfitted(base, **params)
            seed: Any = {"folds": self.folds, "random_state": self.random_state, "compared": ()}
            found = evaluate(X, y, graph, judged, validation=validation, **seed)
            return float(found.metrics[self.goal].value)

        def objective(trial: Any) -> float:
            space = SPACE if self.space is None else self.space
            return value({name: _suggested(trial, name, part) for name, part in space.items()})

        with self._turns() as is_first:
            if not finished(study):
                study.add_trial(need("optuna").trial.create_trial(value=value({})))
                self._tell(0, finished(study)[0])
            while (n_finished := len(finished(study))) < self.n_trials:
                self._try(study, objective, n_finished, is_first=is_first)
        best, done = study.best_trial, finished(study)
        table = [{"trial": k, **t.params, self.goal: t.value} for k, t in enumerate(done)]
        return Trials(dict(best.params), float(best.value), table)

    @contextlib.contextmanager
    def _turns(self) -> Iterator[bool]:
        """Say whether this is the one process that searches, or the first of several."""
        if self.storage is None:
            yield True
            return
        try:
            lock = WriterLock.taken(Path(self.storage))
        except OutputError:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _base(self) -> GLNNClassifier:
        if self.estimator is not None:
            return self.estimator
        return GLNNClassifier(random_state=self.random_state)

    def _try(
        self, study: Any, objective: Callable[[Any], float], n_finished: int, *, is_first: bool
    ) -> None:
        """Run one trial.

        Its draws follow from the trials that are done, so that a search that was killed goes on to
        the same end; those of further workers follow from its number, so that no two are alike.
        """
        optuna = need("optuna")
        trial = study.ask()
        seed = n_finished if is_first else _MANY + trial.number
        study.sampler = optuna.samplers.TPESampler(
            seed=self.random_state + seed, n_startup_trials=5
        )
        try:
            study.tell(trial, objective(trial))
        except BaseException:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        self._tell(n_finished, study.get_trials(deepcopy=False)[trial.number])

    def _tell(self, number: int, trial: Any) -> None:
        if self.watch is not None:
            self.watch(number, float(trial.value), dict(trial.params))

    def _study(self, base: GLNNClassifier, given: tuple[Any, ...]) -> Any:
        """Return the study of this question, with the trials that the storage has of it."""
        optuna = need("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        return optuna.create_study(
            study_name=self._name(base, given),
            storage=None if self.storage is None else open_journal(Path(self.storage)),
            direction="minimize" if self.goal == "log_loss" else "maximize",
            load_if_exists=True,
        )

    def _name(self, base: GLNNClassifier, given: tuple[Any, ...]) -> str:
        """Return a name that differs where values of trials would."""
        digest = question_digest(*node_problem(*given), base)
        space = SPACE if self.space is None else self.space
        how = [self.goal, self.folds, self.random_state, repr(space), digest.hex()]
        return digest_of(json.dumps(how), {}).hex()[:16]


def finished(study: Any) -> list[Any]:
    """Return the trials of a study that have a value."""
    states = (need("optuna").trial.TrialState.COMPLETE,)
    return list(study.get_trials(deepcopy=False, states=states))


def _suggested(trial: Any, name: str, part: Range) -> Any:
    if part.whole:
        return trial.suggest_int(name, int(part.low), int(part.high), log=part.log)
    return trial.suggest_float(name, part.low, part.high, log=part.log)
