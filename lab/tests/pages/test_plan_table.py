from glnn_lab.experiments.store import ResultStore
from glnn_lab.experiments.targets import cells_of, get_target
from glnn_lab.pages.plan_table import plan_of, plan_table, plan_words
from glnn_lab.pages.reproduction import Wanted

WANTED = Wanted(2, ("cora",), ("gcn",))


def test_cells_and_times_of_all_targets_each_once(tmp_path):
    targets = [get_target("table1"), get_target("accuracy")]
    first, *_ = cells_of(WANTED.chosen(targets[0]))
    ResultStore(tmp_path).append({"id": first.id, **first.to_dict(), "cpu_seconds": 3.0})
    plan = plan_of(targets, WANTED, tmp_path)
    n_cells = len({cell for target in targets for cell in cells_of(WANTED.chosen(target))})
    assert plan_table(plan).rows == [
        ["gcn", str(n_cells), str(n_cells), f"{3 * n_cells}"],
        ["all", str(n_cells), str(n_cells), f"{3 * n_cells}"],
    ]
    left = f"the others need about {3 * (n_cells - 1)} core seconds."
    assert plan_words(plan) == f"1 of {n_cells} cells are finished; {left}"


def test_without_earlier_times_nothing_is_promised(tmp_path):
    plan = plan_of([get_target("table1")], WANTED, tmp_path)
    assert plan_words(plan) == "0 of 2 cells are finished; 2 have no earlier time to go by."
    assert plan_table(plan).rows[0] == ["gcn", "2", "2", "–"]
