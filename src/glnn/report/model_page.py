"""The page of a fitted classifier in Python, where there is no run folder."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from glnn.data.files import atomic_write
from glnn.estimator import GLNNClassifier
from glnn.graph.convert import as_adjacency
from glnn.quality.metrics import Judged
from glnn.report.learning import learning_of
from glnn.report.link_terms import link_terms, metric_columns
from glnn.report.page.data import Evaluation, Graphs, Nodes, PageData, Reproduce
from glnn.report.page.document import render
from glnn.report.page.judged import on_hidden_labels
from glnn.report.versions import versions
from glnn.report.words import raw_lines


def write_report(model: GLNNClassifier, path: Path, fitted_to: tuple[Any, ...] | None) -> Path:
    """Write the page of a fitted classifier; return where it lies.

    Parameters
    ----------
    model
        Fitted.
    path
        The HTML file.
    fitted_to
        The arguments of its fit (features, labels, graph, validation nodes), ``None`` for a model
        that was loaded: nodes have numbers then, and the prior graph stands for the given one.
    """
    html = render(page_of_model(model, fitted_to))
    with atomic_write(path) as file:
        file.write(html)
    return path


def page_of_model(model: GLNNClassifier, fitted_to: tuple[Any, ...] | None) -> PageData:
    """Return what the page of a classifier shows; arguments as in :func:`write_report`."""
    features, _, graph, _ = fitted_to or (None, None, None, None)
    known = model.fitted_nodes()
    n_nodes = known.n_nodes
    given = model.prior_graph_ if graph is None else as_adjacency(graph, n_nodes)
    nodes = _nodes(model, features, known.labels)
    n_labels = int(nodes.seen.sum())
    return PageData(
        title="GLNNClassifier",
        subtitle=f"{n_nodes:,} nodes, {n_labels:,} of them with a label",
        class_names=tuple(str(label) for label in model.classes_),
        nodes=nodes,
        graphs=Graphs(model.graph_, given, link_terms(known), model.edge_trust_),
        evaluation=_evaluation(model),
        learning=learning_of(
            model.history_, model.certificate_, model.choices_, metric=metric_columns(known)
        ),
        reproduce=_reproduce(model),
        advice="Fit with calibrate='auto' or 'folds', or judge the same data with glnn.evaluate.",
        warnings=tuple(line[:1].upper() + line[1:] for line in raw_lines(model.calibration_)),
    )


def _nodes(model: GLNNClassifier, features: Any, truth: Int[np.ndarray, "n"]) -> Nodes:
    n_nodes, held_out = len(truth), model.held_out_
    judged = np.full(n_nodes, -1, dtype=np.int64)
    if held_out is not None:
        judged[held_out.judged] = held_out.calibrated()[held_out.judged].argmax(1)
    names = getattr(features, "index", np.arange(n_nodes))
    return Nodes(
        [str(name) for name in names],
        model.label_distributions_.argmax(1),
        np.asarray(model.label_distributions_),
        truth,
        truth >= 0,
        judged,
        np.zeros(n_nodes, dtype=bool),
    )


def _evaluation(model: GLNNClassifier) -> Evaluation | None:
    """Return what fits without them said of hidden labels, if there were any."""
    held_out = model.held_out_
    if held_out is None or not held_out.judged.size:
        return None
    nodes = held_out.judged
    judged = Judged(held_out.classes[nodes], held_out.calibrated()[nodes])
    return on_hidden_labels(judged, [str(label) for label in model.classes_])


def _reproduce(model: GLNNClassifier) -> Reproduce:
    changed = tuple(
        (name, repr(value), "the default")
        for name, value in model.get_params(deep=False).items()
        if value != type(model)().get_params(deep=False)[name]
    )
    return Reproduce(f"{model!r}.fit(X, y)", tuple(versions().items()), changed)
