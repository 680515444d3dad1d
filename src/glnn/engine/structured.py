"""Fits in which the graph itself stands in for features that say nothing."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.problem import FitProblem
from glnn.engine.settings import FitSettings
from glnn.exceptions import InputError
from glnn.graph.structure import Structure, says_nothing
from glnn.solver.signals import joined

STRUCTURE = "structure"


def with_structure(settings: FitSettings, problem: FitProblem) -> FitSettings:
    """Return the settings with the signal ``structure`` where a fit must choose it by itself."""
    if problem.graph is None:
        if settings.graph.signal == STRUCTURE:
            raise InputError(
                "signal='structure' must come with a graph, got none. Give graph=, or take another."
            )
        return settings
    if settings.seeks_structure and says_nothing(problem.features, problem.peers):
        return settings.changed("signal", STRUCTURE)
    return settings


def structure_of(problem: FitProblem, scaled: Any, seed: int) -> tuple[Structure, np.ndarray]:
    """Return the structure of the given graph, and its features as long as the scaled ones are."""
    assert problem.graph is not None  # the settings were checked
    squares = scaled.multiply(scaled) if sp.issparse(scaled) else np.square(scaled)
    lengths = np.sqrt(np.asarray(squares.sum(1), dtype=np.float64))
    size = problem.peers.all_reduce(float(lengths.sum())) / problem.labels.n_nodes
    graph = problem.graph.astype(np.float64, copy=False)
    return Structure.of(graph, problem.partition, size=size or 1.0, seed=seed)


def with_columns(scaled: Any, more: np.ndarray) -> Any:
    """Return scaled features with further columns, sparse if they are."""
    return joined(scaled, more).astype(np.float32)
