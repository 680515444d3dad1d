import pytest
import torch

from glnn.parallel.sums import Sums
from glnn.peers import Partition


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("n_views", "width", "n_classes"), [(None, 16, 7), (2, 32, 3), (2, 40, 5)])
def test_sums_over_nodes_have_the_bits_of_one_process(together, size, n_views, width, n_classes):
    rng = torch.Generator().manual_seed(0)
    n_nodes = 133
    shape = (n_nodes,) if n_views is None else (n_views, n_nodes)
    x = torch.randn(*shape, width, generator=rng, requires_grad=True)
    weight = torch.randn(width, n_classes, generator=rng, requires_grad=True)
    bias = torch.zeros(width, requires_grad=True)
    product = (x + bias) @ weight
    g = torch.randn(product.shape, generator=rng)
    product.backward(g)

    def work(peers):
        part = Partition(n_nodes, peers)
        sums, own, own_g = Sums(part), x.detach()[..., part.rows, :], g[..., part.rows, :]
        assert torch.equal(sums.forward(own, weight.detach()), product.detach()[..., part.rows, :])
        back = sums.forward(own_g, weight.detach().T)
        return sums.product(own, own_g), sums.over_rows(back)

    for for_weight, for_bias in together(size, work):
        assert torch.equal(for_weight, weight.grad)
        torch.testing.assert_close(for_bias, bias.grad, rtol=1e-6, atol=1e-6)


def test_columns_are_shared_in_order(together):
    def work(peers):
        return Sums(Partition(100, peers)).columns(70)

    shares = together(3, work)[0]
    assert [share.start for share in shares] == [0, 16, 32]
    assert shares[-1].stop == 70
    assert all(share.start % 16 == 0 for share in shares)


def test_each_process_gets_its_columns_of_all_rows(together):
    whole = torch.arange(64.0 * 40).reshape(64, 40)

    def work(peers):
        part = Partition(64, peers)
        sums = Sums(part)
        share = sums.columns(40)[peers.rank]
        assert torch.equal(sums.turned(whole[part.rows]), whole[:, share])
        assert torch.equal(sums.whole(whole[part.rows]), whole)

    together(4, work)
