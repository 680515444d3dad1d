import pytest
import torch

from glnn.nn.random_views import ViewSums
from glnn.parallel.sums import Sums
from glnn.parallel.view_sums import RowViewSums
from glnn.peers import Partition

N_NODES = 133


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("n_views", "width", "n_classes"), [(1, 16, 7), (2, 32, 3), (2, 32, 40)])
def test_sums_over_nodes_have_the_bits_of_one_process(together, size, n_views, width, n_classes):
    rng = torch.Generator().manual_seed(0)
    hidden = torch.randn(N_NODES, n_views * width, generator=rng)
    by_class = torch.randn(n_views, n_classes, N_NODES, generator=rng)

    def found_by(sums, hidden, by_class):
        products = sums.of_products(by_class, hidden)
        return sums.over_nodes(hidden), sums.of_classes(by_class), products

    def work(peers):
        part = Partition(N_NODES, peers)
        here = hidden[part.rows], by_class[..., part.rows].contiguous()
        return found_by(RowViewSums(Sums(part)), *here)

    # in a thread as well: there the libraries take as many of their own threads as for the others
    (wanted,) = together(1, lambda peers: found_by(ViewSums(), hidden, by_class))
    for answers in together(size, work):
        for found, one in zip(answers, wanted):
            assert torch.equal(found, one)
