import numpy as np
import pytest
import scipy.sparse as sp
import torch


@pytest.fixture(autouse=True)
def _names_of_docstring_examples(doctest_namespace):
    from glnn.graph import DenseAdjacency, SparseAdjacency

    doctest_namespace.update(
        np=np,
        sp=sp,
        torch=torch,
        DenseAdjacency=DenseAdjacency,
        SparseAdjacency=SparseAdjacency,
    )
