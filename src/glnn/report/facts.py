"""What can be said of a learned graph in a few numbers."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True)
class GraphFacts:
    """Counts and shares of an undirected graph; loops are counted apart from edges.

    Parameters
    ----------
    n_nodes, n_edges, n_loops
        Sizes.
    mean_degree
        Mean number of neighbours.
    n_isolated, n_components
        Nodes without an edge, and connected parts.
    equal_labels, n_labelled_edges
        Share of edges that join equal labels, of those whose labels the fit has not seen, and how
        many these are; ``None`` if there are none. The graph is learned from the labels that it
        has seen: of those the share would be high for noise, too.
    equal_by_chance
        The share to be expected if the same ends were joined at random: the sum of the squared
        shares that the classes have of the ends of these edges.
    n_given, n_kept, n_added
        Edges of the given graph, how many of them the learned one has, and how many edges are
        new; ``None`` without a given graph.
    """

    n_nodes: int
    n_edges: int
    n_loops: int
    mean_degree: float
    n_isolated: int
    n_components: int
    equal_labels: float | None
    n_labelled_edges: int
    n_given: int | None = None
    n_kept: int | None = None
    n_added: int | None = None
    equal_by_chance: float | None = None

    @classmethod
    def of(
        cls,
        adjacency: sp.csr_matrix,
        hidden: np.ndarray,
        given: sp.csr_matrix | None = None,
    ) -> "GraphFacts":
        """Count on a symmetric graph; ``hidden`` has classes that the fit has not seen, else -1.

        Examples
        --------
        >>> path = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0.0]]))
        >>> facts = GraphFacts.of(path, np.array([0, 0, -1]))
        >>> facts.n_edges, facts.equal_labels, facts.n_labelled_edges
        (2, 1.0, 1)
        """
        n_nodes = adjacency.shape[0]
        i, j = edges_of(adjacency)
        degree = np.bincount(np.concatenate([i, j]), minlength=n_nodes)
        known = (hidden[i] >= 0) & (hidden[j] >= 0)
        return cls(
            n_nodes=n_nodes,
            n_edges=len(i),
            n_loops=int(np.count_nonzero(adjacency.diagonal())),
            mean_degree=float(degree.mean()),
            n_isolated=int((degree == 0).sum()),
            n_components=int(connected_components(adjacency, directed=False)[0]),
            equal_labels=_share(hidden[i[known]] == hidden[j[known]]),
            n_labelled_edges=int(known.sum()),
            equal_by_chance=_by_chance(np.concatenate([hidden[i[known]], hidden[j[known]]])),
            **_against(adjacency, given),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, ready for JSON."""
        return asdict(self)


def edges_of(adjacency: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ends of every edge, each edge once and loops left out."""
    upper = sp.triu(adjacency, k=1, format="coo")
    stored = upper.data != 0
    return upper.row[stored].astype(np.int64), upper.col[stored].astype(np.int64)


def _share(equal: np.ndarray) -> float | None:
    return float(equal.mean()) if equal.size else None


def _by_chance(ends: np.ndarray) -> float | None:
    """Return how often two of these classes, drawn at random, are equal."""
    return float(np.square(np.bincount(ends) / ends.size).sum()) if ends.size else None


def _against(adjacency: sp.csr_matrix, given: sp.csr_matrix | None) -> dict[str, int | None]:
    if given is None:
        return {"n_given": None, "n_kept": None, "n_added": None}
    n_nodes = adjacency.shape[0]
    learned, old = (i * n_nodes + j for i, j in (edges_of(adjacency), edges_of(given)))
    n_kept = int(np.isin(old, learned).sum())
    return {"n_given": len(old), "n_kept": n_kept, "n_added": len(learned) - n_kept}
