import numpy as np
import pytest

from glnn_lab.benches.compare import load_bench
from glnn_lab.benches.contenders import (
    CONTENDERS,
    EPOCHS,
    PLAIN_GCN,
    dense_form,
    engine_gcn,
    fit_in_folds,
    graph_over_all_pairs,
    pro_gnn,
    pyg_gcn,
)


def test_names_are_their_keys_and_point_to_known_contenders():
    assert PLAIN_GCN in CONTENDERS
    for name, contender in CONTENDERS.items():
        assert contender.name == name
        assert contender.epochs_of is None or contender.epochs_of in CONTENDERS


def test_our_plain_network_learns_and_repeats_itself():
    data, split = load_bench("tiny")
    first, again = (engine_gcn(data, split, 0, 60) for _ in range(2))
    assert first.n_epochs == 60
    np.testing.assert_array_equal(first.classes, again.classes)
    assert (first.classes == data.labels)[split.test].mean() > 0.5


def test_folds_take_the_place_of_validation_nodes():
    data, split = load_bench("tiny")
    watched = CONTENDERS["glnn-default"].run(data, split, 0, None)
    assert fit_in_folds(data, split, 0, None).n_epochs > watched.n_epochs


def test_the_graph_over_all_pairs_says_how_many_were_checked():
    data, split = load_bench("tiny")
    ran = graph_over_all_pairs(data, split, 0, None)
    assert ran.classes is None
    assert ran.note == f"{data.n_nodes * (data.n_nodes + 1) // 2:,} pairs checked"


# Programs for comparison


def test_the_network_of_pytorch_geometric_learns():
    pytest.importorskip("torch_geometric")
    data, split = load_bench("tiny")
    ran = pyg_gcn(data, split, 0, 60)
    assert (ran.classes == data.labels)[split.test].mean() > 0.5
    assert ran.seconds is None


def test_the_dense_form_is_scaled_to_its_200_epochs():
    data, split = load_bench("tiny")
    ran = dense_form(data, split, 0, 3)
    assert ran.n_epochs == EPOCHS
    assert ran.note == "3 epochs scaled to 200"
    assert ran.seconds > 0
    assert ran.classes is None


def test_pro_gnn_is_scaled_to_its_400_epochs():
    pytest.importorskip("deeprobust")
    data, split = load_bench("tiny")
    ran = pro_gnn(data, split, 0, 2)
    assert ran.n_epochs == 400
    assert ran.seconds > 0
