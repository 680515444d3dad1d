"""What a task gives to the graph problem: the cost of every edge, of low rank."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.graph.pairs import PairValues
from glnn.graph.row_base import to_device
from glnn.graph.row_matrix import DenseRows
from glnn.graph.spread import SpreadRows
from glnn.objective.task import Task
from glnn.peers import Partition


@dataclass(frozen=True, eq=False)
class TaskTerm:
    r"""The linear term :math:`\langle C, A\rangle` that a task adds, of low rank.

    .. math:: c_{ij} = \tfrac12 (u_i \cdot v_j + u_j \cdot v_i) + o_{ij}

    Parameters
    ----------
    left, right
        The rows :math:`u_i` and :math:`v_i`, dense; over several processes, this one's.
    offset
        A symmetric CSR matrix :math:`o` of further costs on single pairs, or its rows.
    """

    left: np.ndarray
    right: np.ndarray
    offset: sp.csr_matrix | None = None

    def term(self, partition: Partition, device: str = "cpu") -> Task:
        """Return the same as a term of the objective; factors that do not fit are refused."""
        left, right = np.shape(self.left), np.shape(self.right)
        if left != right or len(left) != 2 or left[0] != partition.n_rows:
            raise InputError(
                f"task must have two factors with {partition.n_rows} rows and equal widths, "
                f"got shapes {left} and {right}."
            )
        if not (np.isfinite(self.left).all() and np.isfinite(self.right).all()):
            raise InputError("task must have finite factors, got NaN or infinity.")
        sides = [
            SpreadRows(DenseRows(to_device(np.hstack(both).astype(np.float64), device)), partition)
            for both in ((self.left, self.right), (self.right, self.left))
        ]
        offset = None
        if self.offset is not None:
            offset = PairValues.of_rows(partition, finite_matrix("task", self.offset), device)
        return Task(sides[0], sides[1], offset)


def finite_matrix(name: str, given: Any) -> sp.csr_matrix:
    """Return a matrix as CSR; one with an entry that is not finite is refused."""
    matrix = sp.csr_matrix(given)
    if not np.isfinite(matrix.data).all():
        raise InputError(f"{name} must have a finite matrix, got NaN or infinity.")
    return matrix
