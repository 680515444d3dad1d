r"""What a term adds to the one-row problem: edges of a new node to a graph that stays as it is.

For a new node with edges :math:`a_j` and a loop :math:`a_0`, the objective of the enlarged
matrix changes by

.. math:: \sum_j (e\,a_j^2 - 2 n_j a_j) + \ell a_0^2 - 2 n_0 a_0
          + \sum_m \kappa_m (v_m \cdot a + v_{m0} a_0 - s_m)^2 ,

in which an edge counts twice and a loop once. Shares of terms add up.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Coupling:
    r"""A penalty :math:`\kappa (v \cdot a + v_0 a_0 - s)^2` that ties the links of a new node.

    ``edges`` is the vector :math:`v`; its one entry stands for all nodes where it has only one.
    """

    weight: float
    edges: Tensor
    loop: float
    target: float


@dataclass(frozen=True, eq=False)
class RowShare:
    r"""A term's part of the one-row problem; each of its fields is a sum over terms.

    Parameters
    ----------
    edge_curvature, loop_curvature
        :math:`e` and :math:`\ell`.
    edges
        Numerators :math:`n_j` that do not depend on the new node: one for all, or one a node.
    loop
        The same for :math:`n_0`.
    prior
        What a unit of the prior graph's row adds to :math:`n_j`, and half of it to :math:`n_0`.
    metrics
        Similarities :math:`s^\top M s_j` that are added to :math:`n_j`, and half of
        :math:`s^\top M s` to :math:`n_0`: each a number, one weight a channel, or a matrix.
    couplings
        Penalties that tie the links.
    """

    edge_curvature: float | int = 0.0
    loop_curvature: float | int = 0.0
    edges: Tensor | None = None
    loop: float | int = 0.0
    prior: float | int = 0.0
    metrics: tuple[Tensor, ...] = ()
    couplings: tuple[Coupling, ...] = ()

    def __add__(self, other: "RowShare") -> "RowShare":
        both = [part for part in (self.edges, other.edges) if part is not None]
        return RowShare(
            self.edge_curvature + other.edge_curvature,
            self.loop_curvature + other.loop_curvature,
            both[0] + both[-1] if len(both) == 2 else next(iter(both), None),
            self.loop + other.loop,
            self.prior + other.prior,
            self.metrics + other.metrics,
            self.couplings + other.couplings,
        )

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays by name, and the plain numbers, to be written to a file."""
        arrays = {f"metric.{k}": metric.numpy() for k, metric in enumerate(self.metrics)}
        arrays |= {f"coupling.{k}": c.edges.numpy() for k, c in enumerate(self.couplings)}
        if self.edges is not None:
            arrays["edges"] = self.edges.numpy()
        numbers = ("edge_curvature", "loop_curvature", "loop", "prior")
        facts: dict[str, Any] = {name: float(getattr(self, name)) for name in numbers}
        facts["n_metrics"] = len(self.metrics)
        facts["couplings"] = [[c.weight, c.loop, c.target] for c in self.couplings]
        return arrays, facts

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> "RowShare":
        """Return what :meth:`packed` took apart."""
        given = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        numbers = ("edge_curvature", "loop_curvature", "loop", "prior")
        return cls(
            **{name: facts[name] for name in numbers},
            edges=given.get("edges"),
            metrics=tuple(given[f"metric.{k}"] for k in range(facts["n_metrics"])),
            couplings=tuple(
                Coupling(weight, given[f"coupling.{k}"], loop, target)
                for k, (weight, loop, target) in enumerate(facts["couplings"])
            ),
        )

    def cpu(self) -> "RowShare":
        """Return the same on the host, where new nodes are connected."""
        return dataclasses.replace(
            self,
            edges=None if self.edges is None else self.edges.cpu(),
            metrics=tuple(metric.cpu() for metric in self.metrics),
            couplings=tuple(
                dataclasses.replace(coupling, edges=coupling.edges.cpu())
                for coupling in self.couplings
            ),
        )


def number(value: float | int) -> Tensor:
    """Return a number as a vector of one entry, in double precision."""
    return torch.tensor([float(value)], dtype=torch.float64)
