"""Every method of the tables by name: the presets of glnn, and the methods to compare with."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_choice, did_you_mean
from glnn.baselines import BASELINES, Problem
from glnn.data import NodeData, Split
from glnn.engine.presets import PRESETS
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.experiments.cells import Scalar


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gives back: a class for every node, and how it came about."""

    classes: np.ndarray
    n_epochs: int
    choices: dict[str, Any] = field(default_factory=dict)
    model: Any = None


@dataclass(frozen=True)
class Method:
    """A row of a table: its words, and how it runs on data whose labels it may see in part."""

    name: str
    title: str
    run: Callable[[NodeData, Split, int, Mapping[str, Scalar]], Outcome]
    published_as: str | None = None


def visible_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return the labels of training and validation nodes; -1 everywhere else."""
    labels = np.full(data.n_nodes, -1, dtype=np.int64)
    for nodes in (split.train, split.val):
        labels[nodes] = data.labels[nodes]
    return labels


def _estimator(
    preset: str, *, head: str | None = None, uses_graph: bool = True, **fixed: Scalar
) -> Callable[[NodeData, Split, int, Mapping[str, Scalar]], Outcome]:
    """Return the run of an estimator; ``lambda0`` among the settings is the weight of the GLR."""

    def run(data: NodeData, split: Split, seed: int, settings: Mapping[str, Scalar]) -> Outcome:
        params: dict[str, Any] = {**fixed, **settings}
        if "lambda0" in params:
            weights = PRESETS[preset].graph.weights
            params["weights"] = weights.replace(smoothness=params.pop("lambda0"))
        model = GLNNClassifier(preset, head=head, random_state=seed).set_params(**params)
        validation = split.val if split.val.size else None
        graph = data.graph if uses_graph else None
        model.fit(data.features, visible_labels(data, split), graph, validation)
        return Outcome(model.transduction_, model.n_iter_, dict(model.choices_), model)

    return run


def _baseline(name: str) -> Callable[[NodeData, Split, int, Mapping[str, Scalar]], Outcome]:
    def run(data: NodeData, split: Split, seed: int, settings: Mapping[str, Scalar]) -> Outcome:
        method = _with_settings(name, settings)
        graph = data.graph
        if graph is None and method.needs_graph:  # then every node stands alone
            graph = sp.csr_matrix((data.n_nodes, data.n_nodes), dtype=np.float32)
        labels = visible_labels(data, split)
        problem = Problem(data.features, graph, labels, split.train, split.val, data.n_classes)
        prediction = method.fit_predict(problem, seed)
        return Outcome(prediction.classes, prediction.n_epochs)

    return run


def _with_settings(name: str, settings: Mapping[str, Scalar]) -> Any:
    method = BASELINES[name]
    known = [f.name for f in dataclasses.fields(method.settings)]
    for key in settings:
        if key not in known:
            raise InputError(f"{key!r} is not a setting of {name}.{did_you_mean(key, known)}")
    changed = dataclasses.replace(method.settings, **settings)
    return dataclasses.replace(method, settings=changed)  # type: ignore[type-var]


_OURS = (
    Method("glnn", "GLNN, default", _estimator("default"), "GLNN"),
    Method("glnn-gcn", "GLNN, default losses, GCN head", _estimator("default", head="gcn")),
    Method("glnn-paper", "GLNN, paper, exact graph step", _estimator("paper"), "GLNN"),
    Method("glnn-literal", "GLNN, paper, as printed", _estimator("literal"), "GLNN"),
    Method(
        "glnn-no-glr",
        "Baseline: GLNN, paper, without GLR",
        _estimator("paper", lambda0=0.0, prediction_weight=0.0),
    ),
    Method(
        "glnn-features-only", "GLNN, default, no graph", _estimator("default", uses_graph=False)
    ),
)
_PUBLISHED = {"planetoid", "chebnet", "monet", "longae", "gat", "dgi", "gwnn", "gcn"}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *_OURS,
        *(
            Method(name, b.title, _baseline(name), b.title if name in _PUBLISHED else None)
            for name, b in BASELINES.items()
        ),
    )
}
GROUPS = {"glnn": ("glnn", "glnn-paper", "glnn-literal"), "glnn-default": ("glnn",)}
"""Words that stand for methods on the command line; ``all`` stands for every one."""


def get_method(name: str) -> Method:
    """Return a method; an unknown name is answered with the nearest known one."""
    return METHODS[check_choice("method", name, METHODS)]


__all__ = ["GROUPS", "METHODS", "Method", "Outcome", "get_method", "visible_labels"]
