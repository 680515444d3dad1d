r"""Which term of the objective made a link: the numerator of the optimum, term by term.

At the optimum every link of a learned graph satisfies

.. math:: 2\gamma\, a_{ij} = \sum_m \bigl(B_m - T_m^*(y_m)\bigr)_{ij}, \qquad
          y_m = 2 w_m (T_m(A) - \tau_m),

the sum over the terms: what each adds to the matrix :math:`B`, and what it takes away as a
penalty. Divided by :math:`2\gamma` these are shares of the weight.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.pairs import Implicit, Pairs, PairValues
from glnn.graph.rows import DenseRows, RowMatrix, row_matrix
from glnn.objective import Term
from glnn.solver.learn import LearnedGraph
from glnn.solver.problem import Dual
from glnn.solver.signals import FeatureSignal

PREDICTIONS = "predictions"
"""The share of similarity that predictions among the signals have."""


@dataclass(frozen=True, eq=False)
class LinkShares:
    r"""What each term gives to every link, and what similarity is made of.

    Parameters
    ----------
    names
        The terms, ``predictions`` apart from the term whose signals they joined.
    values
        Stored entries of the graph's CSR matrix x terms; each row sums to the entry.
    transform
        How features became the signals :math:`s_i`.
    metric
        Similarity of features is :math:`s_i^\top M s_j`, as a share of a link: a number, a weight
        for each column, or a matrix; ``None`` if no term compares signals.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "e t"]
    transform: FeatureSignal
    metric: np.ndarray | None

    def column_shares(
        self, first: Float[np.ndarray, "f"], second: Float[np.ndarray, "k f"]
    ) -> Float[np.ndarray, "k f"]:
        r"""Return what each feature column gives to the links of one node with others.

        .. math:: \tfrac12\bigl(s_{ic} (M s_j)_c + s_{jc} (M s_i)_c\bigr)

        Parameters
        ----------
        first, second
            Features of the node, and of the nodes at the other ends.
        """
        rows = self.transform.transform(np.vstack([first[None], second]))
        if self.metric is None:
            return np.zeros_like(rows[1:])
        if self.metric.ndim < 2:
            return np.asarray(rows[1:] * (rows[0] * self.metric))
        turned = rows @ self.metric
        return np.asarray((rows[0] * turned[1:] + rows[1:] * turned[0]) / 2)


def link_shares(learned: LearnedGraph) -> LinkShares:
    """Return which term made which link of a graph that one process has learned."""
    problem, transform = learned.problem, learned.new_rows.transform
    known = PairValues.of_rows(problem.partition, learned.adjacency, problem.device)
    pairs, scale = known.pairs, 2 * problem.curvature
    dual = problem.dual_of(problem.images(pairs, known.values))
    signal = row_matrix(learned.new_rows.signal, device=problem.device)
    by_features = torch.arange(signal.n_columns, device=signal.device) < transform.n_features
    parts: dict[str, Tensor] = {}
    metrics: list[np.ndarray] = []
    for term in problem.terms:
        parts[term.name] = _numerator(term, dual, pairs) / scale
        for metric in term.new_row(dual.get(term.name)).metrics:
            metrics.append(_of_features(metric / scale, transform.n_features))
            if not by_features.all():
                rest = _beyond(signal, metric, by_features, pairs) / scale
                parts[PREDICTIONS] = parts.get(PREDICTIONS, torch.zeros_like(rest)) + rest
                parts[term.name] = parts[term.name] - rest
    said = {name: part for name, part in parts.items() if part.any()}
    values = torch.stack([*said.values()], 1) if said else known.values.new_zeros(len(pairs), 0)
    entries = values[pairs.pattern.source].cpu().numpy()
    return LinkShares(tuple(said), entries, transform, _total(metrics))


def _numerator(term: Term, dual: Dual, pairs: Pairs) -> Tensor:
    r"""Return :math:`B_m - T_m^*(y_m)` on the pairs."""
    linear, penalty = term.linear(), term.penalty()
    total = Implicit() if linear is None else linear
    if penalty is not None:
        total = total + penalty.adjoint(-dual[term.name])
    return total.on_pairs(pairs)


def _beyond(signal: RowMatrix, metric: Tensor, features: Tensor, pairs: Pairs) -> Tensor:
    r"""Return the part of :math:`s_i^\top M s_j` in which some column is no feature."""
    rest = ~features
    if metric.ndim < 2:
        return signal.scaled(rest * metric).dots(signal, pairs.i, pairs.j)
    turned = DenseRows(signal.times(metric * (rest[:, None] | rest)))
    return turned.dots(signal, pairs.i, pairs.j)


def _of_features(metric: Tensor, n_features: int) -> np.ndarray:
    """Return the part of a metric that compares features; a number stays one."""
    return metric[(slice(n_features),) * metric.ndim].cpu().numpy()


def _total(metrics: list[np.ndarray]) -> np.ndarray | None:
    """Return the sum of metrics; a number or a weight for each column adds to the diagonal."""
    if not metrics:
        return None
    most = max(metric.ndim for metric in metrics)
    width = next((metric.shape[0] for metric in metrics if metric.ndim), 1)
    if most == 2:
        metrics = [m if m.ndim == 2 else np.diag(np.broadcast_to(m, (width,))) for m in metrics]
    return np.asarray(sum(metrics[1:], start=metrics[0]))
