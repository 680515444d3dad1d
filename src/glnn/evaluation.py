"""Cross-validated evaluation of a classifier: the function :func:`glnn.evaluate`."""

import dataclasses
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from glnn._utils import check_features, check_indices
from glnn.data.arguments import as_fit_arguments
from glnn.data.encode import is_frame, to_numeric_frame, warn_of_notes
from glnn.data.labels import UNLABELLED, encode_targets, make_folds
from glnn.engine.archive import compute_digest
from glnn.estimator import GLNNClassifier, encode_features
from glnn.exceptions import InputError
from glnn.quality.estimate import Evaluation, estimate
from glnn.quality.folds import Refit, Watch, cache_refit, clone_with, hold_out, mask_labels
from glnn.quality.rivals import NodeProblem, RivalChoice, choose_rivals, fit_given


def evaluate(
    X: Any,
    y: Any = None,
    graph: Any = None,
    estimator: Any = None,
    folds: int = 5,
    *,
    validation: Any = None,
    ids: Any = None,
    rivals: RivalChoice = "auto",
    groups: Any = None,
    times: Any = None,
    random_state: int = 0,
    watch: Watch = None,
    checkpoint: str | Path | None = None,
) -> Evaluation:
    """Estimate the accuracy of a classifier by stratified cross-validation over the labels.

    For each fold graph and network are learned without the labels of the fold, and the predictions
    of its nodes are scored. The weights of the tracks and the calibration for a fold are found on
    the other folds. Rivals are scored on the same folds, and the verdict compares them with the
    classifier, label by label. Without validation nodes this costs one fit, which hides labels in
    folds anyway, and the time of the rivals; one that would take longer than the fit is left out.

    Parameters
    ----------
    X, y, graph
        As in :meth:`glnn.GLNNClassifier.fit`; a ``NodeData`` or PyG ``Data`` also provides the
        labels (of its training and validation nodes), the graph and the validation nodes. A
        DataFrame with text, dates or gaps is encoded as by ``encode="auto"``, unless the
        estimator is a ``GLNNClassifier`` without it.
    estimator
        The classifier to evaluate; ``None``: ``GLNNClassifier(random_state=random_state)``. It can
        be a pipeline that ends with one, or any classifier that accepts unlabelled rows, such as
        scikit-learn's ``LabelSpreading``. Other classifiers and pipelines of scikit-learn are
        fitted to the labelled rows, without the graph. All but ``GLNNClassifier`` get ``X`` as it
        was given.
    folds
        Number of folds, at least 2. In a class with fewer labels than folds every fold hides one
        of them. More than 5 are reduced to the number of labels of the largest class.
    validation
        Numbers or mask of labelled rows that choose the epoch in every fold; they are not scored.
    ids
        Names of the rows, as in ``fit``.
    rivals
        Methods to compare with. ``"auto"``: ``majority`` (the largest class),
        ``logistic_regression``, ``label_spreading`` and ``boosted_trees``, nearly with the defaults
        of scikit-learn; with a graph also ``gcn`` on it, ``logistic_regression_neighbors`` and
        ``boosted_trees_neighbors``, on each row joined with the means of its neighbours at one and
        two hops. ``None``: none. A list of these names: only those. A dictionary of names and
        scikit-learn classifiers: these in addition to ``"auto"``; one with the name of a usual
        rival replaces it. Such a classifier is cloned and fitted to the labelled rows of ``X`` as
        it was given, so that a data frame can go through a column transformer. A rival that fails
        is left out, and ``notes`` of the result says why.
    groups
        Group of each row, such as a patient; all rows of a group are hidden together.
    times
        Time of each row; each fold is predicted from earlier labels only. For data with groups or
        times, random folds are too optimistic.
    random_state
        Seed of the rivals, of the default classifier, and of the folds of classifiers other than
        ``GLNNClassifier``, which hides labels by its own seed.
    watch
        Function that is called with the name of each step when it starts.
    checkpoint
        Folder for the predictions of each fold, so that an interrupted evaluation can be resumed.

    Returns
    -------
    Evaluation
        Metrics with confidence intervals, calibrated predictions and the comparison with the
        rivals.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)  # noise
    >>> quick = GLNNClassifier(n_epochs=10, n_rounds=1, random_state=0)
    >>> evaluate(X, y, estimator=quick, folds=2).verdict.kind
    'chance'
    """
    frame = X if is_frame(X) else None
    model = GLNNClassifier(random_state=random_state) if estimator is None else estimator
    X, encoder = encode_features(X, _choose_encoding(frame, estimator), y)
    is_own = isinstance(model, GLNNClassifier)
    if encoder is not None and is_own:
        warn_of_notes(encoder)
        model = clone_with(model, encode=None)
    X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
    if y is None:
        raise InputError(
            "y must hold the labels of the rows of X, got None. Give y, or a NodeData or PyG Data "
            "instead of X."
        )
    problem, classes = make_node_problem(X, y, graph, validation)
    rows = problem.features if frame is None else frame
    chosen = choose_rivals(rivals, has_graph=graph is not None, rows=rows, classes=classes)
    graph_helped = None
    hidden = make_folds(problem.train_labels, folds, random_state, groups, times)
    started = time.perf_counter()
    if is_own and validation is None and not model._resolve_settings().is_literal:
        model = clone_with(model, calibrate="auto")
        model.fit(X, y, graph, folds=folds, groups=groups, times=times, checkpoint=checkpoint)
        held_out, hidden = model.held_out_, model.folds_
        graph_helped = _has_graph_helped(model)
    else:
        given = X if frame is None or is_own else frame, graph, validation
        each: Refit = partial(_refit, model, given, problem, classes)
        if checkpoint is not None:
            digest = evaluation_digest(problem, classes, model)
            each = cache_refit(each, Path(checkpoint), digest)
        held_out = hold_out(each, problem.train_labels, hidden, progress=watch)
    found = estimate(
        problem,
        held_out,
        hidden,
        classes,
        seconds=time.perf_counter() - started,
        class_weight=model.get_params(deep=False).get("class_weight"),
        rivals=chosen,
        graph_helped=graph_helped,
        seed=random_state,
        progress=watch,
    )
    if len(hidden) >= folds:
        return found
    why = "no class has more labels, and each fold hides one of every class"
    if groups is not None or times is not None:
        why = "groups and times of the labels allow no more"
    note = f"{len(hidden)} folds in place of {folds}: {why}"
    return dataclasses.replace(found, notes=(*found.notes, note))


