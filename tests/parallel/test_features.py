import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.nn.dropout import PartGenerator
from glnn.nn.features import Features
from glnn.parallel.features import FeatureRows
from glnn.parallel.task import noise_of_rows
from glnn.peers import Partition


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_dropout_product_and_gradient_have_the_bits_of_one_process(together, size, kind):
    rng = np.random.default_rng(0)
    dense = (rng.random((101, 50)) * (rng.random((101, 50)) < 0.2)).astype(np.float32)
    given = sp.csr_matrix(dense) if kind == "sparse" else dense
    weight = torch.randn(50, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    whole = Features.of(given).dropped(0.4, torch.Generator().manual_seed(3)) @ weight
    g = torch.randn(whole.shape, generator=torch.Generator().manual_seed(1))
    whole.backward(g)

    def work(peers):
        part = Partition(101, peers)
        own = weight.detach().clone().requires_grad_()
        features = FeatureRows.of_rows(given[part.rows], part, "cpu")
        noise = noise_of_rows(part, features, torch.Generator().manual_seed(3))
        assert isinstance(noise, PartGenerator)
        product = features.dropped(0.4, noise) @ own
        product.backward(g[part.rows])
        assert torch.equal(product.detach(), whole.detach()[part.rows])
        return own.grad

    for gradient in together(size, work):
        assert torch.equal(gradient, weight.grad)


def test_no_dropout_leaves_the_features_as_they_are(together):
    def work(peers):
        part = Partition(20, peers)
        features = FeatureRows.of_rows(np.ones((part.n_rows, 3), np.float32), part, "cpu")
        assert features.dropped(0.0, torch.Generator()) is features

    together(2, work)
