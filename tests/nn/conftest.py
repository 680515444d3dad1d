import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.nn import Features


@pytest.fixture
def x():
    """Sparse features of six nodes."""
    return sp.random(6, 9, 0.3, format="csr", rng=np.random.default_rng(0))


@pytest.fixture
def assert_storage_is_free(x):
    """Dense or sparse graph and features: the same logits and gradients of a network."""

    def check(net, adj_hat):
        found = []
        for adj in (adj_hat, DenseAdjacency(adj_hat.to_dense())):
            for features in (Features.of(x), Features.of(x.toarray())):
                logits = net(adj, features)
                grads = torch.autograd.grad(logits.square().sum(), list(net.parameters()))
                found.append((logits, *grads))
        for other in found[1:]:
            assert_close(found[0], other)

    return check
