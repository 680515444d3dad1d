"""Every registered method keeps the same promises."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.exceptions import InputError, MissingDependencyError
from glnn_lab.baselines import BASELINES, NodeProblem, get_baseline

METHODS = list(BASELINES.values())
TRAINED = [method for method in METHODS if method.is_trained]
ON_GRAPHS = [method for method in METHODS if method.needs_graph]


def named(method):
    return method.name


def check_probabilities(prediction, problem):
    assert prediction.probabilities.shape == (problem.n_nodes, problem.n_classes)
    assert np.isfinite(prediction.probabilities).all()
    np.testing.assert_allclose(prediction.probabilities.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_it_beats_chance_by_a_wide_margin_on_a_block_model(method, blocks, shortened):
    problem, truth, test = blocks
    prediction = shortened(method, n_epochs=150).fit_predict(problem, seed=0)
    check_probabilities(prediction, problem)
    assert (prediction.classes[test] == truth[test]).mean() > 0.65  # chance is 1/3


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_same_seed_gives_the_same_bits_and_leaves_global_randomness_alone(
    method, blocks, shortened
):
    problem, _, _ = blocks
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again = (shortened(method, n_epochs=8).fit_predict(problem, seed=3) for _ in range(2))
    assert np.array_equal(first.probabilities, again.probabilities)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("method", TRAINED, ids=named)
def test_another_seed_gives_another_network(method, blocks):
    problem, _, _ = blocks
    one, other = (list(method.build(problem, seed).module.parameters()) for seed in (0, 1))
    assert any(not torch.equal(a, b) for a, b in zip(one, other))


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_a_disconnected_graph_with_isolated_nodes_works(method, make_blocks, shortened):
    problem, _, _ = make_blocks(n_isolated=20, across=0.0)
    check_probabilities(shortened(method, n_epochs=5).fit_predict(problem, seed=0), problem)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_a_graph_without_any_edge_works(method, make_blocks, shortened):
    problem, _, _ = make_blocks(n_nodes=30, inside=0.0, across=0.0)
    assert problem.graph.nnz == 0
    check_probabilities(shortened(method, n_epochs=5).fit_predict(problem, seed=0), problem)


@pytest.mark.parametrize("method", TRAINED, ids=named)
def test_the_gradient_reaches_every_parameter(method, blocks):
    task = method.build(blocks[0], seed=0)
    for _ in range(3):  # one draw of dropout or contexts may miss a parameter
        torch.stack(list(task.losses(0).values())).sum().backward()
    for name, parameter in task.module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("method", TRAINED, ids=named)
def test_every_parameter_is_handed_to_the_optimiser_once(method, blocks):
    task = method.build(blocks[0], seed=0)
    handed = [id(p) for group in task.parameter_groups() for p in group["params"]]
    assert sorted(handed) == sorted(id(p) for p in task.module.parameters())


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_labels_outside_training_and_validation_are_never_seen(method, blocks, shortened):
    problem, truth, test = blocks
    lies = truth.copy()
    lies[test] = (lies[test] + 1) % 3
    told = dataclasses.replace(problem, labels=lies)
    method = shortened(method, n_epochs=5)
    honest, lied = (method.fit_predict(p, seed=0).probabilities for p in (problem, told))
    assert np.array_equal(honest, lied)


@pytest.mark.parametrize("method", TRAINED, ids=named)
def test_permuted_test_labels_change_no_trained_parameter(method, blocks, shortened):
    problem, truth, test = blocks
    other = truth.copy()
    other[test] = np.random.default_rng(0).permutation(other[test])
    assert not np.array_equal(other, truth)
    method, trained = shortened(method, n_epochs=5), []
    for labels in (truth, other):
        given = dataclasses.replace(problem, labels=labels)
        task = method.build(given, seed=0)
        n_epochs = method.train(task, given)
        trained.append((n_epochs, task.module.state_dict()))
    (n_one, one), (n_two, two) = trained
    assert n_one == n_two
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_dense_features_without_validation_work(method, blocks, shortened):
    problem, _, _ = blocks
    dense = dataclasses.replace(
        problem, features=problem.features.toarray() - 0.5, validation=np.empty(0, dtype=int)
    )
    check_probabilities(shortened(method, n_epochs=5).fit_predict(dense, seed=0), dense)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_a_class_without_training_labels_still_has_its_column(method, blocks, shortened):
    problem, truth, _ = blocks
    train = problem.train[truth[problem.train] != 1]
    partial = dataclasses.replace(problem, train=train)
    check_probabilities(shortened(method, n_epochs=5).fit_predict(partial, seed=0), partial)


@pytest.mark.parametrize("method", ON_GRAPHS, ids=named)
def test_without_a_graph_the_refusal_names_the_alternative(method, blocks):
    problem = dataclasses.replace(blocks[0], graph=None)
    with pytest.raises(InputError, match=f"{method.name} needs a graph"):
        method.fit_predict(problem, seed=0)


@pytest.mark.parametrize("method", [m for m in METHODS if not m.needs_graph], ids=named)
def test_methods_without_need_of_a_graph_work_on_features_alone(method, blocks, shortened):
    problem, truth, test = blocks
    alone = dataclasses.replace(problem, graph=None)
    prediction = shortened(method, n_epochs=150).fit_predict(alone, seed=0)
    assert (prediction.classes[test] == truth[test]).mean() > 0.5


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_the_description_is_complete(method):
    assert BASELINES[method.name] is method
    assert method.title and method.paper
    assert dataclasses.is_dataclass(method.settings)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.settings.n_epochs = 1


def test_the_registry_lists_the_table_first_then_the_controls():
    assert list(BASELINES) == [
        *("planetoid", "chebnet", "monet", "longae", "gat", "dgi", "gwnn", "gcn"),
        *("logistic_regression", "random_forest", "mlp", "label_propagation", "label_spreading"),
        "deepwalk",
        *("sgc", "appnp", "knn_gcn"),
        *("gcn_jaccard", "gcn_svd"),
    ]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'gwnn'"):
        get_baseline("gwn")


def test_importing_the_registry_does_not_import_pytorch_geometric():
    code = "import sys, glnn_lab.baselines; sys.exit('torch_geometric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_pytorch_geometric_the_extra_is_named(blocks, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(MissingDependencyError, match=r"glnn\[pyg\]"):
        BASELINES["gcn"].build(blocks[0], seed=0)


def test_identity_features_stand_for_no_features(blocks, shortened):
    problem, truth, test = blocks
    bare = dataclasses.replace(problem, features=sp.eye(problem.n_nodes, format="csr"))
    prediction = shortened(BASELINES["gcn"], n_epochs=100).fit_predict(bare, seed=0)
    assert (prediction.classes[test] == truth[test]).mean() > 0.6


def test_a_weighted_graph_is_taken(blocks, shortened):
    problem, _, _ = blocks
    weighted = dataclasses.replace(problem, graph=problem.graph * 0.5)
    assert isinstance(weighted, NodeProblem)
    for name in ("gcn", "planetoid", "gwnn", "dgi"):
        prediction = shortened(BASELINES[name], n_epochs=3).fit_predict(weighted, seed=0)
        check_probabilities(prediction, weighted)
