import dataclasses

import numpy as np
import pytest

from glnn.data import NodeData, load_dataset
from glnn.engine.settings import PRESETS
from glnn.exceptions import InputError
from glnn_lab.baselines import BASELINES
from glnn_lab.experiments.datasets import load_cell
from glnn_lab.experiments.methods import (
    GROUPS,
    METHODS,
    comparable_features,
    get_method,
    visible_labels,
)
from glnn_lab.experiments.published import COLUMNS, TABLE1, published_value

FAST = {
    "glnn": {"n_epochs": 12},
    "glnn-paper": {"n_epochs": 12},
    "glnn-literal": {"n_epochs": 5},
    "glnn-gcn": {"n_epochs": 12},
    "glnn-without-glr": {"n_epochs": 12},
    "gcn": {"n_epochs": 5},
    "knn_gcn": {"n_epochs": 5},
    "logistic_regression": {},
    "random_forest": {"n_trees": 20},
    "label_spreading": {},
}


@pytest.fixture(scope="module")
def opened(request):
    from glnn_lab.experiments.cells import Cell

    return load_cell(Cell("gcn", "block_model", 0, "per_class", {"n_per_class": 5}))


def permuted(data, split, rng):
    """Return the data with the labels of the test nodes in another order."""
    labels = data.labels.copy()
    labels[split.test] = rng.permutation(labels[split.test])
    assert not np.array_equal(labels, data.labels)
    return NodeData(data.features, labels, data.graph, data.class_names, name=data.name)


def test_the_registry_has_the_presets_and_every_baseline():
    assert set(BASELINES) < set(METHODS)
    assert {m.name for m in METHODS.values()} == set(METHODS)
    assert all(name in METHODS for names in GROUPS.values() for name in names)


def test_every_row_of_the_papers_table_has_a_method():
    rows = {m.published_as for m in METHODS.values()} - {None}
    assert len(rows) == 9
    assert all(any(published_value(TABLE1, row, c) for c in COLUMNS) for row in rows)


def test_labels_of_test_nodes_are_out_of_sight(opened):
    data, split = opened
    labels = visible_labels(data, split)
    seen = np.concatenate([split.train, split.val])
    assert np.array_equal(labels[seen], data.labels[seen])
    assert (np.delete(labels, seen) == -1).all()


@pytest.mark.parametrize("has_validation", [True, False])
@pytest.mark.parametrize("name", FAST)
def test_test_labels_change_no_parameter_no_prediction_and_no_choice(
    name, has_validation, opened, tmp_path
):
    data, split = opened
    if not has_validation:  # then folds of the training labels decide what a fit chooses
        split = dataclasses.replace(split, val=np.empty(0, dtype=int))
    other = permuted(data, split, np.random.default_rng(0))
    method = get_method(name)
    one, two = (method.run(d, split, 0, FAST[name]) for d in (data, other))
    assert np.array_equal(one.classes, two.classes)
    assert (one.choices, one.n_epochs) == (two.choices, two.n_epochs)
    if one.model is not None:
        assert np.array_equal(one.model.label_distributions_, two.model.label_distributions_)
        assert (one.model.graph_ != two.model.graph_).nnz == 0
        one.model.save(tmp_path / "one")
        two.model.save(tmp_path / "two")
        for file in sorted((tmp_path / "one").iterdir()):
            assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


@pytest.mark.parametrize("name", ["glnn", "glnn-paper"])
def test_lambda0_is_the_weight_of_the_regulariser_and_nothing_else(name, opened):
    data, split = opened
    model = get_method(name).run(data, split, 0, {"lambda0": 0.07, "n_epochs": 2}).model
    preset = PRESETS["default" if name == "glnn" else "paper"]
    assert model.settings["weights"] == dataclasses.replace(preset.graph.weights, smoothness=0.07)


def test_without_the_regulariser_features_do_not_shape_the_graph(opened):
    data, split = opened
    settings = {"n_epochs": 2, "n_rounds": 1}  # later ones see the gradient of the task
    shuffled = data.replace(features=data.features[::-1])
    method = get_method("glnn-no-glr")
    graphs = [method.run(d, split, 0, settings).model.graph_ for d in (data, shuffled)]
    # other candidates have no weight, but move the places of sums
    assert np.abs((graphs[0] - graphs[1]).toarray()).max() < 1e-14


def test_features_only_never_sees_the_graph(opened):
    data, split = opened
    method = get_method("glnn-features-only")
    one, two = (method.run(d, split, 0, {"n_epochs": 2}) for d in (data, data.replace(graph=None)))
    assert one.model.prior_graph_ is None
    assert np.array_equal(one.model.label_distributions_, two.model.label_distributions_)


def test_one_run_stands_for_all_graphs_where_the_graph_is_not_looked_at(opened):
    data, split = opened
    bare = data.replace(graph=None)
    for method in (m for m in METHODS.values() if m.same_as is not None):
        name, damage = method.on_graph("rewire")
        assert damage in ("none", "no-graph")
        if name == method.name:
            settings = FAST.get(name, {"n_epochs": 2})
            one, two = (method.run(d, split, 0, settings).classes for d in (data, bare))
            assert np.array_equal(one, two), name
    assert METHODS["gcn"].on_graph("rewire") == ("gcn", "rewire")


def test_without_the_regulariser_nothing_is_smoothed(opened):
    data, split = opened
    run = get_method("glnn-without-glr").run
    model = run(data, split, 0, {"n_epochs": 2}).model
    own = model.settings
    assert (own["smoothness_weight"], own["weights"].smoothness) == (0.0, 0.0)
    alone = run(data.replace(graph=None), split, 0, {"n_epochs": 2}).model
    assert alone.settings == {"smoothness_weight": 0.0}


@pytest.mark.parametrize("name", ["wine", "digits"])
def test_tables_with_columns_of_many_units_are_standardised_for_all(name):
    features = load_dataset(name).features
    seen = comparable_features(features)
    if name == "digits":
        assert seen is features
    else:
        np.testing.assert_allclose(seen.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(seen.std(0), 1, atol=1e-4)


def test_a_network_for_graphs_sees_single_nodes_where_there_is_none(opened):
    data, split = opened
    outcome = get_method("gcn").run(data.replace(graph=None), split, 0, {"n_epochs": 2})
    assert outcome.classes.shape == (data.n_nodes,)
    assert outcome.n_epochs == 2


def test_an_unknown_setting_or_method_gets_a_hint(opened):
    data, split = opened
    with pytest.raises(InputError, match="Did you mean 'n_epochs'"):
        get_method("gcn").run(data, split, 0, {"n_epoch": 2})
    with pytest.raises(InputError, match="Did you mean 'chebnet'"):
        get_method("chebnett")
