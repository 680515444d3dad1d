"""How a graph is stored, normalised and converted; no learning, no loss."""

from glnn.graph.base import Adjacency, GraphOperator
from glnn.graph.convert import as_adjacency
from glnn.graph.dense import DenseAdjacency
from glnn.graph.prior import PRIORS, prior_graph
from glnn.graph.sparse import SparseAdjacency

__all__ = [
    "PRIORS",
    "Adjacency",
    "DenseAdjacency",
    "GraphOperator",
    "SparseAdjacency",
    "as_adjacency",
    "prior_graph",
]
