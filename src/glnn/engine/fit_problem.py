"""The input of a fit, and the record of it that a fitted model keeps for explanations."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Int

from glnn.data.labels import UNLABELLED, Folds, make_folds
from glnn.distributed import SINGLE_PROCESS, Partition, Peers
from glnn.engine.tasks import Labels
from glnn.solver.attribution import LinkShares, link_shares
from glnn.solver.learn import LearnedGraph


@dataclass(frozen=True)
class FitProblem:
    """The input of a fit: features of all nodes, some labels, and optionally a graph.

    Over several processes each one holds its rows of features and graph, and all labels.
    """

    features: Any  # dense array or CSR matrix, one row per node
    labels: Labels  # class numbers of all training nodes
    graph: sp.csr_matrix | None = None  # symmetric adjacency matrix, checked before
    validation: Labels | None = None  # nodes used to choose epochs and the tracks' weights
    peers: Peers = field(default=SINGLE_PROCESS)
    folds: Folds | None = None  # labels to hide in turn, where there are no validation nodes

    @property
    def partition(self) -> Partition:
        """The rows of this process."""
        return Partition(self.labels.n_nodes, self.peers)


def hide_labels(
    problem: FitProblem, n_folds: int, seed: int, groups: Any = None, times: Any = None
) -> Folds | None:
    """Return the labels to hide in turn, if there are no validation nodes and some can be hidden.

    Labels without weight train nothing and are never hidden.
    """
    if problem.validation is not None:
        return None
    labels = problem.labels
    classes = np.full(labels.n_nodes, UNLABELLED, dtype=np.int64)
    classes[labels.nodes.numpy()] = labels.classes.numpy()
    if labels.weights is not None:
        classes[labels.nodes.numpy()[labels.weights.numpy() == 0]] = UNLABELLED
    if np.bincount(classes[classes >= 0], minlength=1).max() < 2:
        return None
    return make_folds(classes, n_folds, seed, groups, times)


# What tells the share of each term in each link: the solved graph problem, or the shares
Attribution = LearnedGraph | LinkShares | None


def find_shares(attribution: Attribution) -> LinkShares | None:
    """Return the share of each term of the objective in each link."""
    return link_shares(attribution) if isinstance(attribution, LearnedGraph) else attribution


@dataclass(eq=False)
class FitRecord:
    """The labels of a fit, and the share of each term of the objective in each link."""

    labels: Int[np.ndarray, "n"]  # class number of every labelled node, -1 elsewhere
    trains: Bool[np.ndarray, "n"]  # the training nodes; other labelled nodes are for validation
    attribution: Attribution

    @property
    def shares(self) -> LinkShares | None:
        """The share of each term in each link, computed on first use and then cached."""
        self.attribution = shares = find_shares(self.attribution)
        return shares

    def __getstate__(self) -> dict[str, Any]:
        """Keep the shares in a pickle, but not the graph problem they come from."""
        return vars(self) | {"attribution": self.shares}

    @classmethod
    def of(cls, problem: FitProblem, attribution: Attribution) -> "FitRecord":
        """Collect training and validation labels in one array over all nodes."""
        known, validation = problem.labels, problem.validation
        labels = np.full(known.n_nodes, UNLABELLED, dtype=np.int64)
        trains = np.zeros(known.n_nodes, dtype=bool)
        labels[known.nodes.cpu().numpy()] = known.classes.cpu().numpy()
        trains[known.nodes.cpu().numpy()] = True
        if validation is not None:
            labels[validation.nodes.cpu().numpy()] = validation.classes.cpu().numpy()
        return cls(labels, trains, attribution)
