import pytest

from glnn_lab.experiments.blocks import Axis, Block


def block(**fields):
    return Block(
        **{"name": "b", "title": "t", "methods": ("glnn",), "datasets": ("cora",)} | fields
    )


@pytest.mark.parametrize(
    ("axis", "field", "found"),
    [
        (Axis("share", "", (0.5,)), "share", 0.5),
        (Axis("rate", "", (0.02,)), "split_options", {"rate": 0.02}),
        (Axis("lambda0", "", (0.1,)), "settings", {"lambda0": 0.1}),
    ],
)
def test_an_axis_changes_its_part_of_the_cell(axis, field, found):
    damaged = block(axis=axis, perturbation="delete", split="rate")
    (entry,) = damaged.entries(1, ["cora"], ["glnn"])
    assert entry.value == axis.values[0]
    assert getattr(entry.cells[0], field) == found


def test_the_number_of_runs_is_the_callers_unless_block_or_rule_say_fewer():
    def n_runs(n_seeds, **fields):
        return len(block(**fields).entries(n_seeds, ["cora"], ["glnn"])[0].cells)

    rule = {"methods": ["glnn"], "datasets": ["cora"], "seeds": 2, "why": "slow"}
    assert n_runs(10) == 10
    assert n_runs(10, seeds=5) == 5
    assert n_runs(10, seeds=5, adjust=(rule,)) == 2
    assert n_runs(1, seeds=5, adjust=(rule,)) == 1


def test_a_rule_changes_settings_and_what_is_looked_at_for_its_methods_alone():
    rule = {
        "methods": ["glnn-literal"],
        "datasets": ["cora"],
        "settings": {"n_epochs": 5},
        "probe": "adjacency",
        "why": "slow",
    }
    entries = block(adjust=(rule,)).entries(1, ["cora"], ["glnn", "glnn-literal"])
    found = [(dict(e.cells[0].settings), e.cells[0].probe) for e in entries]
    assert found == [({}, "accuracy"), ({"n_epochs": 5}, "adjacency")]


def test_split_options_of_single_data_sets():
    both = block(split="count", dataset_options={"wine": {"n_labels": 10}})
    options = [dict(e.cells[0].split_options) for e in both.entries(1, ["wine", "cora"], ["glnn"])]
    assert options == [{"n_labels": 10}, {}]


def test_a_method_that_does_not_see_the_graph_runs_once_for_all_damages():
    axis = Axis("share", "", (0.25, 0.5))
    damaged = block(axis=axis, perturbation="rewire")
    for name, n_cells in (("glnn", 2), ("knn_gcn", 1), ("glnn-features-only", 1)):
        entries = damaged.entries(1, ["cora"], [name])
        assert len({cell for entry in entries for cell in entry.cells}) == n_cells
        assert {entry.method for entry in entries} == {name}


def test_what_is_skipped_has_a_reason():
    rule = {"methods": ["glnn"], "datasets": ["cora"], "why": "no"}
    assert block(skip=(rule,)).skip_reason("glnn", "cora") == "no"
    assert block(skip=(rule,)).entries(1, ["cora"], ["glnn"]) == []
