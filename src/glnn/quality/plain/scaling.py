"""Features as the plain methods want them: rows or columns brought to one scale."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize, scale

from glnn.engine.scaling import Scaling


def comparable_features(features: Any) -> Any:
    """Return what a method to compare with sees of a table, by glnn's own rule for scaling.

    Columns of different units get mean 0 and variance 1; without that the largest unit would
    drown the others. Bags of words and pixels stay as they are: each method scales them itself.

    Examples
    --------
    >>> comparable_features(np.array([[1.0, 5.0, 2000.0], [3.0, 7.0, 4000.0]])).tolist()
    [[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]
    """
    scaling = Scaling.fit(features)
    return scaling.apply(features) if scaling.kind == "columns" else features


def row_normalized(features: Any) -> Any:
    r"""Return :math:`X_{id} / \sum_e X_{ie}`, the bag-of-words scaling of Kipf and Welling.

    Rows of zeros stay zero. Where a feature is negative row sums mean nothing: then each column
    is shifted and scaled to mean 0 and variance 1 instead (scaled alone, if sparse).

    Examples
    --------
    >>> row_normalized(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    stored = features.data if sp.issparse(features) else features
    if stored.size and stored.min() < 0:
        return standardized(features)
    return normalize(features, norm="l1")


def standardized(features: Any) -> Any:
    """Return columns of mean 0 and variance 1; sparse columns are scaled but not shifted.

    Examples
    --------
    >>> standardized(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    return scale(features.astype(np.float64), with_mean=not sp.issparse(features))


def scaled(features: Any) -> Any:
    """Return dense features standardised, and sparse ones with rows of length one."""
    return normalize(features) if sp.issparse(features) else standardized(features)
