"""Every link of the given and the learned graph, once, and what became of it."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int, UInt8

KEPT, ADDED, DROPPED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Links:
    """Links of either graph, sorted by their ends.

    Parameters
    ----------
    source, target
        Their ends, ``source < target``.
    weight
        Weight in the learned graph; 0 where it was dropped.
    fate
        ``KEPT`` (given and learned), ``ADDED`` (learned alone) or ``DROPPED`` (given alone).
    place
        Number of the link among the learned ones, row by row; -1 where it was dropped.
    """

    source: Int[np.ndarray, "e"]
    target: Int[np.ndarray, "e"]
    weight: Float[np.ndarray, "e"]
    fate: UInt8[np.ndarray, "e"]
    place: Int[np.ndarray, "e"]

    def __len__(self) -> int:
        return len(self.source)

    def pick(self, chosen: np.ndarray) -> "Links":
        """Return some of the links, by mask or numbers."""
        return Links(*(part[chosen] for part in vars(self).values()))


def links_of(learned: sp.csr_matrix, given: sp.csr_matrix | None) -> Links:
    """Return the union of both graphs; loops are left out.

    Examples
    --------
    >>> path = sp.csr_matrix(np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]]))
    >>> other = sp.csr_matrix(np.array([[0, 0, 1.0], [0, 0, 0], [1.0, 0, 0]]))
    >>> links = links_of(path, other)
    >>> links.fate.tolist(), links.weight.tolist(), links.place.tolist()
    ([1, 2], [0.5, 0.0], [0, -1])
    """
    n_nodes = learned.shape[0]
    weights = upper_links(learned)
    learned_keys = weights.row.astype(np.int64) * n_nodes + weights.col
    given_keys = np.empty(0, np.int64)
    if given is not None:
        old = upper_links(given)
        given_keys = old.row.astype(np.int64) * n_nodes + old.col
    keys = np.union1d(learned_keys, given_keys)
    place = np.full(len(keys), -1, np.int64)
    place[np.searchsorted(keys, learned_keys)] = np.arange(len(learned_keys))
    is_learned, is_given = place >= 0, np.isin(keys, given_keys)
    fate = np.where(is_learned, np.where(is_given, KEPT, ADDED), DROPPED).astype(np.uint8)
    weight = np.zeros(len(keys))
    weight[is_learned] = weights.data[place[is_learned]]
    return Links(keys // n_nodes, keys % n_nodes, weight, fate, place)


def upper_links(graph: sp.csr_matrix) -> sp.coo_matrix:
    """Return the links above the diagonal, row by row, stored zeros left out."""
    sorted_graph = sp.csr_matrix(sp.triu(graph, k=1, format="csr"), dtype=np.float64)
    sorted_graph.sum_duplicates()
    sorted_graph.eliminate_zeros()
    return sorted_graph.tocoo()
