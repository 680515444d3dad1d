"""``evaluate``: how good a fit is on labels that it has not seen."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glnn._utils import check_features, check_indices
from glnn.data.arguments import as_fit_arguments
from glnn.engine.archive import digest_of, pack_matrix
from glnn.engine.inputs import UNLABELLED, encode_labels
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.quality.estimate import COMPARED, Evaluation, estimate
from glnn.quality.folds import Refit, stored, unfitted, without
from glnn.quality.rivals import NodeProblem


def evaluate(
    X: Any,
    y: Any = None,
    graph: Any = None,
    estimator: Any = None,
    folds: int = 5,
    *,
    validation: Any = None,
    ids: Any = None,
    compared: Sequence[str] = COMPARED,
    random_state: int = 0,
    n_jobs: int | None = 1,
    watch: Callable[[str], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Evaluation:
    """Estimate how good a fit is, by hiding labels and fitting without them.

    The labelled rows are dealt into folds, each class evenly. For each fold the whole fit (graph,
    choices, network) runs without its labels, and its nodes are judged; probabilities are
    calibrated by what the other folds teach. Plain methods are judged on the same folds. It costs
    ``folds`` fits and a little for the plain methods.

    Parameters
    ----------
    X, y, graph
        As in :meth:`glnn.GLNNClassifier.fit`; a whole ``NodeData`` or PyG ``Data`` brings labels
        (those of its training and validation nodes), graph and validation nodes.
    estimator
        What is judged; ``None``: ``GLNNClassifier(random_state=random_state)``. Any classifier
        that takes unlabelled rows (scikit-learn's ``LabelSpreading``) will do without a graph.
    folds
        Number of fits, 2 or more; a class with fewer labels has one of them hidden in each. Beyond
        five there are no more than labels in the largest class, which a note says.
    validation
        Numbers or mask of labelled rows that choose the epoch in every fold; not judged.
    ids
        Names of the rows, as in ``fit``.
    compared
        Names of plain methods: ``majority``, ``logistic_regression``, ``label_spreading``,
        ``knn_gcn``.
    random_state
        Seed of the folds and of the methods.
    n_jobs
        Fits at a time, as in joblib.
    watch
        Told what begins.
    checkpoint
        Folder for what each fold's fit has said, to go on from after an interruption.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)  # noise
    >>> quick = GLNNClassifier(n_epochs=10, n_rounds=1, random_state=0)
    >>> evaluate(X, y, estimator=quick, folds=2).verdict.kind
    'chance'
    """
    X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
    if y is None:
        raise InputError(
            "y must hold the labels of the rows of X, got None. Give y, or a whole NodeData or PyG "
            "Data in place of X."
        )
    problem, classes = node_problem(X, y, graph, validation)
    judged = GLNNClassifier(random_state=random_state) if estimator is None else estimator

    def refit(hidden: np.ndarray) -> np.ndarray:
        return raw_distributions(
            judged, X, without(classes, problem.labels, hidden), graph, validation
        )

    asked: Refit = refit
    if checkpoint is not None:
        asked = stored(refit, Path(checkpoint), question_digest(problem, classes, judged))
    found = estimate(
        problem,
        asked,
        classes,
        class_weight=judged.get_params(deep=False).get("class_weight"),
        n_folds=folds,
        compared=compared,
        seed=random_state,
        n_jobs=n_jobs,
        watch=watch,
    )
    return dataclasses.replace(found, notes=(*found.notes, *_note_on_folds(found, folds)))


def _note_on_folds(found: Evaluation, n_asked: int) -> Iterator[str]:
    """Say it if there were fewer folds than asked for."""
    if len(found.folds) < n_asked:
        yield (
            f"{len(found.folds)} folds in place of {n_asked}: no class has more labels, and each "
            "fold hides one of every class"
        )


def node_problem(
    X: Any, y: Any, graph: Any = None, validation: Any = None
) -> tuple[NodeProblem, np.ndarray]:
    """Return plain arguments of a fit, checked and numbered, and the labels by class number."""
    features = check_features("X", X)
    n_nodes = features.shape[0]
    classes, encoded = encode_labels(y, n_nodes)
    chosen = np.empty(0, np.int64)
    if validation is not None:
        chosen = check_indices("validation", validation, n_nodes)
    train = np.setdiff1d(np.flatnonzero(encoded != UNLABELLED), chosen)
    return NodeProblem(features, graph, encoded, train, chosen, len(classes)), classes


def question_digest(problem: NodeProblem, classes: np.ndarray, estimator: Any) -> bytes:
    """Return a digest of what the answers of all folds depend on."""
    arrays: dict[str, Any] = {}
    pack_matrix("features", problem.features, arrays)
    if problem.graph is not None:
        pack_matrix("graph", problem.graph, arrays)
    for name in ("labels", "train", "validation"):
        arrays[name] = getattr(problem, name)
    settings = dict(estimator.get_params(deep=False))
    settings.pop("callbacks", None)  # watching changes nothing
    facts = [type(estimator).__name__, repr(settings), [str(label) for label in classes]]
    return digest_of(json.dumps(facts), arrays)


def raw_distributions(estimator: Any, X: Any, y: Any, graph: Any, validation: Any) -> np.ndarray:
    """Fit a copy without calibration, and return its class probabilities of every row."""
    model = unfitted(estimator, calibrate=None)
    more = {"graph": graph, "validation": validation}
    model.fit(X, y, **{name: value for name, value in more.items() if value is not None})
    found = getattr(model, "label_distributions_", None)  # raw ones: nothing is calibrated
    return np.asarray(model.predict_proba(X) if found is None else found)
