"""Features of some rows, with the columns of all rows that the gradient needs."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.csr import CsrPattern
from glnn.nn.dropout import PartGenerator, mask_of
from glnn.nn.features import FeatureProduct, Features, is_cheaper_sparse
from glnn.parallel.sums import Sums
from glnn.peers import Partition


class FeatureRows(Features):
    r"""The rows that are here for :math:`X W`, and some columns of all rows for its gradient.

    .. math:: \frac{\partial L}{\partial W} = X^\top \frac{\partial L}{\partial Z}

    sums over all nodes; each process does so for its share of the columns of :math:`X`, which it
    holds beside its rows. Dropout draws the same noise for both.

    Parameters
    ----------
    rows
        The features of the rows that are here.
    columns
        Some columns of the features of all rows.
    sums
        Who has which columns.
    """

    def __init__(self, rows: Features, columns: "ColumnPart", sums: Sums) -> None:
        super().__init__(rows.shape, rows.values, rows._pattern, rows._transposed)
        self._rows, self._columns, self._sums = rows, columns, sums

    @classmethod
    def of_rows(cls, scaled: Any, partition: Partition, device: str) -> "FeatureRows":
        """Take the scaled features of the rows that are here; columns are exchanged."""
        shape, peers = (partition.n_nodes, scaled.shape[1]), partition.peers
        if sp.issparse(scaled) and not is_cheaper_sparse(
            peers.all_reduce(float(scaled.nnz)), shape
        ):
            scaled = scaled.toarray()
        sums = Sums(partition)
        rows = Features.of(scaled, device=device, stays_sparse=sp.issparse(scaled))
        kind = SparseColumns if sp.issparse(scaled) else DenseColumns
        return cls(rows, kind.exchanged(scaled, partition, sums, device), sums)

    def dropped(self, rate: float, generator: torch.Generator) -> "FeatureRows":
        """Return the features with a share ``rate`` of the stored values dropped, rescaled."""
        if rate == 0:
            return self
        assert isinstance(generator, PartGenerator)  # whose noise does not depend on the rows
        in_rows, in_columns = self._columns.noise(self.values, generator)
        values = self.values * mask_of(in_rows, self.values, rate)
        rows = Features(self.shape, values, self._rows._pattern, self._rows._transposed)
        return FeatureRows(rows, self._columns.masked(in_columns, rate), self._sums)

    def __matmul__(self, weight: Float[Tensor, "d h"]) -> Float[Tensor, "n h"]:
        return FeatureProduct.apply(weight, self)  # type: ignore[no-any-return, no-untyped-call]

    def product(self, weight: Tensor) -> Tensor:
        """Return the product of the rows that are here; no gradient flows through it."""
        return self._rows.product(weight)

    def transposed_product(self, g: Tensor) -> Tensor:
        """Return the product of all transposed features: the gradient of the weight."""
        share = self._columns.share
        result = g.new_zeros(self.shape[1], g.shape[1])
        for columns in self._sums.columns(g.shape[1]):
            part = self._sums.whole(g[:, columns].contiguous())
            if share.stop > share.start and part.shape[1]:
                result[share, columns] = self._columns.transposed_product(part)
        return self._sums.everyones(result)


class ColumnPart:
    """Some columns of all rows of the features."""

    share: slice
    values: Tensor

    def noise(self, rows: Tensor, generator: PartGenerator) -> tuple[Tensor, Tensor]:
        """Return the random bytes of the rows that are here and of these columns."""
        raise NotImplementedError

    def masked(self, drawn: Tensor, rate: float) -> "ColumnPart":
        """Return the columns with what these bytes drop dropped."""
        raise NotImplementedError

    def transposed_product(self, g: Tensor) -> Tensor:
        """Return the product of the transposed columns with a tensor of all rows."""
        raise NotImplementedError


class DenseColumns(ColumnPart):
    """Columns of dense features, all rows x some columns."""

    def __init__(self, values: Tensor, share: slice) -> None:
        self.values, self.share = values, share

    @classmethod
    def exchanged(
        cls, scaled: np.ndarray, partition: Partition, sums: Sums, device: str
    ) -> "DenseColumns":
        """Give every process its columns of the rows that are here."""
        share = sums.columns(scaled.shape[1])[partition.peers.rank]
        whole = sums.turned(torch.from_numpy(np.asarray(scaled, dtype=np.float32)))
        return cls(whole.to(device), share)

    def noise(self, rows: Tensor, generator: PartGenerator) -> tuple[Tensor, Tensor]:  # noqa: D102
        n_nodes, width = len(self.values), rows.shape[1]
        in_rows = rows.new_empty(rows.shape, dtype=torch.uint8)
        in_columns = rows.new_empty(self.values.shape, dtype=torch.uint8)
        first = generator.first_row
        height = 8 * max(1, generator.chunk // (8 * width))  # whole rows and whole words
        for start in range(0, n_nodes, height):
            n_rows = min(height, n_nodes - start)
            drawn = generator.next_bytes(n_rows * width).view(n_rows, width)
            in_columns[start : start + n_rows] = drawn[:, self.share]
            low, high = max(start, first), min(start + n_rows, first + len(rows))
            if low < high:
                in_rows[low - first : high - first] = drawn[low - start : high - start]
        return in_rows, in_columns

    def masked(self, drawn: Tensor, rate: float) -> "DenseColumns":  # noqa: D102
        return DenseColumns(self.values * mask_of(drawn, self.values, rate), self.share)

    def transposed_product(self, g: Tensor) -> Tensor:  # noqa: D102
        return self.values.T @ g


class SparseColumns(ColumnPart):
    """Columns of sparse features: compressed rows of the transposed matrix, some columns x all.

    ``places`` are the numbers of the values among all stored values of the features, row by row;
    ``order`` sorts them.
    """

    def __init__(
        self, values: Tensor, share: slice, pattern: CsrPattern, places: Tensor, n_stored: int
    ) -> None:
        self.values, self.share, self._pattern, self._n_stored = values, share, pattern, n_stored
        self._sorted, self._order = torch.sort(places)

    @classmethod
    def exchanged(
        cls, scaled: sp.csr_matrix, partition: Partition, sums: Sums, device: str
    ) -> "SparseColumns":
        """Give every process its columns of the rows that are here."""
        peers, shares = partition.peers, sums.columns(scaled.shape[1])
        counts = partition.counts(scaled.nnz)
        scaled.sort_indices()
        numbers = np.arange(scaled.nnz, dtype=np.int64) + counts[: peers.rank].sum()
        numbered = sp.csr_matrix((numbers, scaled.indices, scaled.indptr), shape=scaled.shape)
        parts = []
        for rank in range(peers.size):
            part = scaled[:, shares[rank]].tocoo()
            rows = part.row.astype(np.int64) + partition.start
            places = numbered[:, shares[rank]].tocoo().data
            parts.append((rows, part.col.astype(np.int64), part.data, places))
        came = [np.concatenate(peers.all_to_all([part[k] for part in parts])) for k in range(4)]
        rows, columns, values, places = (torch.from_numpy(array).to(device) for array in came)
        share = shares[peers.rank]
        order = torch.arange(len(values), device=device)
        pattern = CsrPattern.build(
            share.stop - share.start, partition.n_nodes, columns, rows, order
        )
        return cls(values, share, pattern, places, int(counts.sum()))

    def noise(self, rows: Tensor, generator: PartGenerator) -> tuple[Tensor, Tensor]:  # noqa: D102
        in_rows, picked = [], []
        first, last = generator.stored[:2]
        for start in range(0, self._n_stored, generator.chunk):
            drawn = generator.next_bytes(min(generator.chunk, self._n_stored - start))
            in_rows.append(drawn[max(0, first - start) : max(0, last - start)])
            ends = torch.tensor([start, start + len(drawn)], device=drawn.device)
            low, high = torch.searchsorted(self._sorted, ends).tolist()
            picked.append(drawn[self._sorted[low:high] - start])
        in_columns = torch.empty(len(self.values), dtype=torch.uint8, device=rows.device)
        in_columns[self._order] = torch.cat(picked)
        return torch.cat(in_rows), in_columns

    def masked(self, drawn: Tensor, rate: float) -> "SparseColumns":  # noqa: D102
        other = object.__new__(SparseColumns)
        other.__dict__.update(self.__dict__)
        other.values = self.values * mask_of(drawn, self.values, rate)
        return other

    def transposed_product(self, g: Tensor) -> Tensor:  # noqa: D102
        return self._pattern.matmul(self.values, g)
