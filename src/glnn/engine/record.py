"""What a fit was told and why it linked what it linked: kept for explanations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from glnn.engine.labels import UNLABELLED
from glnn.engine.problem import FitProblem
from glnn.solver.shares import LinkShares
from glnn.solver.signals import FeatureSignal

_NAME = "record"


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
        Which term made which link; ``None`` where that is not known: the preset ``literal``, and
        fits over several processes.
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
        arrays = {f"{_NAME}.labels": self.labels, f"{_NAME}.trains": self.trains}
        shares = self.shares
        if shares is None:
            return arrays, None
        parts = {
            "values": shares.values,
            "metric": shares.metric,
            "scale": shares.transform.scale,
            "shift": shares.transform.shift,
        }
        arrays |= {f"{_NAME}.{name}": part for name, part in parts.items() if part is not None}
        facts = {"kind": shares.transform.kind, "n_features": shares.transform.n_features}
        return arrays, {"names": list(shares.names)} | facts

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray], facts: dict[str, Any] | None) -> "FitRecord":
        """Return the record that :meth:`packed` took apart."""
        labels, trains = arrays[f"{_NAME}.labels"], arrays[f"{_NAME}.trains"]
        if facts is None:
            return cls(labels, trains, None)
        scale, shift = (arrays.get(f"{_NAME}.{name}") for name in ("scale", "shift"))
        transform = FeatureSignal(facts["kind"], facts["n_features"], scale, shift)
        values, metric = arrays[f"{_NAME}.values"], arrays.get(f"{_NAME}.metric")
        return cls(labels, trains, LinkShares(tuple(facts["names"]), values, transform, metric))
