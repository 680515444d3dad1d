import torch
from torch import nn

from glnn.parallel.exact import ExactParameters
from glnn.parallel.sums import Sums
from glnn.peers import Partition


def test_a_network_on_some_rows_gets_the_gradients_of_all_rows(together):
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))

    def parameters():
        rng = torch.Generator().manual_seed(1)
        weight = nn.Parameter(torch.randn(32, 5, generator=rng))
        return weight, nn.Parameter(torch.randn(5, generator=rng))

    weight, bias = parameters()
    (torch.relu(x) @ weight + bias).square().sum().backward()

    def work(peers):
        part = Partition(64, peers)
        own_weight, own_bias = parameters()
        with ExactParameters(Sums(part)):
            (torch.relu(x[part.rows]) @ own_weight + own_bias).square().sum().backward()
        return own_weight.grad, own_bias.grad

    for for_weight, for_bias in together(2, work):
        assert torch.equal(for_weight, weight.grad)
        assert torch.equal(for_bias, bias.grad)
