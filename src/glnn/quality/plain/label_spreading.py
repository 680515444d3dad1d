"""Label spreading on the given graph or on nearest neighbours, by scikit-learn."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelSpreading as SklearnSpreading

from glnn.quality.plain.base import ClosedForm, in_columns
from glnn.quality.plain.majority import class_shares
from glnn.quality.plain.problem import NodeProblem
from glnn.quality.plain.scaling import scaled


@dataclass(frozen=True, kw_only=True)
class LabelSpreadingSettings:
    """The defaults of scikit-learn; the neighbours count where no graph is given.

    ``alpha`` is the share that a node takes from its neighbours.
    """

    n_neighbors: int = 7
    max_iter: int = 100
    alpha: float = 0.2


@dataclass(frozen=True)
class LabelSpreading(ClosedForm):
    r"""Spread labels, :math:`F \leftarrow \alpha D^{-1/2} A D^{-1/2} F + (1 - \alpha) Y`.

    On the given graph; without one, on nearest neighbours.
    """

    name: ClassVar[str] = "label_spreading"
    title: ClassVar[str] = "label spreading"
    paper: ClassVar[str] = "Zhou et al., Learning with local and global consistency, NIPS 2003"
    needs_graph: ClassVar[bool] = False
    settings: LabelSpreadingSettings = LabelSpreadingSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Spread the labels until they change no more."""
        s = self.settings
        model = SklearnSpreading(
            kernel=kernel_of(problem, s.n_neighbors),
            n_neighbors=s.n_neighbors,
            alpha=s.alpha,
            max_iter=s.max_iter,
        )
        return fitted_distributions(model, problem)


def kernel_of(problem: NodeProblem, n_neighbors: int) -> Any:
    """Return the given graph with loops as scikit-learn takes it, or its name of neighbours.

    Rows of zeros are nearer to rows of length one than most of these are to each other, so that
    everybody would be their neighbour; they get none but themselves.
    """
    if problem.graph is not None:
        looped = sp.csr_matrix(problem.graph + sp.eye(problem.n_nodes))
        return lambda *_: looped.copy()
    features = scaled(problem.features)
    filled = np.flatnonzero(abs(features).sum(1))
    if len(filled) in (0, problem.n_nodes):
        return "knn"
    near = sp.coo_matrix(kneighbors_graph(features[filled], n_neighbors, include_self=True))
    entries = (near.data, (filled[near.row], filled[near.col]))
    graph = sp.csr_matrix(entries, shape=(problem.n_nodes, problem.n_nodes))
    alone = np.ones(problem.n_nodes)
    alone[filled] = 0
    graph = sp.csr_matrix(graph + sp.diags(alone))
    return lambda *_: graph.copy()


def fitted_distributions(model: Any, problem: NodeProblem) -> np.ndarray:
    """Fit, and return the distribution of every node.

    A node that no label reaches gets the shares of the classes among the labelled nodes.
    """
    known = np.full(problem.n_nodes, -1)
    known[problem.train] = problem.labels[problem.train]
    x = scaled(problem.features)
    with warnings.catch_warnings():  # as far as max_iter goes is what was asked for
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, known)
    reached = in_columns(model.label_distributions_, model.classes_, problem.n_classes)
    unreached = ~(reached.sum(1) > 0)
    reached[unreached] = class_shares(problem)
    return np.asarray(reached / reached.sum(1, keepdims=True))
