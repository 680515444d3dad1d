import pytest

from glnn_lab.experiments.blocks import Goal
from glnn_lab.experiments.goals import check_goals
from glnn_lab.experiments.published import (
    COLUMNS,
    LAMBDA0,
    NUMBERS,
    ROBUSTNESS,
    TABLE1,
    TABLE2,
    published_value,
)
from glnn_lab.experiments.records import join_results
from glnn_lab.experiments.targets import list_cells, parse_target


@pytest.fixture
def judged(small_target):
    """Return a function that holds a goal against accuracies in percent."""
    page = small_target("glnn", "gcn", "gat")

    def judge(goal, percent=None):
        numbers = {"glnn": 85.5, "gcn": 80.0, "gat": 82.0} | (percent or {})
        chosen = parse_target("t", page + f"goals = [{goal}]").choose()
        cells = list_cells(chosen)
        records = [
            {"id": c.id, "seed": c.seed, "accuracy": numbers[c.method] / 100}
            for c in cells
            if numbers[c.method] is not None
        ]
        (results,) = join_results(chosen, records)
        return check_goals(results)

    return judge


@pytest.mark.parametrize(
    ("words", "is_met", "gap"),
    [
        ("goal = 85.5", True, 0.0),
        ("goal = 85.6", False, -0.1),
        ('published = [["x", 85.5], ["y", 80.0]]', False, 0.0),
        ('published = [["x", 85.4]]', True, 0.1),
        ('goal = 80.0, published = [["x", 90.0]]', True, 5.5),
        ('above = ["gcn", "gat"]', True, 3.5),
        ("margins = { gcn = 5.5 }", True, 0.0),
        ('above = ["gat"], margins = { gcn = 6.0 }', False, -0.5),
    ],
)
def test_every_bar_must_be_passed_and_the_gap_is_to_the_highest(judged, words, is_met, gap):
    (verdict,) = judged(f'{{ setting = "s", dataset = "cora", {words} }}')
    assert verdict.is_met is is_met
    assert verdict.gap == pytest.approx(gap, abs=1e-9)


def test_without_runs_there_is_no_verdict(judged):
    goal = '{ setting = "s", dataset = "cora", above = ["gat"], goal = 80.0 }'
    (verdict,) = judged(goal, {"gat": None})
    assert verdict.is_met is None
    (verdict,) = judged(goal, {"glnn": None})
    assert (verdict.is_met, verdict.gap) == (None, None)


def test_a_goal_for_a_set_that_was_not_asked_for_is_left_out(judged):
    assert judged('{ setting = "s", dataset = "citeseer", goal = 80.0 }') == []
    assert Goal("s", "cora").above == ()


# Published numbers


def test_every_place_has_one_number():
    assert len({(n.table, n.row, n.column) for n in NUMBERS}) == len(NUMBERS)
    assert sum(n.table == TABLE1 for n in NUMBERS) == 9 * 5 - 3
    assert sum(n.table == TABLE2 for n in NUMBERS) == 5 * 6


@pytest.mark.parametrize("column", COLUMNS)
def test_glnn_is_the_best_of_its_table_and_the_best_of_the_other(column):
    first = [n.value for n in NUMBERS if n.table == TABLE1 and n.column == column]
    second = [n.value for n in NUMBERS if n.table == TABLE2 and n.row == column]
    assert published_value(TABLE1, "GLNN", column) == max(first) == max(second)


def test_columns_of_the_second_table_are_values_of_the_weight():
    assert published_value(TABLE2, "cora", str(0.01)) == 83.4
    assert all(str(float(value)) == value for value in LAMBDA0)


def test_where_the_paper_has_nothing_there_is_nothing():
    assert published_value(TABLE1, "Planetoid", "terrorattack") is None
    assert published_value(TABLE1, None, "cora") is None
    assert published_value(ROBUSTNESS, "GLNN", "cora") == 58.0
