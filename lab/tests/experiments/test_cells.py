import pickle

import pytest

from glnn.exceptions import InputError
from glnn_lab.experiments.cells import Cell


def test_the_id_never_changes():
    cell = Cell("gcn", "cora", 3, "rate", {"rate": 0.01, "balance": "balanced"}, "delete", 0.5)
    assert cell.id == "e4581a66401c4256"


def test_the_id_does_not_depend_on_the_order_of_options():
    one = Cell("gcn", "cora", 0, "rate", {"rate": 0.01, "n_val": 5}, settings={"a": 1, "b": 2})
    other = Cell("gcn", "cora", 0, "rate", {"n_val": 5, "rate": 0.01}, settings={"b": 2, "a": 1})
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "gat"},
        {"dataset": "citeseer"},
        {"seed": 1},
        {"split": "public"},
        {"split_options": {"rate": 0.02}},
        {"perturbation": "add", "share": 0.5},
        {"perturbation": "no-graph"},
        {"settings": {"n_epochs": 3}},
        {"probe": "adjacency"},
    ],
)
def test_every_field_counts_in_the_id(change):
    cell = Cell("gcn", "cora", 0, "rate", {"rate": 0.01})
    assert Cell.from_dict(cell.to_dict() | change).id != cell.id


@pytest.mark.parametrize("kind", ["delete", "add", "rewire", "none"])
def test_nothing_done_to_the_graph_is_one_cell_whatever_its_name(kind):
    assert Cell("gcn", "cora", 0, "public", perturbation=kind) == Cell("gcn", "cora", 0, "public")


def test_a_cell_travels_to_other_processes():
    cell = Cell("gcn", "cora", 0, "rate", {"rate": 0.01}, settings={"n_epochs": 3})
    assert pickle.loads(pickle.dumps(cell)) == cell


def test_options_cannot_be_changed_afterwards():
    options = {"rate": 0.01}
    cell = Cell("gcn", "cora", 0, "rate", options)
    before = cell.id
    options["rate"] = 0.5
    assert cell.id == before
    with pytest.raises(TypeError):
        cell.split_options["rate"] = 0.5


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"seed": -1}, "seed"),
        ({"perturbation": "delet"}, "delete"),
        ({"share": -0.5}, "share"),
        ({"probe": "time"}, "probe"),
        ({"settings": {"weights": [1, 2]}}, "plain values"),
    ],
)
def test_a_wrong_field_is_one_line(fields, word):
    good = {"method": "gcn", "dataset": "cora", "seed": 0, "split": "public"}
    with pytest.raises(InputError, match=word):
        Cell(**good | fields)


def test_a_record_without_its_cell_is_refused():
    with pytest.raises(InputError, match="dataset"):
        Cell.from_dict({"method": "gcn", "seed": 0, "split": "public"})
