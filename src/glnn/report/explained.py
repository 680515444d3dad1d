"""Explain a node of a run by ids and column names, and what contributed to each link."""

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
from glnn.data.files import quote, quote_path
from glnn.data.npz import read_graph_npz
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.quality.explain import Explanation, FittedNodes, metric_weights
from glnn.quality.folds import label_weights
from glnn.report.page.page_data import LinkTerms, extract_links
from glnn.report.predict import read_data_description
from glnn.report.text import format_percent
from glnn.solver.attribution import LinkShares

# One node

TERM_NAMES = {
    "closeness": "given graph",
    "smoothness": "similarity",
    "predictions": "predictions",
    "task": "task",
    "proximal": "earlier graph",
}
OTHER_TERMS = "penalties"  # the sum of all other terms


@dataclass(frozen=True)
class HeldOutPrediction:
    """The prediction of fits without the node's label, as in ``predictions.csv``."""

    predicted: Any
    probability: float


@dataclass(frozen=True, eq=False)
class NodeExplanation:
    """The explanation of a node, with the ids of all nodes of the run."""

    explanation: Explanation  # of the fit that was trained on all given labels
    ids: np.ndarray  # of all nodes
    held_out: HeldOutPrediction | None = None  # None if there was no estimate
    is_calibrated: bool = True  # whether probabilities are calibrated

    def name(self, node: int) -> str:
        """Return the id of a node as text."""
        return str(self.ids[node])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, with an id for every row number."""
        values = self.explanation.to_dict()
        for part in (values, *values["links"], *values["label_effects"]):
            part["id"] = self.name(part["node"])
        held_out = None if self.held_out is None else dataclasses.asdict(self.held_out)
        return values | {"without_its_label": held_out, "calibrated": self.is_calibrated}


def explain_node(run: Path, name: str, *, n_links: int = 10) -> NodeExplanation:
    """Explain the node of a run folder with the id ``name``, or row number if there are no ids."""
    description = read_data_description(run)
    graph, known = read_graph_npz(run / "graph.npz")
    ids = np.arange(graph.shape[0]) if known is None else known
    names = [str(each) for each in ids.tolist()]
    if name not in names:
        raise InputError(
            f"the id must be one of the {len(names)} nodes of {quote_path(run)}, "
            f"got {quote(name)}.{did_you_mean(name, names)}"
        )
    model = GLNNClassifier.load(run)
    columns = description["feature_names"]
    number = names.index(name)
    found = model.explain(number, n_links=n_links, column_names=columns)
    is_calibrated = not model.calibration_.is_identity
    return NodeExplanation(found, ids, held_out_prediction(model, number), is_calibrated)


def held_out_prediction(model: GLNNClassifier, node: int) -> HeldOutPrediction | None:
    """Return the prediction of the fold that held out the label of a node, if there is one."""
    held_out = model.held_out_
    if held_out is None or held_out.n_folds < 2 or held_out.classes[node] < 0:
        return None
    weights = label_weights(model.class_weight, None, model.classes_, held_out.classes)
    row = held_out.calibrated(weights)[node]
    return HeldOutPrediction(model.classes_.tolist()[row.argmax()], float(row.max()))


def heading(node: NodeExplanation) -> str:
    """Return the prediction in one line; the held-out prediction comes first if there is one."""
    found, held_out = node.explanation, node.held_out
    own = f"{found.predicted} ({format_percent(found.probability)})"
    if found.label is None:
        text = f"predicted {own}; no label was given"
    elif held_out is None:
        text = f"predicted {own} by a fit trained on its label; given label {found.label}"
    else:
        text = (
            f"predicted {held_out.predicted} ({format_percent(held_out.probability)}) without its "
            f"label; given label {found.label}; with its label, as explained here, predicted {own}"
        )
    return f"{node.name(found.node)}: {text}."


def link_table(node: NodeExplanation) -> Table:
    """Return the heaviest links, and the contribution of each term to them."""
    links = node.explanation.links
    parts = [group_terms(link.terms) for link in links]
    terms = list(dict.fromkeys(name for part in parts for name in part))
    table = _table("link to", "Heaviest links, and the contribution of each term")
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


def _table(first: str, title: str) -> Table:
    """Return an empty table in a compact style."""
    return Table(first, title=title, title_justify="left", box=SIMPLE, pad_edge=False)


def group_terms(terms: Mapping[str, float]) -> dict[str, float]:
    """Return the contributions to a weight by the names of terms; penalties are summed.

    Examples
    --------
    >>> group_terms({"smoothness": 0.5, "sparsity": -0.125, "row_sums": -0.25})
    {'similarity': 0.5, 'penalties': -0.375}
    """
    parts: dict[str, float] = {}
    for name, value in terms.items():
        word = TERM_NAMES.get(name, OTHER_TERMS)
        parts[word] = parts.get(word, 0.0) + value
    rest = parts.pop(OTHER_TERMS, None)
    return parts if rest is None else parts | {OTHER_TERMS: rest}


# All links

N_NAMED = 2  # columns named for each link

_BLOCK = 20_000
_MOST_COLUMNS = 15


def link_terms(nodes: FittedNodes) -> LinkTerms | None:
    """Return the contributions of terms and of the top columns to each link above the diagonal.

    ``None`` for a graph that was not solved for: the preset ``literal``, a prior graph that was
    used as it is, and fits with several processes.
    """
    adjacency, shares = nodes.adjacency, nodes.shares
    if shares is None or len(shares.values) != adjacency.nnz:
        return None
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    upper = (adjacency.indices > rows) & (adjacency.data != 0)
    names, values = name_terms(shares.names, shares.values[upper])
    links = extract_links(adjacency)
    columns, parts = find_top_columns(shares, nodes.signals, links.row, links.col)
    return LinkTerms(names, values, tuple(nodes.column_names), columns, parts)


def metric_columns(nodes: FittedNodes) -> tuple[tuple[str, float], ...]:
    """Return the columns with most weight in the learned metric; none if all weights are equal."""
    weights = metric_weights(nodes.shares, len(nodes.column_names))
    if np.ptp(weights) < 1e-9:
        return ()
    first = np.argsort(-weights, kind="stable")[:_MOST_COLUMNS]
    return tuple((nodes.column_names[c], float(weights[c])) for c in first)


def name_terms(
    names: Sequence[str], values: Float[np.ndarray, "e t"]
) -> tuple[tuple[str, ...], Float[np.ndarray, "e k"]]:
    """Return the contributions by the names of terms; penalties are summed.

    Examples
    --------
    >>> name_terms(["smoothness", "row_sums", "loops"], np.array([[3.0, -1.0, -0.5]]))
    (('similarity', 'penalties'), array([[ 3. , -1.5]]))
    """
    renamed = [TERM_NAMES.get(name, OTHER_TERMS) for name in names]
    kept = tuple(dict.fromkeys(renamed))
    sums = [values[:, [name == one for name in renamed]].sum(1) for one in kept]
    return kept, np.stack(sums, 1) if sums else np.zeros((len(values), 0))


def find_top_columns(
    shares: LinkShares, features: Any, first: np.ndarray, second: np.ndarray
) -> tuple[Int[np.ndarray, "e k"], Float[np.ndarray, "e k"]]:
    """Return the columns that contribute most to each link, and their shares of the sum.

    Shares are zero for a link without a contribution of similarity.
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
        found[block], parts[block] = _top_entries(given, n_named)
    return found, parts


def _top_entries(
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
