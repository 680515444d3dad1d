"""The penalties on row sums and on the trace as one sparse matrix over pairs and dual numbers."""

import torch
from torch import Tensor

from glnn.graph.csr import CsrPattern
from glnn.solver.device_pairs import DevicePairs


def incidence(pairs: DevicePairs, *, rows: bool, trace: bool) -> tuple[Tensor, Tensor]:
    r"""Return :math:`K` and :math:`K^\top \operatorname{diag}(c)` in compressed rows.

    Parameters
    ----------
    pairs
        The rows of :math:`K`; :math:`c` are their counts in the full matrix, 2 or 1.
    rows
        Whether there is a column for each node, 1/2 at the ends of an edge and 1 at a loop's.
    trace
        Whether there is a last column, 1 at the loops.
    """
    n_columns = max(1, pairs.n_nodes * rows + trace)
    return _spread(pairs, n_columns, rows, trace), _sums(pairs, n_columns, rows, trace)


def _spread(pairs: DevicePairs, n_columns: int, rows: bool, trace: bool) -> Tensor:
    """Store two entries a pair: its ends, or for a loop its node and the trace; some are zero."""
    n_pairs, is_loop = len(pairs), pairs.i == pairs.j
    ends = torch.stack([pairs.i, torch.where(is_loop, n_columns - 1, pairs.j)], 1)
    share = rows / pairs.counts
    values = torch.stack([share, torch.where(is_loop, float(trace), share)], 1)
    starts = torch.arange(0, 2 * n_pairs + 1, 2, device=ends.device)
    columns = ends.view(-1) if rows else torch.zeros_like(ends).view(-1)
    pattern = CsrPattern.compressed((n_pairs, n_columns), starts, columns, columns)
    return pattern.matrix(values.view(-1))


def _sums(pairs: DevicePairs, n_columns: int, rows: bool, trace: bool) -> Tensor:
    """List the pairs of each node, from its row of the full matrix, and then the loops."""
    starts, columns = pairs.loops.new_zeros(1), pairs.loops[:0]
    if rows:
        starts, columns = pairs.pattern.offsets.long(), pairs.pattern.source
    if trace:
        starts = torch.cat([starts, starts[-1:] + len(pairs.loops)])
        columns = torch.cat([columns, pairs.loops])
    if not (rows or trace):
        starts = torch.cat([starts, starts])  # one empty row, which nobody asks for
    pattern = CsrPattern.compressed((n_columns, len(pairs)), starts, columns, columns)
    return pattern.matrix(torch.ones(len(columns), dtype=torch.float64, device=columns.device))
