"""Pairs of nodes on a device, and the graphs that live on them: the tensors' side of ``Pairs``."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.graph.csr import CsrPattern
from glnn.graph.sparse import symmetric_pattern
from glnn.solver.pairs import Pairs

Ends = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class DevicePairs:
    """Distinct pairs ``i <= j`` of ``n_nodes`` nodes, sorted by row, then column.

    A pair takes about 200 bytes on the device while a problem on it is solved.

    Examples
    --------
    >>> pairs = DevicePairs.union(3, [(torch.tensor([2, 0]), torch.tensor([0, 0]))])
    >>> pairs.i, pairs.j
    (tensor([0, 0]), tensor([0, 2]))
    """

    n_nodes: int
    i: Tensor
    j: Tensor

    @classmethod
    def union(cls, n_nodes: int, parts: Iterable[Ends]) -> "DevicePairs":
        """Return every pair named by any of ``parts``, in whichever direction."""
        keys = torch.unique(torch.cat([device_keys(n_nodes, *ends) for ends in parts]))
        i = torch.div(keys, n_nodes, rounding_mode="floor")
        return cls(n_nodes, i, keys - i * n_nodes)

    def __len__(self) -> int:
        return len(self.i)

    @cached_property
    def keys(self) -> Tensor:
        """The sorted keys ``i * n_nodes + j``."""
        return device_keys(self.n_nodes, self.i, self.j)

    @cached_property
    def counts(self) -> Tensor:
        """How often a pair occurs in the full matrix: twice, once on the diagonal."""
        return torch.where(self.i == self.j, 1.0, 2.0).double()

    @cached_property
    def loops(self) -> Tensor:
        """Places of the pairs on the diagonal."""
        return torch.nonzero(self.i == self.j).view(-1)

    @cached_property
    def pattern(self) -> CsrPattern:
        """Compressed rows of the full matrix, and which pair each of its entries belongs to."""
        return symmetric_pattern(self.n_nodes, self.i, self.j)

    def places(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return where each key lies among the pairs, and whether it does."""
        if not len(self):
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        place = torch.searchsorted(self.keys, keys).clamp_(max=len(self) - 1)
        return place, self.keys[place] == keys

    def placed(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return one number a pair: the value of its key, zero where it has none."""
        place, known = self.places(keys)
        result = torch.zeros(len(self), dtype=values.dtype, device=values.device)
        result[place[known]] = values[known]
        return result

    def compressed(self, values: Tensor) -> "DeviceGraph":
        """Return the symmetric matrix with ``values`` on the pairs; zeros are not stored."""
        full = values[self.pattern.source]
        kept = full != 0
        ends = torch.zeros(len(full) + 1, dtype=torch.int64, device=full.device)
        torch.cumsum(kept, 0, out=ends[1:])
        starts = ends[self.pattern.offsets.long()]
        return DeviceGraph(starts, self.pattern.columns[kept], full[kept])

    def to_host(self) -> Pairs:
        """Return the same pairs in NumPy."""
        return Pairs(self.n_nodes, self.i.cpu().numpy(), self.j.cpu().numpy())


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A square matrix in compressed rows on a device."""

    starts: Tensor
    columns: Tensor
    values: Tensor

    @classmethod
    def of(cls, matrix: sp.csr_matrix, device: str | torch.device) -> "DeviceGraph":
        """Copy a CSR matrix without duplicates."""
        arrays = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
        return cls(*(to_device(array, device) for array in arrays))

    @property
    def n_nodes(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def rows(self) -> Tensor:
        """Return the row of each stored entry."""
        every = torch.arange(self.n_nodes, device=self.starts.device)
        return torch.repeat_interleave(every, self.starts.diff(), output_size=len(self.columns))

    def row_sums(self) -> Tensor:
        """Return the row sums."""
        shape = (self.n_nodes, self.n_nodes)
        pattern = CsrPattern.compressed(shape, self.starts, self.columns, self.columns)
        return torch.mv(pattern.matrix(self.values), self.values.new_ones(self.n_nodes))

    def trace(self) -> Tensor:
        """Return the sum of the diagonal."""
        return self.values[self.rows() == self.columns].sum()

    def upper(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows, columns and values of the stored entries with row <= column."""
        rows = self.rows()
        upper = torch.nonzero(rows <= self.columns).view(-1)
        return rows[upper], self.columns[upper].long(), self.values[upper]

    def to_host(self) -> sp.csr_matrix:
        """Return the matrix as scipy CSR; its rows must be sorted."""
        starts = self.starts.cpu().numpy()
        fits = starts[-1] < 2**31
        indices = self.columns.to(torch.int32 if fits else torch.int64).cpu().numpy()
        starts = starts.astype(indices.dtype)
        shape = (self.n_nodes, self.n_nodes)
        matrix = sp.csr_matrix((self.values.cpu().numpy(), indices, starts), shape=shape)
        matrix.has_canonical_format = True
        return matrix


def device_keys(n_nodes: int, first: Tensor, second: Tensor) -> Tensor:
    """Return ``min * n_nodes + max`` for each pair."""
    return torch.minimum(first, second) * n_nodes + torch.maximum(first, second)


def to_device(array: np.ndarray, device: str | torch.device) -> Tensor:
    """Return a copy on the device; torch refuses to share arrays that may not be written."""
    own = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(own).to(device)
