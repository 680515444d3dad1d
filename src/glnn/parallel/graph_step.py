"""The graph step over several processes: each has its rows of it."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glnn.engine.settings import GraphSettings
from glnn.peers import Partition
from glnn.solver import Certificate, NewRowProblem, TaskTerm, learn_graph
from glnn.solver.candidates import Ends
from glnn.solver.inputs import GivenGraph
from glnn.solver.prior_rows import PriorRows
from glnn.solver.signals import Matrix


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """What a process gives to the graph step: its rows.

    Parameters
    ----------
    features
        Features of its rows.
    prior
        Its rows of the prior graph (CSR, rows x N), or ``None``.
    predictions, task, column_weights
        What the last classifier adds; see :func:`glnn.learn_graph`.
    candidates
        This process's pairs of an earlier search, or ``None``.
    """

    features: Matrix
    prior: sp.csr_matrix | None = None
    predictions: np.ndarray | None = None
    task: TaskTerm | None = None
    column_weights: np.ndarray | None = None
    candidates: Ends | None = None


@dataclass(frozen=True, eq=False)
class LearnedRows:
    """The answer of :func:`learn_rows`: this process's rows of it.

    ``new_rows`` is the one-row problem of new nodes with the signals of this process's rows alone;
    its prior graph is filled in when the parts are collected.
    """

    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    certificate: Certificate
    candidates: Ends
    new_rows: NewRowProblem


def learn_rows(partition: Partition, inputs: GraphInputs, settings: GraphSettings) -> LearnedRows:
    """Learn the graph as :func:`glnn.learn_graph` does, rows and pairs spread over processes."""
    given = None
    if inputs.prior is not None:
        unknown = PriorRows(settings.prior, np.zeros(partition.n_nodes), inputs.prior)  # type: ignore[arg-type]
        given = GivenGraph(inputs.prior, unknown)
    learned = learn_graph(
        inputs.features,
        given,
        weights=settings.weights,
        n_neighbors=settings.n_neighbors,
        reading=settings.reading,  # type: ignore[arg-type]
        signal=settings.signal,  # type: ignore[arg-type]
        column_weights=inputs.column_weights,
        predictions=inputs.predictions,
        prediction_weight=settings.prediction_weight,
        support=settings.support,  # type: ignore[arg-type]
        n_candidates=min(settings.n_candidates, partition.n_nodes - 1),
        candidates=inputs.candidates,
        task=inputs.task,
        peers=partition.peers,
    )
    rows = dataclasses.replace(learned.new_rows, prior=None)
    return LearnedRows(
        learned.adjacency, inputs.prior, learned.certificate, learned.candidates, rows
    )
