"""From checked inputs to a problem on a device, and to the pairs it begins with."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from glnn._validation import check_number
from glnn.exceptions import InputError
from glnn.graph.pairs import Pairs, PairValues, pair_keys, sorted_distinct
from glnn.graph.row_base import to_device
from glnn.graph.row_matrix import row_matrix
from glnn.graph.spread import SpreadRows, pair_owners, sent
from glnn.objective import Objective, Reading, Term, Weights
from glnn.objective.closeness import Proximal
from glnn.peers import Partition
from glnn.solver.candidates import Ends
from glnn.solver.inputs import GraphInputs
from glnn.solver.problem import Problem
from glnn.solver.signals import Matrix
from glnn.solver.task_term import TaskTerm, finite_matrix


@dataclass(frozen=True, eq=False)
class Stage:
    """The inputs, their signals on the device, and the problem made of them."""

    inputs: GraphInputs
    base: SpreadRows
    problem: Problem
    given: Pairs | None

    @classmethod
    def of(
        cls,
        inputs: GraphInputs,
        weights: Weights,
        reading: Reading,
        more: list[Term],
        *,
        loops: bool,
        device: str,
    ) -> "Stage":
        """Put everything on the device; the problem has its support later."""
        partition = inputs.partition
        base = signals = _on_device(inputs.base, partition, device)
        if inputs.signals is not inputs.base:
            signals = _on_device(inputs.signals, partition, device)
        prior, given = None, None
        if inputs.prior is not None:
            known = PairValues.of_rows(partition, inputs.prior, device)
            prior, given = known.pairs.adjacency(known.values), known.pairs
        objective = Objective.of(weights, signals, prior, reading=reading, more=more)
        problem = Problem(objective, partition, loops, None, device)
        assert problem.curvature > 0  # refused before anything is computed
        return cls(inputs, base, problem, given)


def _on_device(signal: Matrix, partition: Partition, device: str) -> SpreadRows:
    """Return signal rows on the device, dense where storing entries would take more room."""
    return SpreadRows(row_matrix(signal, device=device), partition).dense_from(0.5)


def given_terms(
    partition: Partition,
    device: str,
    task: TaskTerm | None,
    proximal: tuple[float | int, sp.csr_matrix] | None,
) -> list[Term]:
    """Return the terms of a task and of an earlier graph."""
    found: list[Term] = []
    if task is not None:
        found.append(task.term(partition, device))
    if proximal is not None:
        weight, previous = proximal
        shape = (partition.n_rows, partition.n_nodes)
        if np.shape(previous) != shape:
            raise InputError(
                f"proximal must hold a weight and a {shape[0]} x {shape[1]} matrix, "
                f"got shape {np.shape(previous)}."
            )
        check_number("the weight of proximal", weight, low=0)
        known = PairValues.of_rows(partition, finite_matrix("proximal", previous), device)
        found.append(Proximal(weight, known.pairs.adjacency(known.values), partition))
    return found


def checked_candidates(candidates: Ends, n_nodes: int, device: str) -> tuple[Tensor, Tensor]:
    """Return known candidates on the device; numbers that are no nodes are refused."""
    first, second = (np.asarray(ends, dtype=np.int64) for ends in candidates)
    for ends in (first, second):
        if ends.size and (ends.min() < 0 or ends.max() >= n_nodes):
            raise InputError(
                f"candidates must hold node numbers in [0, {n_nodes}), "
                f"got {ends.min()} to {ends.max()}."
            )
    return to_device(first, device), to_device(second, device)


def own_pairs(partition: Partition, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return this process's pairs among those that any process names."""
    if partition.peers.size == 1:
        return ends
    keys = sorted_distinct(pair_keys(partition.n_nodes, *ends))
    pairs = Pairs.from_keys(partition, keys)
    (keys,) = sent(partition, pair_owners(partition, pairs.i, pairs.j), keys)
    own = Pairs.from_keys(partition, sorted_distinct(keys))
    return own.i, own.j
