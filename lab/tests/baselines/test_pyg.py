import copy
import sys

import pytest
import torch

from glnn.exceptions import MissingDependencyError
from glnn_lab.baselines.inputs import Edges
from glnn_lab.baselines.pyg import fused, layers


def test_the_layers_are_those_of_pytorch_geometric():
    assert hasattr(layers(), "GCNConv")


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        layers()


MAKERS = {
    "gcn": lambda nn: nn.GCNConv(5, 5, cached=True),
    "chebnet": lambda nn: nn.ChebConv(5, 5, K=3),
    "sgc": lambda nn: nn.SGConv(5, 5, K=2),
    "appnp": lambda nn: nn.APPNP(4, 0.1, cached=True),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_fused_layer_gives_what_gathering_and_scattering_gives(make, make_blocks):
    edges = Edges.of(make_blocks(n_isolated=5)[0].graph)
    x = torch.randn(edges.n_nodes, 5, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    layer = make(layers())
    results = []
    for chosen in (layer, fused(copy.deepcopy(layer))):
        given = x.clone().requires_grad_()
        for _ in range(2):  # the second pass uses what the first has stored
            out = chosen(given, edges.index, edges.weight)
        (out**2).sum().backward()
        results.append((out.detach(), given.grad))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)
