"""The methods of the tables by name: the presets of glnn and the baselines."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice, did_you_mean
from glnn.data import NodeData, Split
from glnn.engine.settings import PRESETS
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.quality.rivals import NodeProblem, comparable_features
from glnn_lab.baselines import BASELINES
from glnn_lab.experiments.cells import Scalar


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a run: a class for every node, epochs, automatic choices, the model."""

    classes: np.ndarray
    n_epochs: int
    choices: dict[str, Any] = field(default_factory=dict)
    model: Any = None


@dataclass(frozen=True)
class Method:
    """A row of a table: its title and the function that runs it."""

    name: str
    title: str
    run: Callable[[NodeData, Split, int, Mapping[str, Scalar]], Outcome]
    published_as: str | None = None
    is_variant: bool = False  # whether it runs only in blocks that name it
    same_as: tuple[str, str] | None = None  # method and perturbation whose run is identical

    def on_graph(self, perturbation: str) -> tuple[str, str]:
        """Return the method and perturbation of the cell to run."""
        return self.same_as or (self.name, perturbation)


def visible_labels(data: NodeData, split: Split) -> np.ndarray:
    """Return the labels of training and validation nodes, -1 elsewhere."""
    labels = np.full(data.n_nodes, -1, dtype=np.int64)
    for nodes in (split.train, split.val):
        labels[nodes] = data.labels[nodes]
    return labels


def _estimator(
    preset: str,
    *,
    head: str | None = None,
    uses_graph: bool = True,
    with_graph: Mapping[str, Any] | None = None,
    **fixed: Scalar,
) -> Callable[[NodeData, Split, int, Mapping[str, Scalar]], Outcome]:
    """Return a function that runs an estimator; the setting ``lambda0`` is the GLR weight.

    The settings of ``with_graph`` apply only to data with a given graph.
    """

    def run(data: NodeData, split: Split, seed: int, settings: Mapping[str, Scalar]) -> Outcome:
        given = {} if data.graph is None else dict(with_graph or {})
        params: dict[str, Any] = {**fixed, **given, **settings}
        if "lambda0" in params:
            weights = PRESETS[preset].graph.weights
            params["weights"] = weights.replace(smoothness=params.pop("lambda0"))
        model = GLNNClassifier(random_state=seed, calibrate=None)
        if head is not None:
            params["head"] = head
        model.set_params(preset=preset, **params)
        validation = split.val if split.val.size else None
        graph = data.graph if uses_graph else None
        model.fit(data.features, visible_labels(data, split), graph, validation)
        return Outcome(model.transduction_, model.n_iter_, dict(model.choices_), model)

    return run


def _baseline(name: str) -> Callable[[NodeData, Split, int, Mapping[str, Scalar]], Outcome]:
    def run(data: NodeData, split: Split, seed: int, settings: Mapping[str, Scalar]) -> Outcome:
        method = _with_settings(name, settings)
        graph = data.graph
        if graph is None and method.needs_graph:  # a graph without edges
            graph = sp.csr_matrix((data.n_nodes, data.n_nodes), dtype=np.float32)
        labels = visible_labels(data, split)
        features = comparable_features(data.features)
        problem = NodeProblem(features, graph, labels, split.train, split.val, data.n_classes)
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
    Method("glnn-paper", "GLNN, paper, exact graph step", _estimator("paper"), "GLNN"),
    Method("glnn-literal", "GLNN, paper, as printed", _estimator("literal"), "GLNN"),
    Method(
        "glnn-no-glr",
        "Baseline: GLNN, paper, without GLR",
        _estimator("paper", lambda0=0.0, prediction_weight=0.0),
    ),
)
_VARIANTS = (
    Method(
        "glnn-without-glr",
        "without GLR",
        _estimator(
            "default",
            smoothness_weight=0.0,
            # without the term, features make no graph by themselves
            with_graph={"lambda0": 0.0, "tracks": ["learned", "linear", "hops"]},
        ),
        is_variant=True,
    ),
    Method(
        "glnn-without-consistency",
        "without consistency",
        _estimator("default", consistency_weight=0.0),
        is_variant=True,
    ),
    Method(
        "glnn-without-rounds",
        "without rounds",
        _estimator("default", n_rounds=1),
        is_variant=True,
    ),
    Method(
        "glnn-without-predictions",
        "without predictions as signals",
        _estimator("default", prediction_weight=0.0),
        is_variant=True,
    ),
    Method(
        "glnn-without-correction",
        "without class correction",
        _estimator("default", correction=0.0),
        is_variant=True,
    ),
    Method(
        "glnn-features-only",
        "without the given graph",
        _estimator("default", uses_graph=False),
        is_variant=True,
        same_as=("glnn", "no-graph"),
    ),
    Method(
        "glnn-gcn",
        "GCN head instead of propagation",
        _estimator("default", head="gcn"),
        is_variant=True,
    ),
)
_IGNORES_GRAPH = {"logistic_regression", "random_forest", "mlp", "knn_gcn"}
_DEFENCES = {"gcn_jaccard", "gcn_svd"}  # for poisoned graphs, only in blocks that name them
_PUBLISHED = {"planetoid", "chebnet", "monet", "longae", "gat", "dgi", "gwnn", "gcn"}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *_OURS,
        *_VARIANTS,
        *(
            Method(
                name,
                b.title,
                _baseline(name),
                b.title if name in _PUBLISHED else None,
                is_variant=name in _DEFENCES,
                same_as=(name, "none") if name in _IGNORES_GRAPH else None,
            )
            for name, b in BASELINES.items()
        ),
    )
}
# names of groups of methods on the command line, besides "all"
GROUPS = {"glnn": ("glnn", "glnn-paper", "glnn-literal"), "glnn-default": ("glnn",)}


def get_method(name: str) -> Method:
    """Return a method by name; the error for an unknown name suggests the nearest one."""
    return METHODS[check_choice("method", name, METHODS)]


__all__ = [
    "GROUPS",
    "METHODS",
    "Method",
    "Outcome",
    "get_method",
    "visible_labels",
]
