"""Links of the given and the learned graph: fates, statistics, and the terms behind each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int, UInt8
from scipy.sparse.csgraph import connected_components

from glnn.data.node_data import extract_links
from glnn.quality.explain import FittedNodes, metric_weights
from glnn.solver.attribution import LinkShares

KEPT, ADDED, DROPPED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Links:
    """The links of both graphs, sorted by their end nodes.

    ``fate`` is ``KEPT`` (in both graphs), ``ADDED`` (only learned) or ``DROPPED`` (only given).
    """

    source: Int[np.ndarray, "e"]  # smaller end node
    target: Int[np.ndarray, "e"]  # larger end node
    weight: Float[np.ndarray, "e"]  # in the learned graph, 0 if dropped
    fate: UInt8[np.ndarray, "e"]

    def __len__(self) -> int:
        return len(self.source)

    def pick(self, chosen: np.ndarray) -> "Links":
        """Return the links chosen by a mask or by their numbers."""
        return Links(*(part[chosen] for part in vars(self).values()))

    def count_fates(self) -> tuple[int, ...]:
        """Return how many links were kept, added and dropped."""
        return tuple(np.bincount(self.fate, minlength=3).tolist())


def merge_links(learned: sp.csr_matrix, given: sp.csr_matrix | None) -> Links:
    """Return the union of the links of both graphs, without loops.

    Examples
    --------
    >>> path = sp.csr_matrix(np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]]))
    >>> other = sp.csr_matrix(np.array([[0, 0, 1.0], [0, 0, 0], [1.0, 0, 0]]))
    >>> links = merge_links(path, other)
    >>> links.fate.tolist(), links.weight.tolist()
    ([1, 2], [0.5, 0.0])
    """
    weights = sp.csr_matrix(extract_links(learned))
    marks = (weights != 0).astype(np.uint8)  # 1 for a learned link, plus 2 for a given one
    if given is not None:
        marks = marks + 2 * (sp.csr_matrix(extract_links(given)) != 0).astype(np.uint8)
    source, target = (ends.astype(np.int64) for ends in marks.nonzero())
    fate = np.array([0, ADDED, DROPPED, KEPT], np.uint8)[marks.data]
    weight = np.zeros(len(fate))
    weight[fate != DROPPED] = weights.data  # both are sorted by row and column
    return Links(source, target, weight, fate)


@dataclass(frozen=True)
class GraphFacts:
    """Statistics of an undirected graph.

    Equal labels are counted on edges between test nodes only: the graph is learned from the other
    labels, so that among those the share would be high for noise, too.
    """

    n_nodes: int
    n_edges: int  # without loops
    n_loops: int
    mean_degree: float
    n_isolated: int  # nodes without an edge
    n_components: int
    equal_labels: float | None  # share of edges between test nodes that join equal labels
    n_labelled_edges: int  # edges between test nodes
    equal_given: float | None = None  # the same share of the given graph
    equal_by_chance: float | None = None  # expected equal_labels if the ends were paired at random
    n_given: int | None = None  # edges of the given graph; None without one
    n_kept: int | None = None  # given edges that the learned graph has
    n_added: int | None = None  # learned edges that were not given

    @classmethod
    def of(
        cls, adjacency: sp.csr_matrix, hidden: np.ndarray, given: sp.csr_matrix | None = None
    ) -> "GraphFacts":
        """Compute the statistics; ``hidden`` has the classes of test nodes, and -1 elsewhere.

        Examples
        --------
        >>> path = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0.0]]))
        >>> facts = GraphFacts.of(path, np.array([0, 0, -1]))
        >>> facts.n_edges, facts.equal_labels, facts.n_labelled_edges
        (2, 1.0, 1)
        """
        n_nodes, links = adjacency.shape[0], merge_links(adjacency, given)
        n_kept, n_added, n_dropped = links.count_fates()
        source, target = hidden[links.source], hidden[links.target]
        is_known, is_learned = (source >= 0) & (target >= 0), links.fate != DROPPED
        counted = is_known & is_learned
        sizes = np.bincount(np.concatenate([source[counted], target[counted]]))

        def share_equal(chosen: np.ndarray) -> float | None:
            return float((source == target)[chosen].mean()) if chosen.any() else None

        has_given = given is not None
        return cls(
            n_nodes=n_nodes,
            n_edges=n_kept + n_added,
            n_loops=int(np.count_nonzero(adjacency.diagonal())),
            mean_degree=2 * (n_kept + n_added) / n_nodes,
            n_isolated=n_nodes
            - np.union1d(links.source[is_learned], links.target[is_learned]).size,
            n_components=int(connected_components(adjacency, directed=False)[0]),
            equal_labels=share_equal(counted),
            equal_given=share_equal(is_known & (links.fate != ADDED)),
            n_labelled_edges=int(counted.sum()),
            equal_by_chance=float(np.square(sizes / sizes.sum()).sum()) if sizes.size else None,
            n_given=n_kept + n_dropped if has_given else None,
            n_kept=n_kept if has_given else None,
            n_added=n_added if has_given else None,
        )


# Terms of the objective behind each link

TERM_NAMES = {
    "closeness": "given graph",
    "smoothness": "similarity",
    "predictions": "predictions",
    "task": "task",
    "proximal": "earlier graph",
}
OTHER_TERMS = "penalties"  # the sum of all other terms
N_NAMED = 2  # columns named for each link

_BLOCK = 20_000
_MOST_COLUMNS = 15


@dataclass(frozen=True, eq=False)
class LinkTerms:
    """The contribution of each term of the objective to each link above the diagonal, row by row.

    The shares of a link sum to its weight. ``columns`` holds, for each link, the numbers of the
    feature columns that contribute most to its similarity, ``column_shares`` their shares of it.
    """

    names: tuple[str, ...]  # of the terms
    shares: Float[np.ndarray, "e t"]
    column_names: tuple[str, ...]
    columns: Int[np.ndarray, "e k"]
    column_shares: Float[np.ndarray, "e k"]


def link_terms(nodes: FittedNodes) -> LinkTerms | None:
    """Return the contributions of terms and of the top columns to each link.

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
    """Return the contributions by the names of terms; penalties are summed and come last."""
    renamed = [TERM_NAMES.get(name, OTHER_TERMS) for name in names]
    kept = sorted(dict.fromkeys(renamed), key=lambda name: name == OTHER_TERMS)
    sums = [values[:, [name == one for name in renamed]].sum(1) for one in kept]
    return tuple(kept), np.stack(sums, 1) if sums else np.zeros((len(values), 0))


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
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)  # in its row, the largest first
    totals = np.bincount(rows, values, minlength=given.shape[0])
    found = np.zeros((given.shape[0], n_named), np.int64)
    parts = np.zeros((given.shape[0], n_named))
    top = place < n_named
    found[rows[top], place[top]] = columns[top]
    parts[rows[top], place[top]] = values[top] / totals[rows[top]]
    return found, parts
