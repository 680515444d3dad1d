"""One node of a finished run, explained by the names of its table."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from rich.box import SIMPLE
from rich.table import Table

from glnn._utils import did_you_mean
from glnn.data.files import shown, shown_path
from glnn.data.npz import read_graph_npz
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.quality.explain import Explanation, FittedNodes
from glnn.quality.folds import label_weights
from glnn.quality.importance import metric_weights
from glnn.report.page.page_data import LinkTerms, upper_links
from glnn.report.predict import read_page
from glnn.report.text import percent
from glnn.solver.attribution import LinkShares

# --- explained: One node of a finished run, explained by the names of its table

TERM_WORDS = {
    "closeness": "given graph",
    "smoothness": "similarity",
    "predictions": "predictions",
    "task": "task",
    "proximal": "earlier graph",
}
REST = "penalties"
"""What all other terms are called together."""


@dataclass(frozen=True)
class HiddenAnswer:
    """What fits without a node's label say of the node, as ``predictions.csv`` has it."""

    predicted: Any
    probability: float


@dataclass(frozen=True, eq=False)
class ExplainedNode:
    """An explanation, and the ids of all nodes of the run.

    Parameters
    ----------
    explanation
        By the fit, which knew the label of the node if one was given.
    ids
        Of all nodes.
    hidden
        What the folds of the estimate say without the node's label, if they were run.
    is_calibrated
        Whether probabilities are calibrated, or the network's own.
    """

    explanation: Explanation
    ids: np.ndarray
    hidden: HiddenAnswer | None = None
    is_calibrated: bool = True

    def name(self, node: int) -> str:
        """Return the id of a node as text."""
        return str(self.ids[node])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, with the id beside every row number."""
        page = self.explanation.to_dict()
        for part in (page, *page["links"], *page["voices"]):
            part["id"] = self.name(part["node"])
        hidden = None if self.hidden is None else dataclasses.asdict(self.hidden)
        return page | {"without_its_label": hidden, "calibrated": self.is_calibrated}


def explain_node(run: Path, name: str, *, n_links: int = 10, n_labels: int = 10) -> ExplainedNode:
    """Explain a node of a run folder by its id.

    Parameters
    ----------
    run
        The folder that a fit left.
    name
        The id of the node; for data without ids, its row number.
    n_links, n_labels
        How many links and labelled nodes to name.
    """
    page = read_page(run)
    graph, known = read_graph_npz(run / "graph.npz")
    ids = np.arange(graph.shape[0]) if known is None else known
    names = [str(each) for each in ids.tolist()]
    if name not in names:
        raise InputError(
            f"the id must be one of the {len(names)} nodes of {shown_path(run)}, "
            f"got {shown(name)}.{did_you_mean(name, names)}"
        )
    model = GLNNClassifier.load(run)
    columns = page["feature_names"]
    number = names.index(name)
    found = model.explain(number, n_links=n_links, n_labels=n_labels, column_names=columns)
    is_calibrated = not model.calibration_.is_identity
    return ExplainedNode(found, ids, hidden_answer(model, number), is_calibrated)


def hidden_answer(model: GLNNClassifier, node: int) -> HiddenAnswer | None:
    """Return what the folds of an estimate said of a node without its label, if there were any.

    Parameters
    ----------
    model
        Of a run; it keeps what its folds said.
    node
        Row number.
    """
    held_out = model.held_out_
    if held_out is None or held_out.n_folds < 2 or held_out.classes[node] < 0:
        return None
    weights = label_weights(model.class_weight, None, model.classes_, held_out.classes)
    row = held_out.calibrated(weights)[node]
    return HiddenAnswer(model.classes_.tolist()[row.argmax()], float(row.max()))


def heading(node: ExplainedNode) -> str:
    """Return the answer in one line: without the node's label first, where fits gave one."""
    found, hidden = node.explanation, node.hidden
    own = f"{found.predicted} ({percent(found.probability)})"
    if found.label is None:
        said = f"predicted {own}; no label was given"
    elif hidden is None:
        said = f"predicted {own} by a fit that knew its label; given label {found.label}"
    else:
        said = (
            f"predicted {hidden.predicted} ({percent(hidden.probability)}) by fits without its "
            f"label; given label {found.label}; the fit that knew it, explained here, says {own}"
        )
    return f"{node.name(found.node)}: {said}."


def link_table(node: ExplainedNode) -> Table:
    """Return the links with what made them."""
    links = node.explanation.links
    parts = [grouped(link.terms) for link in links]
    terms = list(dict.fromkeys(name for part in parts for name in part))
    table = _table("link to", "Heaviest links, and what made them")
    for column in ("class", "weight", *terms, "columns"):
        justify: Literal["left", "right"] = "left" if column in ("class", "columns") else "right"
        table.add_column(column, justify=justify, min_width=max(map(len, column.split())))
    for link, part in zip(links, parts):
        known = f"{link.predicted} ?" if link.label is None else f"{link.label}"
        shares = [f"{part.get(term, 0.0):+.3f}" for term in terms]
        table.add_row(
            node.name(link.node), known, f"{link.weight:.3f}", *shares, ", ".join(link.columns)
        )
    return table


