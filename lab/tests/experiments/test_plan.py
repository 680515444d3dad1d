from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.plan import make_plan


def record(cell, seconds):
    return {"id": cell.id, **cell.to_dict(), "accuracy": 0.5, "cpu_seconds": seconds}


def test_cells_are_counted_once_by_method_and_data_set():
    cells = [Cell(m, "cora", s, "public") for m in ("glnn", "gcn") for s in (0, 1)]
    plan = make_plan([*cells, cells[0]], [])
    assert dict(plan.n_cells) == {("glnn", "cora"): 2, ("gcn", "cora"): 2}
    assert (plan.methods, plan.datasets) == (["glnn", "gcn"], ["cora"])
    assert (plan.n_unknown, plan.seconds_left) == (4, 0.0)


def test_a_cell_is_expected_to_take_what_the_most_like_ones_took():
    done, like, other = (Cell("glnn", "cora", s, "public") for s in (0, 1, 2))
    short = Cell("glnn", "cora", 0, "public", settings={"n_rounds": 1})
    records = [record(done, 4.0), record(other, 8.0), record(short, 1.0)]
    plan = make_plan([done, like], records)
    assert (sum(plan.n_done.values()), plan.n_unknown) == (1, 0)
    assert plan.seconds_left == 6.0  # not that of other settings
    assert plan.seconds["glnn", "cora"] == 10.0
    longer = Cell("glnn", "cora", 1, "public", settings={"n_rounds": 9})
    assert make_plan([longer], records).seconds_left == 13 / 3


def test_another_method_or_data_set_says_nothing():
    known = record(Cell("gcn", "cora", 0, "public"), 1.0)
    plan = make_plan(
        [Cell("gcn", "citeseer", 0, "public"), Cell("gat", "cora", 0, "public")], [known]
    )
    assert (plan.n_unknown, plan.seconds_left) == (2, 0.0)
