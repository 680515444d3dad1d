"""Data sets that need no file: three tables of scikit-learn, and two made-up ones."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.node_data import NodeData
from glnn.data.synthetic import blobs, block_model


def load_digits() -> NodeData:
    """Return 1,797 images of digits, 8 x 8 pixels from 0 to 16, in 10 classes."""
    from sklearn.datasets import load_digits as load

    return _from_sklearn("digits", load())


def load_wine() -> NodeData:
    """Return 178 wines with 13 measurements, as measured, in 3 classes."""
    from sklearn.datasets import load_wine as load

    return _from_sklearn("wine", load())


def load_breast_cancer() -> NodeData:
    """Return 569 tumours with 30 measurements, as measured, in 2 classes."""
    from sklearn.datasets import load_breast_cancer as load

    return _from_sklearn("breast_cancer", load())


def load_blobs() -> NodeData:
    """Return 300 points in three Gaussian clouds."""
    return blobs()


def load_block_model() -> NodeData:
    """Return 300 nodes of a block model with three classes."""
    return block_model()


def _from_sklearn(name: str, bunch: Any) -> NodeData:
    return NodeData(
        features=sp.csr_matrix(np.asarray(bunch.data, dtype=np.float32)),
        labels=np.asarray(bunch.target, dtype=np.int64),
        graph=None,
        class_names=tuple(str(label) for label in bunch.target_names),
        name=name,
        provenance={"source": f"scikit-learn load_{name}", "graph": "none published"},
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
    )


EMBEDDED = {
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "blobs": load_blobs,
    "block_model": load_block_model,
}