def _choose_encoding(frame: Any, estimator: Any) -> Any:
    """Return how a frame is encoded: as the classifier says, or ``"auto"`` if it must be."""
    if frame is None or isinstance(estimator, GLNNClassifier):
        return getattr(estimator, "encode", None)
    try:
        to_numeric_frame(frame)
    except InputError:
        return "auto"
    return None


def _refit(
    model: Any, given: tuple[Any, ...], problem: NodeProblem, classes: Any, hidden: np.ndarray
) -> np.ndarray:
    """Fit a copy without the labels of some nodes; return the class probabilities of all rows.

    A pipeline passes graph and validation nodes to its last step. Supervised classifiers of
    scikit-learn are fitted to the labelled rows.
    """
    rows, graph, validation = given
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    home = type(last).__module__
    if home.startswith("sklearn.") and not home.startswith("sklearn.semi_supervised"):
        train = np.setdiff1d(np.union1d(problem.train, problem.validation), hidden)
        return fit_given(model, rows, classes, dataclasses.replace(problem, train=train))
    start = f"{steps[-1][0]}__" if steps else ""
    optional = {f"{start}graph": graph, f"{start}validation": validation}
    copy, is_own = clone_with(model), isinstance(last, GLNNClassifier)
    if is_own:
        copy.set_params(**{f"{start}calibrate": None})
    seen = mask_labels(classes, problem.labels, hidden, use_none=is_own)
    rows = rows.copy()  # a step may change them in place
    copy.fit(rows, seen, **{name: value for name, value in optional.items() if value is not None})
    found = getattr(copy, "label_distributions_", None)  # raw, because calibrate=None
    return np.asarray(copy.predict_proba(rows) if found is None else found)


def evaluate_fit(
    model: GLNNClassifier,
    *,
    seconds: float = 0.0,
    rivals: RivalChoice = "auto",
    random_state: int = 0,
    watch: Watch = None,
) -> Evaluation:
    """Judge a fit by the predictions of the labels that it has hidden in folds, without new fits.

    ``seconds`` is what the fit took; the other parameters are those of :func:`evaluate`.
    """
    given = model._fitted_to
    if given is None or model.folds_ is None or model.held_out_ is None:
        raise InputError(
            "the fit must have hidden labels in folds, got one that has not. Fit without "
            "validation nodes and with calibrate='auto', and with two labels of a class at least."
        )
    graph = given["graph"]
    problem, classes = make_node_problem(given["X"], given["y"], graph)
    rows = problem.features
    return estimate(
        problem,
        model.held_out_,
        model.folds_,
        classes,
        seconds=seconds,
        class_weight=model.class_weight,
        rivals=choose_rivals(rivals, has_graph=graph is not None, rows=rows, classes=classes),
        graph_helped=_has_graph_helped(model),
        seed=random_state,
        progress=watch,
    )


def _has_graph_helped(model: GLNNClassifier) -> bool | None:
    """Return whether tracks that see the given graph carry the weight; ``None`` without others."""
    if model.prior_graph_ is None or len(model.mixture_) == 1:
        return None
    return model._model.graph_trust >= 0.5


def make_node_problem(
    X: Any, y: Any, graph: Any = None, validation: Any = None
) -> tuple[NodeProblem, np.ndarray]:
    """Check the arguments of a fit and encode the labels; return the problem and the classes."""
    features = check_features("X", X)
    n_nodes = features.shape[0]
    classes, encoded = encode_targets(y, n_nodes)
    chosen = check_indices("validation", [] if validation is None else validation, n_nodes)
    train = np.setdiff1d(np.flatnonzero(encoded != UNLABELLED), chosen)
    return NodeProblem(features, graph, encoded, train, chosen, len(classes)), classes


def evaluation_digest(problem: NodeProblem, classes: np.ndarray, estimator: Any) -> bytes:
    """Return a digest of all inputs that the predictions of the folds depend on."""
    settings = dict(estimator.get_params(deep=False))
    settings.pop("callbacks", None)  # they do not change the result
    facts = [type(estimator).__name__, repr(settings), [str(label) for label in classes]]
    data = [problem.features, problem.graph, problem.labels, problem.train, problem.validation]
    return compute_digest([facts, data])
