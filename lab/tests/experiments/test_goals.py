import pytest

from glnn_lab.experiments.blocks import Goal
from glnn_lab.experiments.goals import verdicts
from glnn_lab.experiments.results import block_results
from glnn_lab.experiments.targets import cells_of, parse_target


@pytest.fixture
def judged(small_target):
    """Return a function that holds a goal against accuracies in percent."""
    page = small_target("glnn", "gcn", "gat")

    def judge(goal, percent=None):
        numbers = {"glnn": 85.5, "gcn": 80.0, "gat": 82.0} | (percent or {})
        chosen = parse_target("t", page + f"goals = [{goal}]").choose()
        cells = cells_of(chosen)
        records = [
            {"id": c.id, "seed": c.seed, "accuracy": numbers[c.method] / 100}
            for c in cells
            if numbers[c.method] is not None
        ]
        (results,) = block_results(chosen, records)
        return verdicts(results)

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
