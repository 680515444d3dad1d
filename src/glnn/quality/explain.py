"""Why a node got its class: its links and what made them, labels that speak, columns that count."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn._utils import Shown, check_integer
from glnn.graph.rows import dense_rows
from glnn.quality.influence import label_influence, network_kernel
from glnn.solver.attribution import LinkShares

if TYPE_CHECKING:
    import pandas as pd


# --- embedding: Nodes as the network compares them: features spread over the learned graph, in few

Spread = Callable[[np.ndarray], np.ndarray]
"""The product of a symmetric matrix of nodes with columns of signals."""

_MORE = 10  # directions beyond those kept, which make the kept ones accurate
_POWERS = 2  # products with S X and its transpose that separate large directions from small ones


def embedding(
    features: Any, spread: Spread, *, n_columns: int = 100, seed: int = 0
) -> Float[np.ndarray, "n d"]:
    r"""Return the leading directions of :math:`S X`: rows with nearly the same products.

    A randomised range finder (Halko, Martinsson and Tropp 2011) needs products with :math:`S` and
    :math:`X` alone, so the cost grows with what they store.

    Parameters
    ----------
    features
        The features :math:`X`, dense or sparse.
    spread
        Returns :math:`S V` for a dense matrix :math:`V`; :math:`S` is symmetric.
    n_columns
        Directions to keep, at least 1; all of them where the features have fewer columns.
    seed
        Of the random start.

    Examples
    --------
    >>> rows = embedding(np.array([[1.0, 2.0], [0.0, 1.0]]), lambda v: v)
    >>> rows @ rows.T
    array([[5., 2.],
           [2., 1.]])
    """
    check_integer("n_columns", n_columns, low=1)
    n_features = features.shape[1]
    if n_features <= n_columns + _MORE:
        return spread(_dense(features))
    rng = np.random.default_rng(seed)
    found = spread(np.asarray(features @ rng.standard_normal((n_features, n_columns + _MORE))))
    for _ in range(_POWERS):
        basis, _ = np.linalg.qr(features.T @ spread(np.linalg.qr(found)[0]))
        found = spread(np.asarray(features @ basis))
    left, size, _ = np.linalg.svd(found, full_matrices=False)
    return np.asarray(left[:, :n_columns] * size[:n_columns])


def unit_rows(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return rows with the mean row subtracted, then of length one; zero rows stay zero."""
    centred = rows - rows.mean(0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def _dense(features: Any) -> np.ndarray:
    return np.asarray(dense_rows(features), dtype=np.float64)


# --- fitted: A fitted estimator as explanations see it: nodes, labels, links and what made them


@dataclass(frozen=True, eq=False)
class FittedNodes:
    """The training nodes of a fit.

    Parameters
    ----------
    adjacency
        The learned graph, CSR.
    features
        Scaled features, as the network takes them.
    spread
        Spreads signals over the graph as the network does.
    labels
        Number of the class of every node whose label was given, -1 elsewhere.
    trained
        Sorted numbers of the nodes whose labels trained the network.
    probabilities
        Class probabilities, calibrated where the fit did so.
    classes
        The labels by class number.
    column_names
        Names of the columns by which nodes are compared.
    shares
        Which term made which link; ``None`` if that is not known.
    compared
        The columns by which nodes were compared, where those are not the features.
    """

    adjacency: sp.csr_matrix
    features: Any
    spread: Spread
    labels: np.ndarray
    trained: np.ndarray
    probabilities: np.ndarray
    classes: np.ndarray
    column_names: Sequence[str]
    shares: LinkShares | None = None
    compared: np.ndarray | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.labels)

    @property
    def signals(self) -> Any:
        """The columns by which nodes were compared."""
        return self.features if self.compared is None else self.compared

    def rows(self) -> np.ndarray:
        """Return the nodes as the network sees them: features spread over the graph."""
        return embedding(self.features, self.spread)

    def class_of(self, number: int) -> Any:
        """Return the label with this class number, as a plain value."""
        return self.classes.tolist()[number]

    def label_of(self, node: int) -> Any:
        """Return the given label of a node, ``None`` without one."""
        number = self.labels[node]
        return None if number < 0 else self.class_of(int(number))

    def column_shares(self, node: int, ends: np.ndarray) -> np.ndarray:
        """Return what each feature column gives to the links of a node, links x columns."""
        if self.shares is None:
            return np.zeros((len(ends), len(self.column_names)))
        return self.shares.column_shares(self._dense(node)[0], self._dense(ends))

    def _dense(self, nodes: Any) -> np.ndarray:
        chosen = self.signals[np.atleast_1d(nodes)]
        return np.asarray(dense_rows(chosen), dtype=np.float64)


