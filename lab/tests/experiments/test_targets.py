import pytest

from glnn.exceptions import InputError
from glnn_lab.experiments.datasets import NAMES, load_cell
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.targets import (
    PAPER_TARGETS,
    get_target,
    list_cells,
    parse_target,
    target_names,
)


@pytest.mark.parametrize("name", target_names())
def test_every_target_can_be_read_and_has_ten_seeds(name):
    chosen = get_target(name).choose()
    cells = list_cells(chosen)
    assert len(cells) == len(set(cells))
    assert {cell.seed for cell in cells} == set(range(300, 310))
    assert len({block.name for block, _ in chosen}) == len(chosen)
    assert all(cell.method in METHODS and cell.dataset in NAMES for cell in cells)


def test_the_papers_targets_come_first():
    assert tuple(target_names()[:4]) == PAPER_TARGETS


def test_table1_has_every_method_on_every_set_but_for_what_it_says():
    (_, five), (full, entries) = get_target("table1").choose()
    n_methods = sum(not method.is_variant for method in METHODS.values())
    assert len(five) == n_methods * 5
    assert len(entries) == n_methods - 1
    assert "6 GB" in full.skip_reason("glnn-literal", "pubmed")
    assert full.skip_reason("glnn-literal", "cora") is None
    slow = {e.method for e in five if len(e.cells) < 10}
    often = {"longae", "gat", "planetoid", "dgi", "gwnn", "deepwalk", "monet", "chebnet", "appnp"}
    assert slow == {"glnn-literal"} | often


def test_runs_of_two_targets_are_the_same_cells():
    def ids(target, *choice):
        return {cell.id for cell in list_cells(get_target(target).choose(*choice))}

    default = ids("accuracy", 3, None, ["glnn-default"])
    assert ids("table1", 3, ["cora", "citeseer", "pubmed"], ["glnn-default"]) < default
    rewired = {
        c.id for c in list_cells(get_target("robustness").choose()) if c.perturbation == "rewire"
    }
    assert len(rewired & ids("accuracy")) >= 3 * 2 * 3  # shares x methods x seeds
    pictures = ids("adjacency", 10, None, ["glnn-literal"])
    assert pictures < ids("table1", 10, None, ["glnn-literal"])


def test_the_accuracy_target_has_every_setting_and_every_part():
    target = get_target("accuracy")
    goals = [goal for block in target.blocks for goal in block.goals]
    assert len(goals) == 4 + 2 + 1 + 3 + 3 + 2 + 6 + 4 + 2 + 6 + 6 + 4 + 3
    assert len({goal.setting for goal in goals}) == len(goals)
    for block, entries in target.choose():
        places = {(entry.dataset, entry.value) for entry in entries}
        assert {(goal.dataset, goal.at) for goal in block.goals} <= places
        named = {name for goal in block.goals for name in (*goal.above, *goal.margins)}
        assert named | {goal.method for goal in block.goals} <= set(block.methods)
        if block.goals:
            assert {e for e in entries if e.method == "glnn" and len(e.cells) < 10} == set()
    variants = {m for b in target.blocks if b.is_ablation for m in b.methods}
    own = {m.name for m in METHODS.values() if m.is_variant and m.name.startswith("glnn")}
    assert variants == {"glnn"} | own


def test_tables_have_so_many_labels_and_no_validation_nodes():
    block, entries = get_target("accuracy").choose(1, ["digits", "wine"], ["random_forest"])[0]
    assert block.name == "tables"
    sizes = [
        tuple(part.size for part in load_cell(e.cells[0])[1].as_dict().values()) for e in entries
    ]
    assert sizes == [(50, 0, 1747), (10, 0, 168)]


def test_table2_changes_one_weight():
    chosen = get_target("table2").choose(1, ["cora"])
    by_name = {block.name: entries for block, entries in chosen}
    for name, key in (("paper", "lambda0"), ("predictions", "smoothness_weight")):
        settings = [dict(entry.cells[0].settings) for entry in by_name[name]]
        assert settings == [{key: v} for v in (1.0, 0.1, 0.01, 0.001, 0.0001, 0.0)]


def test_label_rates_are_balanced_draws_with_validation_nodes():
    block, entries = get_target("robustness").choose(1, ["cora"], ["gwnn"])[0]
    assert block.name == "label_rates"
    options = [dict(entry.cells[0].split_options) for entry in entries]
    assert [o["rate"] for o in options] == [0.005, 0.01, 0.015, 0.02, 0.025]
    assert all(o["balance"] == "balanced" and o["n_val"] == 500 for o in options)


def test_the_untouched_graph_is_one_cell_in_all_kinds_of_damage():
    chosen = get_target("robustness").choose(1, ["cora"], ["gcn"])
    cells = list_cells(chosen)
    assert sum(c.perturbation == "none" and c.split == "paper" for c in cells) == 1
    kinds = {"none", "delete", "add", "rewire", "poison", "no-graph"}
    assert {c.perturbation for c in cells} == kinds


def test_a_group_means_those_of_its_methods_that_a_block_has():
    def methods(target, *names):
        return {c.method for c in list_cells(get_target(target).choose(1, None, names))}

    assert methods("table1", "glnn") == {"glnn", "glnn-paper", "glnn-literal"}
    assert methods("table1", "glnn-default", "gcn") == {"glnn", "gcn"}
    assert methods("robustness", "glnn") == {"glnn", "glnn-paper"}
    assert methods("table1", "all") == {m.name for m in METHODS.values() if not m.is_variant}


def test_an_open_block_takes_other_methods_and_a_closed_one_does_not():
    assert list_cells(get_target("robustness").choose(1, ["cora"], ["gat"]))
    with pytest.raises(InputError, match="glnn-paper"):
        get_target("table2").choose(1, None, ["gat"])


def test_a_data_set_that_a_target_lacks_joins_every_block():
    chosen = get_target("robustness").choose(1, ["cora", "block_model"], ["gcn"])
    assert all("block_model" in {e.dataset for e in entries} for _, entries in chosen)


@pytest.mark.parametrize(
    ("datasets", "methods", "hint"),
    [(["coraa"], None, "cora"), (None, ["gccn"], "gcn"), (None, ["glnn-papr"], "glnn-paper")],
)
def test_an_unknown_name_gets_a_hint(datasets, methods, hint):
    with pytest.raises(InputError, match=f"Did you mean '{hint}'"):
        get_target("table1").choose(1, datasets, methods)


def test_an_unknown_target_gets_a_hint():
    with pytest.raises(InputError, match="Did you mean 'table1'"):
        get_target("tabel1")


def test_a_target_is_a_file_and_its_mistakes_are_named(small_target):
    page = small_target("glnn", "gcn")
    target = parse_target("small", page)
    assert len(list_cells(target.choose())) == 4
    with pytest.raises(InputError, match="Did you mean 'datasets'"):
        parse_target("small", page + 'dataset = ["cora"]')
    with pytest.raises(InputError, match="Did you mean 'setting'"):
        parse_target("small", page + 'goals = [{ seting = "x", dataset = "cora" }]')
    with pytest.raises(InputError, match="Did you mean 'gcn'"):
        parse_target("small", small_target("glnn", "gcnn"))


def test_settings_of_one_method_on_some_sets(small_target):
    rule = '[[block.adjust]]\nmethods = ["gcn"]\ndatasets = ["cora"]\nsettings = {n_epochs = 3}\n'
    cells = list_cells(parse_target("small", small_target("glnn", "gcn") + rule).choose(1))
    assert {c.method: dict(c.settings) for c in cells} == {"glnn": {}, "gcn": {"n_epochs": 3}}
