"""Networks and their training losses."""

from glnn.nn.features import Features
from glnn.nn.gcn import GCN, GraphConvolution, GraphLearningLayer
from glnn.nn.propagation import PropagationNet

__all__ = ["GCN", "Features", "GraphConvolution", "GraphLearningLayer", "PropagationNet"]
