import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def x():
    """Sparse features of six nodes."""
    return sp.random(6, 9, 0.3, format="csr", rng=np.random.default_rng(0))
