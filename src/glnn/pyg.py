"""PyTorch Geometric: the learned graph as a transform, so that any of its models can use it."""

from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from glnn._utils import need
from glnn.data.interop import from_pyg, to_pyg
from glnn.data.node_data import upper_pairs
from glnn.estimator import GLNNClassifier

__all__ = ["GLNNTransform", "from_pyg", "to_pyg"]

_BaseTransform: Any = need("torch_geometric.transforms").BaseTransform


class GLNNTransform(_BaseTransform):  # type: ignore[misc]
    """Put the learned graph into a ``torch_geometric.data.Data``.

    The graph is learned from ``x``, the given ``edge_index`` if there is one, and the labels ``y``
    of ``train_mask`` and ``val_mask`` (of all nodes without such masks; -1 marks an unlabelled
    one); labels of all other nodes are never looked at. What comes back is a copy of the data with
    another ``edge_index`` (both directions, no loops) and ``edge_weight``; edge attributes of the
    old edges are removed.

    Parameters
    ----------
    estimator
        How to learn the graph: an unfitted :class:`glnn.GLNNClassifier`, which is cloned for each
        graph. ``None``: the default with ``random_state=0``.
    scale : default True
        Whether weights are divided by their mean. Layers of PyTorch Geometric such as ``GCNConv``
        add loops of weight one, which then count as much as an edge of mean weight.

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
        """Return a copy of the data on the learned graph."""
        learned = clone(self.estimator).fit(data).graph_
        first, second, weights = upper_pairs(learned)
        if self.scale and weights.size:
            weights = weights / weights.mean()
        pairs = torch.from_numpy(np.stack([first, second]).astype(np.int64))
        half = torch.from_numpy(weights.astype(np.float32))
        device = data.x.device
        data.edge_index = torch.cat([pairs, pairs.flip(0)], 1).to(device)
        data.edge_weight = torch.cat([half, half]).to(device)
        data.edge_attr = None
        return data

    def __repr__(self) -> str:
        return f"GLNNTransform({self.estimator!r})"
