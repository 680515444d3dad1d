"""Links of the given and the learned graph: fates, statistics, and the terms behind each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int, UInt8
from scipy.sparse.csgraph import connected_components

from glnn.data.node_data import extract_links, unique_codes
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
    n_nodes = learned.shape[0]
    weights = extract_links(learned)
    learned_keys = weights.row.astype(np.int64) * n_nodes + weights.col
    given_keys = np.empty(0, np.int64)
    if given is not None:
        old = extract_links(given)
        given_keys = old.row.astype(np.int64) * n_nodes + old.col
    keys = unique_codes(np.concatenate([learned_keys, given_keys]))
    learned_at, given_at = keys.searchsorted(learned_keys), keys.searchsorted(given_keys)
    fate, weight = np.full(len(keys), DROPPED, np.uint8), np.zeros(len(keys))
    fate[learned_at], weight[learned_at] = ADDED, weights.data
    fate[given_at[fate[given_at] == ADDED]] = KEPT
    return Links(keys // n_nodes, keys % n_nodes, weight, fate)


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
        in_given = _ends_of_known(links.pick(links.fate != ADDED), hidden)
        links = links.pick(links.fate != DROPPED)
        degree = np.bincount(np.concatenate([links.source, links.target]), minlength=n_nodes)
        ends = _ends_of_known(links, hidden)
        counts = np.bincount(ends.ravel())
        of_given = {"n_given": n_kept + n_dropped, "n_kept": n_kept, "n_added": n_added}
        return cls(
            n_nodes=n_nodes,
            n_edges=len(links),
            n_loops=int(np.count_nonzero(adjacency.diagonal())),
            mean_degree=float(degree.mean()),
            n_isolated=int((degree == 0).sum()),
            n_components=int(connected_components(adjacency, directed=False)[0]),
            equal_labels=float((ends[0] == ends[1]).mean()) if ends.size else None,
            equal_given=float((in_given[0] == in_given[1]).mean()) if in_given.size else None,
            n_labelled_edges=ends.shape[1],
            equal_by_chance=float(np.square(counts / ends.size).sum()) if ends.size else None,
            **({} if given is None else of_given),
        )


def _ends_of_known(links: Links, classes: np.ndarray) -> np.ndarray:
    """Return the classes of both ends of the links whose ends are both known."""
    ends = np.stack([classes[links.source], classes[links.target]])
    return np.asarray(ends[:, (ends >= 0).all(0)])


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
