"""Why a node got its class: its links and what made them, labels that speak, columns that count."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from glnn._display import Shown
from glnn._validation import check_integer
from glnn.quality.fitted import FittedNodes
from glnn.quality.influence import label_influence, network_kernel

if TYPE_CHECKING:
    import pandas as pd

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
