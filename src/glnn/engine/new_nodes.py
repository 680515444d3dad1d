"""Classifying nodes that were not there in training, by their links to those that were."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.graph.base import GraphOperator
from glnn.graph.csr import CsrPattern
from glnn.graph.prior import inverse_root, normalized
from glnn.nn.features import Features


class ExtendedGraph(GraphOperator):
    r"""The training graph with new nodes that listen to it but are not heard.

    .. math:: \begin{pmatrix} \hat A & 0 \\ R & \mathrm{diag}(\ell) \end{pmatrix}

    New nodes do not see each other, so the answer for one does not depend on the others.
    """

    def __init__(self, adj_hat: sp.csr_matrix, links: sp.csr_matrix, loops: np.ndarray) -> None:
        whole = sp.bmat([[adj_hat, None], [links, sp.diags(loops)]], format="csr")
        whole.sort_indices()
        offsets = torch.from_numpy(whole.indptr.astype(np.int64))
        columns = torch.from_numpy(whole.indices.astype(np.int64))
        order = torch.arange(whole.nnz)
        self._pattern = CsrPattern.compressed(whole.shape, offsets, columns, order)
        self._values = torch.from_numpy(whole.data.astype(np.float64))

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._pattern.shape[0]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._pattern.matmul(self._values, x)


@dataclass(frozen=True)
class TrainedNetwork:
    """A network with the graph and features it was trained on, ready for new nodes.

    Parameters
    ----------
    module
        The trained network, called with a graph and features.
    adjacency
        The learned graph, symmetric CSR.
    features
        Scaled features of the training nodes.
    """

    module: nn.Module
    adjacency: sp.csr_matrix
    features: Any

    def predict(self, features: Any, links: sp.csr_matrix, loops: np.ndarray) -> np.ndarray:
        r"""Return class probabilities of new nodes.

        Their links are normalised as the training graph is,
        :math:`\hat a_{nj} = a_{nj} / \sqrt{r_n r_j}`. A node without any link has only itself.
        Computed in double precision, so that batches of any size agree.
        """
        degree = np.asarray(self.adjacency.sum(1)).ravel()
        loops = np.asarray(loops, dtype=np.float64).copy()
        new_degree = np.asarray(links.sum(1)).ravel() + loops
        loops[new_degree == 0] = new_degree[new_degree == 0] = 1.0
        left, right = new_degree**-0.5, inverse_root(degree)
        scaled_links = sp.csr_matrix(sp.diags(left) @ links @ sp.diags(right))
        graph = ExtendedGraph(normalized(self.adjacency), scaled_links, loops / new_degree)
        both = (self.features, features)
        stacked = sp.vstack(both, format="csr") if sp.issparse(features) else np.vstack(both)
        module = copy.deepcopy(self.module).cpu().double()
        with torch.no_grad():
            logits = module(graph, Features.of(stacked, dtype=torch.float64))
        new_rows: np.ndarray = logits[-links.shape[0] :].softmax(1).numpy()
        return new_rows
