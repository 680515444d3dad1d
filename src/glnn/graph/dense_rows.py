"""Rows of a matrix as an array, whatever they are stored in."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def dense_rows(matrix: Any) -> np.ndarray:
    """Return an array of a dense or sparse matrix; it may share its memory and is not written to.

    A CSR matrix with every entry stored is an array already.

    Examples
    --------
    >>> dense_rows(sp.csr_matrix([[0.0, 2.0]]))
    array([[0., 2.]])
    """
    if not sp.issparse(matrix):
        return np.asarray(matrix)
    is_full = matrix.format == "csr" and matrix.nnz == matrix.shape[0] * matrix.shape[1]
    if is_full and matrix.has_canonical_format:
        return np.asarray(matrix.data.reshape(matrix.shape))
    return np.asarray(matrix.toarray())
