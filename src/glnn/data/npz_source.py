"""An npz file read by rows: arrays stored without compression are read where they lie."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import canonical_csr, checked_csr, no_values
from glnn.data.files import parsing, shown_path
from glnn.data.node_npz import declared_shape, record_of, weighted_pairs
from glnn.data.npz import NpzFile
from glnn.data.source import bounds, rows_of_pairs
from glnn.exceptions import DataFormatError


def can_be_read_by_rows(path: Path) -> bool:
    """Whether the features of an npz file are stored without compression, as large ones are."""
    with NpzFile(path) as file:
        return all(file.can_read_slices(f"features_{part}") for part in ("data", "indices"))


class NpzSource:
    """A data set in an npz file, whose features are read by rows.

    Parameters
    ----------
    path
        A file of which :func:`can_be_read_by_rows` holds. Labels, ids, the starts of the rows and
        the list of edges are read at once; values and columns of the features are read for the
        rows that are asked for.
    """

    report = None
    """There is no table."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not can_be_read_by_rows(self.path):
            raise DataFormatError(
                f"{shown_path(self.path)} must store its features without compression to be read "
                "by rows, got them compressed."
            )
        with NpzFile(self.path) as file, parsing(self.path, "npz"):
            shape = declared_shape(file)
            self._starts = file.read("features_indptr", kinds="iu", ndim=1).astype(np.int64)
            self.record = record_of(file, no_values(*shape))
            self._pairs, self._weights = weighted_pairs(file)
            self.digest = file.digest
            sizes = {file.headers[f"features_{part}"].shape for part in ("data", "indices")}
        grow = self._starts[0] == 0 and not (np.diff(self._starts) < 0).any()
        if not grow or sizes != {(int(self._starts[-1]),)}:
            raise DataFormatError("row starts of a CSR matrix must grow from 0 to its size.")

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return the features of some rows; nothing else of them is read."""
        start, stop = bounds(rows, self.record.n_nodes)
        first, last = int(self._starts[start]), int(self._starts[stop])
        with NpzFile(self.path) as file, parsing(self.path, "npz"):
            values = file.read_slice("features_data", first, last, kinds="fiub")
            columns = file.read_slice("features_indices", first, last, kinds="iu")
        starts = self._starts[start : stop + 1] - first
        matrix = checked_csr(values, columns, starts, (stop - start, self.record.n_features))
        return canonical_csr("features", matrix)

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one."""
        if self._pairs is None:
            return None
        return rows_of_pairs(self._pairs, self._weights, rows, self.record.n_nodes)
