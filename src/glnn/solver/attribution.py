r"""Attribution of learned links to the terms of the objective.

At the optimum every link of a learned graph satisfies

.. math:: 2\gamma\, a_{ij} = \sum_m \bigl(B_m - T_m^*(y_m)\bigr)_{ij}, \qquad
          y_m = 2 w_m (T_m(A) - \tau_m),

a sum over the terms :math:`m`: their parts of the matrix :math:`B` minus the effects of their
penalties. Divided by :math:`2\gamma`, each summand is a term's share of the link's weight.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.pairs import Pairs, SparseAdjacency
from glnn.graph.rows import DenseRows, RowMatrix
from glnn.objective import QuadraticTerm
from glnn.solver.learn import LearnedGraph
from glnn.solver.signals import FeatureSignal

PREDICTIONS = "predictions"  # name of the share that predictions among the signals have


@dataclass(frozen=True, eq=False)
class LinkShares:
    r"""Shares of the terms in every link.

    Similarity of features contributes :math:`s_i^\top M s_j` to a link.
    """

    names: tuple[str, ...]  # the terms; predictions are listed separately
    values: Float[np.ndarray, "e t"]  # stored entries of the CSR matrix x terms; rows sum to them
    transform: FeatureSignal  # turns features into the signals s_i
    metric: np.ndarray | None  # M: number, column weights or matrix; None: no similarity term

    def column_shares(
        self, first: Float[np.ndarray, "f"], second: Float[np.ndarray, "k f"]
    ) -> Float[np.ndarray, "k f"]:
        r"""Return the shares of the feature columns in the links of one node.

        .. math:: \tfrac12\bigl(s_{ic} (M s_j)_c + s_{jc} (M s_i)_c\bigr)

        ``first`` holds the features of the node, ``second`` those of the nodes at the other ends.
        """
        rows = self.transform.transform(np.vstack([first[None], second]))
        if self.metric is None:
            return np.zeros_like(rows[1:])
        if self.metric.ndim < 2:
            return np.asarray(rows[1:] * (rows[0] * self.metric))
        turned = rows @ self.metric
        return np.asarray((rows[0] * turned[1:] + rows[1:] * turned[0]) / 2)


def link_shares(learned: LearnedGraph) -> LinkShares:
    """Return the shares of the terms in every link of a graph learned by one process."""
    problem, transform = learned.problem, learned.new_rows.transform
    layout, signal = problem.signal.layout, problem.signal.local
    known = SparseAdjacency.from_rows(layout, learned.adjacency, signal.device)
    pairs, scale = known.pairs, 2 * problem.curvature
    dual = problem.split_dual(problem.dual_of(problem.images(pairs, known.values)))
    by_features = torch.arange(signal.n_columns, device=signal.device) < transform.n_features
    parts: dict[str, Tensor] = {}
    metrics: list[np.ndarray] = []
    for term in problem.terms:
        numerator = term.linear()
        if isinstance(term, QuadraticTerm):
            numerator = numerator + term.adjoint(-dual[term.name])
        parts[term.name] = numerator.on_pairs(pairs) / scale
        for metric in term.new_row(dual[term.name]).metrics:
            features_only = (slice(transform.n_features),) * metric.ndim
            metrics.append((metric / scale)[features_only].cpu().numpy())
            if not by_features.all():
                rest = _prediction_part(signal, metric, by_features, pairs) / scale
                parts[PREDICTIONS] = parts.get(PREDICTIONS, torch.zeros_like(rest)) + rest
                parts[term.name] = parts[term.name] - rest
    nonzero = {name: part for name, part in parts.items() if part.any()}
    none = known.values.new_zeros(len(pairs), 0)
    values = torch.cat([none, *(part[:, None] for part in nonzero.values())], 1)
    entries = values[pairs.pattern.values].cpu().numpy()
    return LinkShares(tuple(nonzero), entries, transform, _sum_metrics(metrics))


def _prediction_part(signal: RowMatrix, metric: Tensor, features: Tensor, pairs: Pairs) -> Tensor:
    r"""Return the part of :math:`s_i^\top M s_j` that involves a prediction column."""
    rest = ~features
    if metric.ndim < 2:
        return signal.scale_columns(rest * metric).pair_dots(signal, pairs.i, pairs.j)
    turned = DenseRows(signal.matmul(metric * (rest[:, None] | rest)))
    return turned.pair_dots(signal, pairs.i, pairs.j)


def _sum_metrics(metrics: list[np.ndarray]) -> np.ndarray | None:
    """Return the sum of metrics; numbers and column weights are added to the diagonal."""
    if not metrics:
        return None
    widest = max(metrics, key=lambda metric: metric.ndim)
    if widest.ndim == 2:
        full = (len(widest),)
        metrics = [m if m.ndim == 2 else np.diag(np.broadcast_to(m, full)) for m in metrics]
    return np.asarray(sum(metrics[1:], start=metrics[0]))
