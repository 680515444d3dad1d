"""What a fit is given."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

from glnn.distributed import ALONE, Partition, Peers
from glnn.engine.inputs import UNLABELLED
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation
from glnn.solver.attribution import LinkShares, link_shares
from glnn.solver.learn import LearnedGraph
from glnn.solver.signals import FeatureSignal

# --- problem: What a fit is given


@dataclass(frozen=True)
class FitProblem:
    """What a fit is given: features of all nodes, a few labels, perhaps a graph.

    Parameters
    ----------
    features
        Dense array or CSR matrix, one row a node; of several processes each has its rows.
    labels
        Class numbers of all training nodes.
    graph
        Checked symmetric adjacency matrix, the same rows of it, or ``None``.
    validation
        All labelled nodes that choose epoch, head and signal, or ``None``.
    peers
        The processes that have the other rows.
    """

    features: Any
    labels: Labels
    graph: sp.csr_matrix | None = None
    validation: Validation | None = None
    peers: Peers = field(default=ALONE)

    @property
    def partition(self) -> Partition:
        """Which rows are here."""
        return Partition(self.labels.n_nodes, self.peers)


# --- record: What a fit was told and why it linked what it linked: kept for explanations

RECORD = "record."
"""How the names of its arrays begin."""


class FitRecord:
    """The labels of a fit, and which term made which link.

    Parameters
    ----------
    labels
        Number of the class of every node whose label was given, -1 elsewhere.
    trains
        Which of them trained the network; the others chose its epoch.
    made_by
        The solved graph problem, or which term made which link of it. ``None`` where neither is
        known: the preset ``literal`` and fits over several processes.
    """

    def __init__(
        self,
        labels: Int[np.ndarray, "n"],
        trains: Bool[np.ndarray, "n"],
        made_by: LearnedGraph | LinkShares | None,
    ) -> None:
        self.labels, self.trains, self._made_by = labels, trains, made_by

    @property
    def trains_all(self) -> bool:
        """Whether every label trained, so that there are no validation nodes."""
        return bool(self.trains[self.labels != UNLABELLED].all())

    @property
    def shares(self) -> LinkShares | None:
        """Which term made which link; found when it is first asked for, which few fits are."""
        if isinstance(self._made_by, LearnedGraph):
            self._made_by = link_shares(self._made_by)
        return self._made_by

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: the shares, but not the problem they come from."""
        return vars(self) | {"_made_by": self.shares}

    @classmethod
    def of(cls, problem: FitProblem, made_by: LearnedGraph | LinkShares | None) -> "FitRecord":
        """Keep the labels of all nodes."""
        known, validation = problem.labels, problem.validation
        labels = np.full(known.n_nodes, UNLABELLED, dtype=np.int64)
        trains = np.zeros(known.n_nodes, dtype=bool)
        labels[known.nodes.cpu().numpy()] = known.classes.cpu().numpy()
        trains[known.nodes.cpu().numpy()] = True
        if validation is not None:
            labels[validation.nodes.cpu().numpy()] = validation.labels.cpu().numpy()
        return cls(labels, trains, made_by)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
        """Return the arrays by name, and the plain facts about the shares."""
        arrays = {f"{RECORD}labels": self.labels, f"{RECORD}trains": self.trains}
        return arrays, pack_shares(self.shares, arrays)

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray], facts: dict[str, Any] | None) -> "FitRecord":
        """Return the record that :meth:`packed` took apart; other arrays are left alone."""
        labels, trains = arrays[f"{RECORD}labels"], arrays[f"{RECORD}trains"]
        return cls(labels, trains, unpack_shares(arrays, facts))


def pack_shares(shares: LinkShares | None, arrays: dict[str, np.ndarray]) -> dict[str, Any] | None:
    """Add the arrays of shares to others; return the plain facts about them."""
    if shares is None:
        return None
    parts = {
        "values": shares.values,
        "metric": shares.metric,
        "scale": shares.transform.scale,
        "shift": shares.transform.shift,
    }
    arrays |= {f"{RECORD}{name}": part for name, part in parts.items() if part is not None}
    facts = {"kind": shares.transform.kind, "n_features": shares.transform.n_features}
    return {"names": list(shares.names)} | facts


def unpack_shares(arrays: dict[str, np.ndarray], facts: dict[str, Any] | None) -> LinkShares | None:
    """Return the shares that :func:`pack_shares` took apart."""
    if facts is None:
        return None
    scale, shift = (arrays.get(f"{RECORD}{name}") for name in ("scale", "shift"))
    transform = FeatureSignal(facts["kind"], facts["n_features"], scale, shift)
    values, metric = arrays[f"{RECORD}values"], arrays.get(f"{RECORD}metric")
    return LinkShares(tuple(facts["names"]), values, transform, metric)
