import pytest

from glnn_lab.benches.compare import open_bench
from glnn_lab.benches.rivals import EPOCHS, dense_form, pro_gnn, pyg_gcn


def test_the_network_of_pytorch_geometric_learns():
    pytest.importorskip("torch_geometric")
    data, split = open_bench("tiny")
    ran = pyg_gcn(data, split, 0, 60)
    assert (ran.classes == data.labels)[split.test].mean() > 0.5
    assert ran.seconds is None


def test_the_dense_form_is_scaled_to_its_200_epochs():
    data, split = open_bench("tiny")
    ran = dense_form(data, split, 0, 3)
    assert ran.n_epochs == EPOCHS
    assert ran.note == "3 epochs scaled to 200"
    assert ran.seconds > 0
    assert ran.classes is None


def test_pro_gnn_is_scaled_to_its_400_epochs():
    pytest.importorskip("deeprobust")
    data, split = open_bench("tiny")
    ran = pro_gnn(data, split, 0, 2)
    assert ran.n_epochs == 400
    assert ran.seconds > 0