# --- explain: Why a node got its class: its links and what made them, labels that speak, columns t

_COLUMNS = 3  # columns that are named for each link
_MOST_SCORES = 2000  # labels times classes that an estimate of their effects takes


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
        The neighbour's given label (``None`` without one), its predicted class and how probable
        that is.
    terms
        What each term of the graph problem gives to the weight; the sum is the weight. Empty if
        the model does not know (``preset="literal"``, or a fit over several processes).
    columns
        The feature columns that give most to the similarity, with their parts of it.
    """

    node: int
    weight: float
    label: Any
    predicted: Any
    probability: float
    terms: dict[str, float]
    columns: dict[str, float]


@dataclass(frozen=True)
class Voice:
    """One labelled node that speaks at the explained node.

    Parameters
    ----------
    node, label
        Row number and given label.
    effect
        What the label adds to the probability of its own class here.
    effects
        What it adds to the probability of every class: an estimate
        (:mod:`glnn.quality.influence`), or measured where fits were repeated.
    """

    node: int
    label: Any
    effect: float
    effects: dict[Any, float]


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """Why one node got its class.

    Parameters
    ----------
    node
        Row number.
    label, predicted, probability
        Given label (``None`` without one), predicted class and its probability.
    links
        Links of the learned graph, the heaviest first.
    voices
        Labelled nodes, those with the largest effect first.
    columns
        Feature columns by what they give to all links of the node, the largest first.
    is_measured
        Whether the effects of the labels were measured by fitting without them; otherwise they
        are estimates.
    """

    node: int
    label: Any
    predicted: Any
    probability: float
    links: tuple[Link, ...]
    voices: tuple[Voice, ...]
    columns: dict[str, float]
    is_measured: bool = False

    def _facts(self) -> dict[str, str]:
        return {
            "node": f"node {self.node}, {self.predicted} with {self.probability:.3f}",
            "links": str(len(self.links)),
            "labels": str(len(self.voices)),
            "columns": str(len(self.columns)),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        page = dataclasses.asdict(self)
        for voice in page["voices"]:
            voice["effects"] = {str(name): value for name, value in voice["effects"].items()}
        return {key: _plain(value) for key, value in page.items()}

    def to_frame(self) -> "pd.DataFrame":
        """Return the links as a table, a column for each term."""
        import pandas as pd

        rows = [
            {"node": link.node, "weight": link.weight, "label": link.label}
            | {"predicted": link.predicted, "probability": link.probability}
            | link.terms
            for link in self.links
        ]
        return pd.DataFrame(rows)


def explain(nodes: FittedNodes, node: int, *, n_links: int = 10, n_labels: int = 10) -> Explanation:
    """Say why a node of the training data got its class.

    Parameters
    ----------
    nodes
        The fitted nodes.
    node
        Row number.
    n_links, n_labels
        How many links and labelled nodes to name, at least 0 (default 10).
    """
    check_integer("node", node, low=0, high=nodes.n_nodes - 1)
    check_integer("n_links", n_links, low=0)
    check_integer("n_labels", n_labels, low=0)
    links, columns = _links(nodes, node)
    predicted = int(nodes.probabilities[node].argmax())
    return Explanation(
        node,
        nodes.label_of(node),
        nodes.class_of(predicted),
        float(nodes.probabilities[node, predicted]),
        links[:n_links],
        estimated_voices(nodes, node)[:n_labels],
        _largest(columns, nodes.column_names, n_links),
    )


def estimated_voices(nodes: FittedNodes, node: int) -> tuple[Voice, ...]:
    """Return what labels other than the node's own add to probabilities, largest effects first.

    Where labels are many, those most alike to the node speak: the estimate inverts a matrix with
    a row for each label and class.
    """
    n_classes = nodes.probabilities.shape[1]
    rows, trained = nodes.rows(), nodes.trained
    most = max(1, _MOST_SCORES // n_classes)
    if len(trained) > most:
        alike = network_kernel(rows[[node]], rows[trained])[0]
        trained = np.sort(trained[np.argsort(-alike, kind="stable")[:most]])
    found = label_influence(rows, trained, nodes.labels[trained], n_classes).at(node)
    others = trained != node
    return voices_of(nodes, trained[others], found[others])


def voices_of(
    nodes: FittedNodes, labelled: Int[np.ndarray, "l"], effects: Float[np.ndarray, "l c"]
) -> tuple[Voice, ...]:
    """Return labelled nodes with their effects, the largest on the own class first."""
    own = effects[np.arange(len(labelled)), nodes.labels[labelled]]
    return tuple(
        Voice(
            int(labelled[k]),
            nodes.label_of(int(labelled[k])),
            float(own[k]),
            {nodes.class_of(c): float(effect) for c, effect in enumerate(effects[k])},
        )
        for k in np.argsort(-np.abs(own), kind="stable")
    )


def _links(nodes: FittedNodes, node: int) -> tuple[tuple[Link, ...], np.ndarray]:
    """Return all links but the loop, the heaviest first, and the sums of their columns."""
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
            _largest(columns[k], nodes.column_names, _COLUMNS),
        )
        for k in others[np.argsort(-weights[others], kind="stable")]
    ]
    return tuple(found), columns[others].sum(0)


def _largest(values: np.ndarray, names: Sequence[str], n_most: int) -> dict[str, float]:
    """Return the largest positive values by name."""
    order = np.argsort(-values, kind="stable")[:n_most]
    return {names[k]: float(values[k]) for k in order if values[k] > 0}


def _plain(value: Any) -> Any:
    """Return the same without NumPy's kinds of numbers and text."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


