"""Storage, normalisation and conversion of graphs."""

from glnn.graph.adjacency import DenseAdjacency
from glnn.graph.convert import as_adjacency
from glnn.graph.pairs import Adjacency, SparseAdjacency
from glnn.graph.prior import PRIORS, prior_graph

__all__ = [
    "PRIORS",
    "Adjacency",
    "DenseAdjacency",
    "SparseAdjacency",
    "as_adjacency",
    "prior_graph",
]
