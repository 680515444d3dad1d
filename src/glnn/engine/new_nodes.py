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
from glnn.graph.random_walk import walk_matrix, with_loops, without_loops
from glnn.nn.features import Features
from glnn.nn.rows import RowNet


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
class NewNodes:
    """New nodes beside a graph and the features that networks were trained on.

    Parameters
    ----------
    graph
        The graph of the training nodes, symmetric CSR.
    known, features
        Scaled features of the training nodes, and of the new ones.
    links, loops
        Links of the new nodes to the training nodes, and to themselves.
    """

    graph: sp.csr_matrix
    known: Any
    features: Any
    links: sp.csr_matrix
    loops: np.ndarray

    def on_graph(self, network: nn.Module) -> np.ndarray:
        r"""Return class probabilities by a network on the normalised graph.

        Links are normalised as the training graph is,
        :math:`\hat a_{nj} = a_{nj} / \sqrt{r_n r_j}`. A node without any link has only itself.
        """
        loops = self.loops.astype(np.float64)
        degree = np.asarray(self.links.sum(1)).ravel() + loops
        loops[degree == 0] = degree[degree == 0] = 1.0
        left, right = degree**-0.5, inverse_root(np.asarray(self.graph.sum(1)).ravel())
        scaled_links = sp.csr_matrix(sp.diags(left) @ self.links @ sp.diags(right))
        whole = ExtendedGraph(normalized(self.graph), scaled_links, loops / degree)
        return self._answer(network, whole)

    def on_rows(self, network: RowNet) -> np.ndarray:
        r"""Return class probabilities by a head that sees the random walk, :math:`a_{nj} / r_n`."""
        if not network.needs_loops:
            walk, loops = walk_matrix(without_loops(self.graph)), np.zeros(self.links.shape[0])
        else:
            walk, loops = walk_matrix(with_loops(self.graph)), np.ones(self.links.shape[0])
        degree = np.asarray(self.links.sum(1)).ravel() + loops
        share = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
        links = sp.csr_matrix(sp.diags(share) @ self.links)
        return self._answer(network, ExtendedGraph(walk, links, loops * share))

    def _answer(self, network: nn.Module, graph: ExtendedGraph) -> np.ndarray:
        """Answer in double precision, so that batches of any size agree."""
        both = (self.known, self.features)
        stacked = sp.vstack(both, format="csr") if sp.issparse(self.known) else np.vstack(both)
        module = copy.deepcopy(network).cpu().double()
        with torch.no_grad():
            logits = module(graph, Features.of(stacked, dtype=torch.float64))
        new_rows: np.ndarray = logits[-self.links.shape[0] :].softmax(1).numpy()
        return new_rows
