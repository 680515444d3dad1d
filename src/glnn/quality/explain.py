"""Why a node got its class: links, effects of labels and contributions of columns."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from jaxtyping import Float, Int
from sklearn.preprocessing import normalize

from glnn._utils import check_integer
from glnn.graph.rows import to_dense_array
from glnn.solver.attribution import LinkShares

# Embedding of the nodes

# Multiplies signals (nodes x columns) by a symmetric propagation matrix.
Propagate = Callable[[np.ndarray], np.ndarray]

_N_OVERSAMPLES = 10  # directions beyond those kept, for accuracy
_N_POWER_ITERATIONS = 2  # power iterations of the range finder


def embed_nodes(
    features: Any, propagate: Propagate, *, n_columns: int = 100
) -> Float[np.ndarray, "n d"]:
    r"""Return a thin factor of :math:`S X` whose rows have nearly the same inner products.

    :math:`X` are the features, dense or sparse, and ``propagate`` multiplies by the symmetric
    matrix :math:`S`. The randomised range finder (Halko, Martinsson and Tropp 2011) needs only
    products with :math:`S` and :math:`X`. With few features :math:`S X` itself is returned.
    """
    shape = features.shape[1], n_columns + _N_OVERSAMPLES
    if shape[0] <= shape[1]:
        return propagate(np.asarray(to_dense_array(features), dtype=np.float64))
    rng = np.random.default_rng(0)
    found = propagate(np.asarray(features @ rng.standard_normal(shape)))
    for _ in range(_N_POWER_ITERATIONS):
        basis, _ = np.linalg.qr(features.T @ propagate(np.linalg.qr(found)[0]))
        found = propagate(np.asarray(features @ basis))
    left, size, _ = np.linalg.svd(found, full_matrices=False)
    return np.asarray(left[:, :n_columns] * size[:n_columns])


def center_and_normalize(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Subtract the mean row, then scale every row to length one; zero rows stay zero."""
    return np.asarray(normalize(rows - rows.mean(0)))


# Input of explanations


@dataclass(frozen=True, eq=False)
class FittedNodes:
    """The training nodes of a fit, with all that explanations need."""

    adjacency: sp.csr_matrix  # the learned graph
    features: Any  # scaled features, the input of the network
    propagate: Propagate  # propagates signals over the graph as the network does
    labels: np.ndarray  # class number of each node, -1 if unlabelled
    trained: np.ndarray  # sorted numbers of the nodes whose labels were used for training
    probabilities: np.ndarray  # class probabilities, calibrated if the fit is
    classes: np.ndarray  # label of each class number
    column_names: Sequence[str]  # names of the columns by which nodes are compared
    shares: LinkShares | None = None  # contributions of the terms to each link, if known
    compared: np.ndarray | None = None  # columns by which nodes are compared, if not the features

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.labels)

    @property
    def signals(self) -> Any:
        """The columns by which nodes are compared."""
        return self.features if self.compared is None else self.compared

    def embedding(self) -> np.ndarray:
        """Return an embedding of the nodes: the features propagated over the graph."""
        return embed_nodes(self.features, self.propagate)

    def class_of(self, number: int) -> Any:
        """Return the label with this class number, as a plain value."""
        return self.classes.tolist()[number]

    def label_of(self, node: int) -> Any:
        """Return the given label of a node, ``None`` if it is unlabelled."""
        number = self.labels[node]
        return None if number < 0 else self.class_of(int(number))

    def column_shares(self, node: int, ends: np.ndarray) -> np.ndarray:
        """Return the contribution of each column to the links of a node, links x columns."""
        if self.shares is None:
            return np.zeros((len(ends), len(self.column_names)))
        chosen = to_dense_array(self.signals[np.r_[node, ends]]).astype(np.float64)
        return self.shares.column_shares(chosen[0], chosen[1:])


# Explanations

_N_LINK_COLUMNS = 3  # columns listed for each link


@dataclass(frozen=True)
class Link:
    """One link of the explained node."""

    node: int  # row number of the neighbour
    weight: float  # in the learned graph
    label: Any  # the neighbour's given label, None if unlabelled
    predicted: Any
    probability: float  # of the predicted class
    # Contribution of each term of the graph problem; they sum to the weight. Empty for
    # preset="literal" and for a fit over several processes.
    terms: dict[str, float]
    columns: dict[str, float]  # with the largest contributions to the similarity


@dataclass(frozen=True)
class LabelEffect:
    """Effect of one label on the probabilities of the explained node, by fits without it."""

    node: int  # row number of the labelled node
    label: Any
    effect: float  # how much the label adds to the probability of its own class
    effects: dict[Any, float]  # how much it adds to the probability of every class


