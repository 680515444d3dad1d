"""Explanations of single predictions: links, effects of labels and contributions of columns."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn._utils import ReprMixin, check_integer
from glnn.graph.rows import to_dense_array
from glnn.quality.influence import estimate_influence, network_kernel
from glnn.solver.attribution import LinkShares

if TYPE_CHECKING:
    import pandas as pd


# Embedding of the nodes

# Multiplies signals (nodes x columns) by a symmetric propagation matrix.
Propagate = Callable[[np.ndarray], np.ndarray]

_N_OVERSAMPLES = 10  # directions beyond those kept, for accuracy
_N_POWER_ITERATIONS = 2  # power iterations of the range finder


def embed_nodes(
    features: Any, propagate: Propagate, *, n_columns: int = 100, seed: int = 0
) -> Float[np.ndarray, "n d"]:
    r"""Return a low-rank factor of :math:`S X` whose rows have nearly the same inner products.

    :math:`X` are the features, dense or sparse, and ``propagate`` multiplies by the symmetric
    matrix :math:`S`. The randomised range finder (Halko, Martinsson and Tropp 2011) needs only
    products with :math:`S` and :math:`X`. If there are at most ``n_columns`` features (with some
    margin), :math:`S X` itself is returned.

    Examples
    --------
    >>> rows = embed_nodes(np.array([[1.0, 2.0], [0.0, 1.0]]), lambda v: v)
    >>> rows @ rows.T
    array([[5., 2.],
           [2., 1.]])
    """
    check_integer("n_columns", n_columns, low=1)
    n_features = features.shape[1]
    if n_features <= n_columns + _N_OVERSAMPLES:
        return propagate(_to_dense(features))
    rng = np.random.default_rng(seed)
    found = propagate(
        np.asarray(features @ rng.standard_normal((n_features, n_columns + _N_OVERSAMPLES)))
    )
    for _ in range(_N_POWER_ITERATIONS):
        basis, _ = np.linalg.qr(features.T @ propagate(np.linalg.qr(found)[0]))
        found = propagate(np.asarray(features @ basis))
    left, size, _ = np.linalg.svd(found, full_matrices=False)
    return np.asarray(left[:, :n_columns] * size[:n_columns])


def center_and_normalize(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Subtract the mean row, then scale every row to length one; zero rows stay zero."""
    centred = rows - rows.mean(0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def _to_dense(features: Any) -> np.ndarray:
    return np.asarray(to_dense_array(features), dtype=np.float64)


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
        return self.shares.column_shares(self._dense(node)[0], self._dense(ends))

    def _dense(self, nodes: Any) -> np.ndarray:
        chosen = self.signals[np.atleast_1d(nodes)]
        return np.asarray(to_dense_array(chosen), dtype=np.float64)


# Explanations

_N_LINK_COLUMNS = 3  # columns listed for each link
_MAX_SCORES = 2000  # labels times classes in the estimate of their effects


@dataclass(frozen=True)
class Link:
    """One link of the explained node.

    Parameters
    ----------
    node
        Row number of the neighbour.
    weight
        Weight of the link in the learned graph.
    label, predicted, probability
        The neighbour's given label (``None`` if unlabelled), its predicted class and the
        probability of that class.
    terms
        Contribution of each term of the graph problem to the weight; they sum to the weight. Empty
        for ``preset="literal"`` and for a fit over several processes.
    columns
        The feature columns with the largest contributions to the similarity.
    """

    node: int
    weight: float
    label: Any
    predicted: Any
    probability: float
    terms: dict[str, float]
    columns: dict[str, float]


@dataclass(frozen=True)
class LabelEffect:
    """Effect of one label on the probabilities of the explained node.

    Parameters
    ----------
    node, label
        Row number and given label of the labelled node.
    effect
        How much the label adds to the probability of its own class at the explained node.
    effects
        How much it adds to the probability of every class: measured by fits without the label, or
        estimated (:mod:`glnn.quality.influence`).
    """

    node: int
    label: Any
    effect: float
    effects: dict[Any, float]


@dataclass(frozen=True, repr=False)
class Explanation(ReprMixin):
    """Explanation of the prediction of one node.

    Parameters
    ----------
    node
        Row number.
    label, predicted, probability
        Given label (``None`` if unlabelled), predicted class and its probability.
    links
        Links of the learned graph, the heaviest first.
    voices
        Effects of the labels, the largest first.
    columns
        Contribution of feature columns to all links of the node, the largest first.
    is_measured
        Whether the effects of labels were measured by fits without them; otherwise they are
        estimated.
    """

    node: int
    label: Any
    predicted: Any
    probability: float
    links: tuple[Link, ...]
    voices: tuple[LabelEffect, ...]
    columns: dict[str, float]
    is_measured: bool = False

    def _repr_items(self) -> dict[str, str]:
        return {
            "node": f"node {self.node}, {self.predicted} with {self.probability:.3f}",
            "links": str(len(self.links)),
            "labels": str(len(self.voices)),
            "columns": str(len(self.columns)),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        page = dataclasses.asdict(self)
        for label in page["voices"]:
            label["effects"] = {str(name): value for name, value in label["effects"].items()}
        return {key: _to_plain(value) for key, value in page.items()}

    def to_frame(self) -> "pd.DataFrame":
        """Return the links as a table with one column for each term."""
        import pandas as pd

        rows = [
            {"node": link.node, "weight": link.weight, "label": link.label}
            | {"predicted": link.predicted, "probability": link.probability}
            | link.terms
            for link in self.links
        ]
        return pd.DataFrame(rows)


def explain(nodes: FittedNodes, node: int, *, n_links: int = 10, n_labels: int = 10) -> Explanation:
    """Explain the prediction of a training node, with estimated effects of labels."""
    check_integer("node", node, low=0, high=nodes.n_nodes - 1)
    check_integer("n_links", n_links, low=0)
    check_integer("n_labels", n_labels, low=0)
    links, columns = _find_links(nodes, node)
    predicted = int(nodes.probabilities[node].argmax())
    return Explanation(
        node,
        nodes.label_of(node),
        nodes.class_of(predicted),
        float(nodes.probabilities[node, predicted]),
        links[:n_links],
        estimate_label_effects(nodes, node)[:n_labels],
        _top_values(columns, nodes.column_names, n_links),
    )


def estimate_label_effects(nodes: FittedNodes, node: int) -> tuple[LabelEffect, ...]:
    """Estimate the effects of all labels but the node's own, the largest first.

    The estimate inverts a matrix with one row for each label and class, so with many labels only
    those of the most similar nodes are used.
    """
    n_classes = nodes.probabilities.shape[1]
    rows, trained = nodes.embedding(), nodes.trained
    most = max(1, _MAX_SCORES // n_classes)
    if len(trained) > most:
        similarity = network_kernel(rows[[node]], rows[trained])[0]
        trained = np.sort(trained[np.argsort(-similarity, kind="stable")[:most]])
    found = estimate_influence(rows, trained, nodes.labels[trained], n_classes).at(node)
    others = trained != node
    return rank_label_effects(nodes, trained[others], found[others])


def rank_label_effects(
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


def _to_plain(value: Any) -> Any:
    """Convert NumPy scalars to Python values, recursively."""
    if isinstance(value, dict):
        return {key: _to_plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


# Leave-one-out effects of labels

# Fits without the labels of the given nodes, with a seed; returns the probabilities of all nodes.
SeededRefit = Callable[[np.ndarray, int], np.ndarray]

_MAX_FITS = 80
_MAX_NODES, _MAX_NUMBERS = 1_000, 100_000


def can_refit_quickly(n_fits: int, shape: tuple[int, int]) -> bool:
    """Return whether so many fits of features of this shape take only a short time.

    Examples
    --------
    >>> [can_refit_quickly(n_fits, (150, 4)) for n_fits in (26, 200)]
    [True, False]
    """
    n_nodes, n_columns = shape
    is_small = n_nodes <= _MAX_NODES and n_nodes * n_columns <= _MAX_NUMBERS
    return is_small and n_fits <= _MAX_FITS


def leave_one_out_effects(
    refit: SeededRefit, labelled: Int[np.ndarray, "l"], seeds: Sequence[int]
) -> Float[np.ndarray, "l n c"]:
    """Return how much each label adds to the class probabilities of all nodes.

    The randomness of dropout changes a fit about as much as one label, so fits with and without a
    label are compared with the same seed, and the differences are averaged over the seeds. This
    takes ``len(seeds) * (len(labelled) + 1)`` fits.
    """
    effects = []
    for seed in seeds:
        whole = refit(np.empty(0, dtype=np.int64), seed)
        effects.append([whole - refit(np.array([node]), seed) for node in labelled.tolist()])
    return np.asarray(np.mean(effects, 0))