# --- left_out: What labels really change: the whole fit runs again without each of them

Refit = Callable[[np.ndarray, int], np.ndarray]
"""Fits without the labels of some nodes, with a seed; returns the probabilities of all nodes."""

_MOST_FITS = 80
_MOST_NODES, _MOST_NUMBERS = 1_000, 100_000


def is_quickly_refitted(n_fits: int, shape: tuple[int, int]) -> bool:
    """Tell whether this many fits are made while nobody waits for long.

    Parameters
    ----------
    n_fits
        How many.
    shape
        Rows and columns of the features.

    Examples
    --------
    >>> [is_quickly_refitted(n_fits, (150, 4)) for n_fits in (26, 200)]
    [True, False]
    """
    n_nodes, n_columns = shape
    is_small = n_nodes <= _MOST_NODES and n_nodes * n_columns <= _MOST_NUMBERS
    return is_small and n_fits <= _MOST_FITS


def left_out_effects(
    refit: Refit, labelled: Int[np.ndarray, "l"], seeds: Sequence[int]
) -> Float[np.ndarray, "l n c"]:
    """Return what each label adds to the class probabilities of all nodes.

    One fit differs from the next by its dropout alone about as much as by one label, so fits with
    and without the label are compared seed by seed and the differences averaged. Costs
    ``len(seeds) * (len(labelled) + 1)`` fits.

    Parameters
    ----------
    refit
        The whole fit, without the labels of some nodes.
    labelled
        Nodes whose labels are left out, one at a time.
    seeds
        Of the fits, one at least.
    """
    effects = []
    for seed in seeds:
        whole = refit(np.empty(0, dtype=np.int64), seed)
        effects.append([whole - refit(np.array([node]), seed) for node in labelled.tolist()])
    return np.asarray(np.mean(effects, 0))