@dataclass(frozen=True, repr=False)
class Explanation:
    """Explanation of the prediction of one node."""

    node: int  # row number
    label: Any  # the given label, None if unlabelled
    predicted: Any
    probability: float  # of the predicted class
    links: tuple[Link, ...]  # of the learned graph, the heaviest first
    label_effects: tuple[LabelEffect, ...]  # the largest first; empty if they were not measured
    columns: dict[str, float]  # contributions to all links of the node, the largest first
    is_measured: bool = False  # whether effects of labels were measured, by fits without them

    def __repr__(self) -> str:
        sizes = f"{len(self.links)} links, {len(self.label_effects)} labels"
        said = f"node {self.node}, {self.predicted} with {self.probability:.3f}"
        return f"Explanation({said}: {sizes}, {len(self.columns)} columns)"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        page = dataclasses.asdict(self)
        for label in page["label_effects"]:
            label["effects"] = {str(name): value for name, value in label["effects"].items()}
        return page

    def to_frame(self) -> pd.DataFrame:
        """Return the links as a table with one column for each term."""
        names = ("node", "weight", "label", "predicted", "probability")
        rows = [{name: vars(link)[name] for name in names} | link.terms for link in self.links]
        return pd.DataFrame(rows)


def explain(
    nodes: FittedNodes,
    node: int,
    *,
    n_links: int = 10,
    label_effects: tuple[LabelEffect, ...] | None = None,
) -> Explanation:
    """Explain the prediction of a training node; ``label_effects`` are ``None`` if not measured."""
    check_integer("n_links", n_links, low=0)
    links, columns = _find_links(nodes, node)
    predicted = int(nodes.probabilities[node].argmax())
    return Explanation(
        int(node),
        nodes.label_of(node),
        nodes.class_of(predicted),
        float(nodes.probabilities[node, predicted]),
        links[:n_links],
        label_effects or (),
        _top_values(columns, nodes.column_names, n_links),
        label_effects is not None,
    )


def sort_label_effects(
    nodes: FittedNodes, labelled: Int[np.ndarray, "l"], effects: Float[np.ndarray, "l c"]
) -> tuple[LabelEffect, ...]:
    """Return the effects of labels, sorted by their size on the class of the label."""
    own = effects[np.arange(len(labelled)), nodes.labels[labelled]]
    return tuple(
        LabelEffect(
            int(labelled[k]),
            nodes.label_of(int(labelled[k])),
            float(own[k]),
            {nodes.class_of(c): float(effect) for c, effect in enumerate(effects[k])},
        )
        for k in np.argsort(-np.abs(own), kind="stable")
    )


def _find_links(nodes: FittedNodes, node: int) -> tuple[tuple[Link, ...], np.ndarray]:
    """Return all links without the self-loop, the heaviest first, and the sums of their columns."""
    adjacency, shares = nodes.adjacency, nodes.shares
    row = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
    ends, weights = adjacency.indices[row], adjacency.data[row]
    terms = np.zeros((len(ends), 0)) if shares is None else shares.values[row]
    names = () if shares is None else shares.names
    columns = nodes.column_shares(node, ends)
    others = np.flatnonzero(ends != node)
    found = [
        Link(
            int(ends[k]),
            float(weights[k]),
            nodes.label_of(int(ends[k])),
            nodes.class_of(int(nodes.probabilities[ends[k]].argmax())),
            float(nodes.probabilities[ends[k]].max()),
            dict(zip(names, terms[k].tolist())),
            _top_values(columns[k], nodes.column_names, _N_LINK_COLUMNS),
        )
        for k in others[np.argsort(-weights[others], kind="stable")]
    ]
    return tuple(found), columns[others].sum(0)


def _top_values(values: np.ndarray, names: Sequence[str], n_most: int) -> dict[str, float]:
    """Return the largest positive values by name."""
    order = np.argsort(-values, kind="stable")[:n_most]
    return {names[k]: float(values[k]) for k in order if values[k] > 0}


def nearest_labels(nodes: FittedNodes, node: int, n_labels: int) -> Int[np.ndarray, "l"]:
    """Return the labelled nodes most similar to a node by their propagated features.

    The only label of a class is not among them: without it there would be one class less.
    """
    classes = nodes.labels[nodes.trained]
    may_go = (np.bincount(classes)[classes] > 1) & (nodes.trained != node)
    rows, others = center_and_normalize(nodes.embedding()), nodes.trained[may_go]
    similarity = rows[others] @ rows[node]
    return np.asarray(others[np.argsort(-similarity, kind="stable")[:n_labels]])


# Weights of feature columns


def metric_weights(shares: LinkShares | None, n_features: int) -> Float[np.ndarray, "f"]:
    r"""Return the weight of each column in :math:`s_i^\top M s_j`, with mean 1.

    The weight is the squared scale of the column times its entry on the diagonal of :math:`M`. All
    weights are one if no term of the graph problem compares signals.
    """
    if shares is None or shares.metric is None:
        return np.ones(n_features)
    metric = np.diag(shares.metric) if shares.metric.ndim == 2 else shares.metric
    scale = np.ones(n_features) if shares.transform.scale is None else shares.transform.scale
    weights = np.abs(metric) * np.square(scale)
    mean = weights.mean()
    return np.asarray(weights / mean) if mean > 0 else np.ones(n_features)
