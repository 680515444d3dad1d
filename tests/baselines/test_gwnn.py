import numpy as np
import pytest
import torch

from glnn.baselines import BASELINES
from glnn.exceptions import InputError


def test_large_graphs_take_the_polynomial_to_the_same_logits(blocks, shortened):
    both = [
        shortened(BASELINES["gwnn"], n_exact=n, threshold=0.0).build(blocks[0], seed=0).scores()
        for n in (4000, 0)
    ]
    np.testing.assert_allclose(*(z.detach().numpy() for z in both), atol=1e-3)


def test_with_the_exact_inverse_and_filters_of_one_nothing_is_mixed(blocks, shortened):
    method = shortened(BASELINES["gwnn"], n_exact=0, inverse="exact")
    net = method.build(blocks[0], seed=0).module
    x = torch.randn(blocks[0].n_nodes, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net.first(x), x, atol=1e-3, rtol=1e-3)


def test_an_unknown_inverse_is_refused(shortened):
    with pytest.raises(InputError, match="inverse must be one of"):
        shortened(BASELINES["gwnn"], inverse="exakt")