def voice_table(node: ExplainedNode) -> Table:
    """Return the labelled nodes that speak, and how much."""
    found = node.explanation
    how = "measured by fits without them" if found.is_measured else "estimated"
    table = _table("label of", f"Labels that speak here, {how}")
    table.add_column("class")
    table.add_column("for its class", justify="right")
    table.add_column(f"for {found.predicted}", justify="right")
    for voice in found.voices:
        table.add_row(
            node.name(voice.node),
            str(voice.label),
            f"{voice.effect:+.4f}",
            f"{voice.effects[found.predicted]:+.4f}",
        )
    return table


def _table(first: str, title: str) -> Table:
    """Return a table that fits a narrow screen."""
    return Table(first, title=title, title_justify="left", box=SIMPLE, pad_edge=False)


def grouped(terms: Mapping[str, float]) -> dict[str, float]:
    """Return the parts of a weight in plain words, all that only takes away together.

    Examples
    --------
    >>> grouped({"smoothness": 0.5, "sparsity": -0.125, "row_sums": -0.25})
    {'similarity': 0.5, 'penalties': -0.375}
    """
    parts: dict[str, float] = {}
    for name, value in terms.items():
        word = TERM_WORDS.get(name, REST)
        parts[word] = parts.get(word, 0.0) + value
    rest = parts.pop(REST, None)
    return parts if rest is None else parts | {REST: rest}


# --- link_terms: What made each link, in the words and columns that the page names

N_NAMED = 2
"""Columns that are named for each link."""

_BLOCK = 20_000
_MOST_COLUMNS = 15


def link_terms(nodes: FittedNodes) -> LinkTerms | None:
    """Return the shares of each link above the diagonal, and the columns that say most for it.

    Nothing is known of a graph that was not solved for: the preset ``literal``, a prior graph that
    was taken as it is, and fits over several processes.
    """
    adjacency, shares = nodes.adjacency, nodes.shares
    if shares is None or len(shares.values) != adjacency.nnz:
        return None
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    upper = (adjacency.indices > rows) & (adjacency.data != 0)
    names, values = in_words(shares.names, shares.values[upper])
    links = upper_links(adjacency)
    columns, parts = named_columns(shares, nodes.signals, links.row, links.col)
    return LinkTerms(names, values, tuple(nodes.column_names), columns, parts)


def metric_columns(nodes: FittedNodes) -> tuple[tuple[str, float], ...]:
    """Return the columns that count most in the learned similarity; none if all count alike."""
    weights = metric_weights(nodes.shares, len(nodes.column_names))
    if np.ptp(weights) < 1e-9:
        return ()
    first = np.argsort(-weights, kind="stable")[:_MOST_COLUMNS]
    return tuple((nodes.column_names[c], float(weights[c])) for c in first)


def in_words(
    names: Sequence[str], values: Float[np.ndarray, "e t"]
) -> tuple[tuple[str, ...], Float[np.ndarray, "e k"]]:
    """Return the terms by the words of the page; penalties are summed.

    Examples
    --------
    >>> in_words(["smoothness", "row_sums", "loops"], np.array([[3.0, -1.0, -0.5]]))
    (('similarity', 'penalties'), array([[ 3. , -1.5]]))
    """
    said = [TERM_WORDS.get(name, REST) for name in names]
    kept = tuple(dict.fromkeys(said))
    sums = [values[:, [word == one for word in said]].sum(1) for one in kept]
    return kept, np.stack(sums, 1) if sums else np.zeros((len(values), 0))


def named_columns(
    shares: LinkShares, features: Any, first: np.ndarray, second: np.ndarray
) -> tuple[Int[np.ndarray, "e k"], Float[np.ndarray, "e k"]]:
    """Return the columns that give most to each link, and their shares of all that columns give.

    A link that similarity says nothing for has shares of zero.
    """
    n_named = min(N_NAMED, features.shape[1])
    found = np.zeros((len(first), n_named), np.int64)
    parts = np.zeros((len(first), n_named))
    if shares.metric is None or shares.metric.ndim == 2:
        return found, parts
    signal = sp.csr_matrix(shares.transform.transform(features))
    weighted = sp.csr_matrix(signal @ sp.diags(np.broadcast_to(shares.metric, signal.shape[1])))
    for start in range(0, len(first), _BLOCK):
        block = slice(start, start + _BLOCK)
        given = sp.csr_matrix(signal[first[block]].multiply(weighted[second[block]]))
        found[block], parts[block] = _largest(given, n_named)
    return found, parts


def _largest(
    given: sp.csr_matrix, n_named: int
) -> tuple[Int[np.ndarray, "b k"], Float[np.ndarray, "b k"]]:
    """Return the columns of the largest positive entries of each row, and their shares of it."""
    rows = np.repeat(np.arange(given.shape[0]), np.diff(given.indptr))
    kept = given.data > 0
    rows, columns, values = rows[kept], given.indices[kept], given.data[kept]
    order = np.lexsort((-values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    starts = np.searchsorted(rows, np.arange(given.shape[0] + 1))
    totals = np.bincount(rows, values, minlength=given.shape[0])
    found = np.zeros((given.shape[0], n_named), np.int64)
    parts = np.zeros((given.shape[0], n_named))
    for rank in range(n_named):
        has = np.flatnonzero(starts[1:] - starts[:-1] > rank)
        at = starts[has] + rank
        found[has, rank] = columns[at]
        parts[has, rank] = values[at] / totals[has]
    return found, parts
