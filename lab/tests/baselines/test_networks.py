import copy
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.exceptions import MissingDependencyError
from glnn.nn.features import Features
from glnn_lab.baselines import networks
from glnn_lab.baselines.networks import (
    Edges,
    InputMap,
    Network,
    SupervisedTask,
    current_dropout,
    fuse_messages,
    import_layers,
)


def test_edges_hold_both_directions_and_the_weights():
    graph = sp.csr_matrix(np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]]))
    edges = networks.Edges.of(graph)
    assert edges.index.tolist() == [[0, 1], [1, 0]]
    assert edges.weight.tolist() == [2.0, 2.0]
    assert edges.n_nodes == 3


def test_the_input_map_multiplies_sparse_features_with_its_blocks():
    x = sp.random(7, 5, density=0.3, random_state=1, format="csr", dtype=np.float32)
    with networks.isolate_rng(0):
        first = networks.InputMap(5, 2, n_blocks=3)
    assert first.weight.shape == (5, 6)
    assert_close(first(Features.of(x)), torch.from_numpy(x.toarray()) @ first.weight)


def test_isolated_randomness_repeats_and_is_put_back():
    before = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with networks.isolate_rng(5):
            draws.append(torch.rand(3))
    assert torch.equal(*draws)
    assert torch.equal(before, torch.get_rng_state())


def test_seeds_drawn_from_equal_generators_are_equal():
    one, other = (networks.draw_seed(torch.Generator().manual_seed(4)) for _ in range(2))
    assert one == other


# Layers of PyTorch Geometric


def test_the_layers_are_those_of_pytorch_geometric():
    assert hasattr(import_layers(), "GCNConv")


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        import_layers()


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
    layer = make(import_layers())
    results = []
    for chosen in (layer, fuse_messages(copy.deepcopy(layer))):
        given = x.clone().requires_grad_()
        for _ in range(2):  # the second pass uses what the first has stored
            out = chosen(given, edges.index, edges.weight)
        (out**2).sum().backward()
        results.append((out.detach(), given.grad))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)


# The supervised task


class Linear(Network):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.first_map = InputMap(n_in, n_out)
        self.offset = torch.nn.Parameter(torch.zeros(n_out))

    def forward(self, x, noise):
        return self.first_map(x.apply_dropout(current_dropout(self, 0.5), noise)) + self.offset


def make_task(problem, **options):
    x = Features.of(problem.features)
    return SupervisedTask(
        problem, x, lambda: Linear(x.shape[1], problem.n_classes), 0, weight_decay=0.1, **options
    )


def test_the_loss_is_the_mean_log_probability_of_the_labels(blocks):
    problem, _, _ = blocks
    task = make_task(problem)
    task.module.first_map.weight.data.zero_()  # without it dropout changes nothing
    loss = task.losses(0)["cross_entropy"]
    torch.testing.assert_close(loss, torch.tensor(3.0).log())


def test_scores_are_without_dropout(blocks):
    task = make_task(blocks[0])
    task.losses(0)
    assert torch.equal(task.scores(), task.scores())


def test_decay_goes_to_the_named_layer_alone(blocks):
    groups = make_task(blocks[0], decayed="first").parameter_groups()
    assert [group.get("weight_decay", 0.0) for group in groups] == [0.1, 0.0]
    assert [len(group["params"]) for group in groups] == [1, 1]
    assert len(make_task(blocks[0]).parameter_groups()) == 1
