r"""The gradient of the classification loss with respect to every entry of the graph.

A network touches its graph only through products :math:`Z_l = \hat A H_l`, so

.. math:: \frac{\partial L}{\partial \hat a_{ij}} = \sum_l \Gamma_l[i] \cdot H_l[j],
          \qquad \Gamma_l = \frac{\partial L}{\partial Z_l},

which is a low-rank matrix: two thin factors hold the gradient at all pairs, stored or not.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.engine.classifier import ClassifierTask
from glnn.graph.base import GraphOperator
from glnn.nn.losses import cross_entropy


class RecordedGraph(GraphOperator):
    """A graph that remembers what it was multiplied with, and the gradients of the products."""

    def __init__(self, graph: GraphOperator) -> None:
        self._graph = graph
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._graph.n_nodes

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        out = self._graph @ x
        out.retain_grad()
        self.inputs.append(x.detach())
        self.outputs.append(out)
        return out


def task_factors(task: ClassifierTask) -> tuple[np.ndarray, np.ndarray]:
    r"""Return :math:`U, V` with :math:`\partial L/\partial a_{ij} = \frac12(u_i v_j + u_j v_i)`.

    :math:`L` is the paper's cross-entropy, summed over the labelled nodes, without dropout, and
    :math:`a` the graph before its normalisation :math:`\hat a_{ij} = a_{ij} s_i s_j`,
    :math:`s = r^{-1/2}`. With :math:`E` the gradient at :math:`\hat A`, the chain rule gives

    .. math:: \tfrac12 s_i s_j (E_{ij} + E_{ji}) + \tfrac12 (\delta_i + \delta_j), \qquad
              \delta_i = -\tfrac{1}{2 r_i} \textstyle\sum_j (E_{ij} + E_{ji}) \hat a_{ij}.
    """
    recorded = RecordedGraph(task.adj_hat)
    logits: Tensor = task.module(recorded, task.features)
    nodes, classes = task.labels.nodes, task.labels.classes
    weights = task.labels.weights
    loss = cross_entropy(logits[None], nodes, classes, weights=weights) * len(nodes)
    task.module.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    task.module.zero_grad(set_to_none=True)
    grads = [torch.zeros_like(o) if o.grad is None else o.grad for o in recorded.outputs]
    gamma, inputs = torch.cat(grads, 1), torch.cat(recorded.inputs, 1)

    degree = task.adjacency.row_sums()
    scale = torch.where(degree > 0, degree.clamp_min(1e-12).rsqrt(), 0.0)
    # sum_j E_ij a_ij = gamma_i . (A H)_i, and its mirror h_i . (A gamma)_i
    through = (gamma * (task.adj_hat @ inputs)).sum(1) + (inputs * (task.adj_hat @ gamma)).sum(1)
    delta = -0.5 * through * scale.square()
    ones = torch.ones_like(delta)
    left = torch.cat([scale[:, None] * gamma, delta[:, None]], 1)
    right = torch.cat([scale[:, None] * inputs, ones[:, None]], 1)
    return left.double().cpu().numpy(), right.double().cpu().numpy()
