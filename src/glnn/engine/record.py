"""What a fit was told and why it linked what it linked: kept for explanations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from glnn.engine.labels import UNLABELLED
from glnn.engine.problem import FitProblem
from glnn.solver.shares import LinkShares
from glnn.solver.signals import FeatureSignal

RECORD = "record."
"""How the names of its arrays begin."""


@dataclass(frozen=True, eq=False)
class FitRecord:
    """The labels of a fit, and which term made which link.

    Parameters
    ----------
    labels
        Number of the class of every node whose label was given, -1 elsewhere.
    trains
        Which of them trained the network; the others chose its epoch.
    shares
        Which term made which link; ``None`` where that is not known: the preset ``literal``,
        fits over several processes, and finished ones that were read from a checkpoint.
    """

    labels: Int[np.ndarray, "n"]
    trains: Bool[np.ndarray, "n"]
    shares: LinkShares | None

    @classmethod
    def of(cls, problem: FitProblem, shares: LinkShares | None) -> "FitRecord":
        """Keep the labels of all nodes."""
        known, validation = problem.labels, problem.validation
        labels = np.full(known.n_nodes, UNLABELLED, dtype=np.int64)
        trains = np.zeros(known.n_nodes, dtype=bool)
        labels[known.nodes.cpu().numpy()] = known.classes.cpu().numpy()
        trains[known.nodes.cpu().numpy()] = True
        if validation is not None:
            labels[validation.nodes.cpu().numpy()] = validation.labels.cpu().numpy()
        return cls(labels, trains, shares)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
        """Return the arrays by name, and the plain facts about the shares."""
        arrays = {f"{RECORD}labels": self.labels, f"{RECORD}trains": self.trains}
        shares = self.shares
        if shares is None:
            return arrays, None
        parts = {
            "values": shares.values,
            "metric": shares.metric,
            "scale": shares.transform.scale,
            "shift": shares.transform.shift,
        }
        arrays |= {f"{RECORD}{name}": part for name, part in parts.items() if part is not None}
        facts = {"kind": shares.transform.kind, "n_features": shares.transform.n_features}
        return arrays, {"names": list(shares.names)} | facts

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray], facts: dict[str, Any] | None) -> "FitRecord":
        """Return the record that :meth:`packed` took apart; other arrays are left alone."""
        labels, trains = arrays[f"{RECORD}labels"], arrays[f"{RECORD}trains"]
        if facts is None:
            return cls(labels, trains, None)
        scale, shift = (arrays.get(f"{RECORD}{name}") for name in ("scale", "shift"))
        transform = FeatureSignal(facts["kind"], facts["n_features"], scale, shift)
        values, metric = arrays[f"{RECORD}values"], arrays.get(f"{RECORD}metric")
        return cls(labels, trains, LinkShares(tuple(facts["names"]), values, transform, metric))
