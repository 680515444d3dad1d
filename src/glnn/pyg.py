"""A PyTorch Geometric transform that replaces the graph of a ``Data`` by the learned graph."""

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from glnn._utils import import_optional
from glnn.data.arguments import from_pyg, to_pyg
from glnn.data.node_data import extract_links
from glnn.estimator import GLNNClassifier

__all__ = ["GLNNTransform", "from_pyg", "to_pyg"]

_BaseTransform: Any = import_optional("torch_geometric.transforms").BaseTransform


class GLNNTransform(_BaseTransform):  # type: ignore[misc]
    """Replace the edges of a ``torch_geometric.data.Data`` by the learned graph.

    The graph is learned from ``x``, the given ``edge_index`` if there is one, and the labels ``y``
    of the nodes in ``train_mask`` and ``val_mask``. Without these masks the labels of all nodes are
    used; -1 marks an unlabelled node. Labels of other nodes are not used. The result is a copy of
    the data with a new ``edge_index`` (both directions, no self-loops) and ``edge_weight``;
    ``edge_attr`` is removed.

    Parameters
    ----------
    estimator
        The :class:`glnn.GLNNClassifier` that learns the graph; it is cloned for each graph.
        ``None``: the default classifier with ``random_state=0``.
    scale : bool, default True
        Divide the weights by their mean. Layers such as ``GCNConv`` add self-loops of weight one,
        which then have the same weight as an average edge.

    Examples
    --------
    >>> from torch_geometric.data import Data
    >>> x = torch.tensor([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
    >>> data = Data(x=x, y=torch.tensor([0, -1, 1, -1]))
    >>> learned = GLNNTransform(GLNNClassifier(n_epochs=5, random_state=0))(data)
    >>> learned.edge_index.shape[1] == len(learned.edge_weight), data.edge_index is None
    (True, True)
    """

    def __init__(self, estimator: GLNNClassifier | None = None, *, scale: bool = True) -> None:
        self.estimator = GLNNClassifier(random_state=0) if estimator is None else estimator
        self.scale = scale

    def forward(self, data: Any) -> Any:
        """Return a copy of the data with the learned graph."""
        learned = clone(self.estimator).fit(data).graph_
        links = extract_links(learned)
        weights = links.data
        if self.scale and weights.size:
            weights = weights / weights.mean()
        pairs = torch.from_numpy(np.stack([links.row, links.col]).astype(np.int64))
        half = torch.from_numpy(weights.astype(np.float32))
        device = data.x.device
        data.edge_index = torch.cat([pairs, pairs.flip(0)], 1).to(device)
        data.edge_weight = torch.cat([half, half]).to(device)
        data.edge_attr = None
        return data
