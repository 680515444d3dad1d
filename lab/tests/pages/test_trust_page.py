import pytest

from glnn_lab.experiments.trust import PLAN
from glnn_lab.pages.trust_page import GOALS, goal_rows, trust_page


def row(what, case, seed=300, **numbers):
    return {"what": what, "case": case, "seed": seed, "seconds": 30.0, **numbers}


def table(kind="features", seed=300, what="tables", **changes):
    """A row of a table on which every goal is met."""
    numbers = {"accuracy": 0.9, "confidence": 0.9, "error": 0.03, "least error": 0.02}
    numbers |= {"raw accuracy": 0.9, "raw confidence": 0.95, "raw error": 0.05}
    numbers |= {"covered": seed != 300, "low": 0.8, "high": 0.95}
    numbers |= {"set coverage": 0.9, "set size": 1.2, "labels": 100}
    numbers |= {"wrong": 0, "estimated wrong": 0.5, "suspects": 0, "wrong suspects": 0}
    return row(what, [kind], seed, **numbers | {k.replace("_", " "): v for k, v in changes.items()})


def met(rows, words):
    """Whether the goal whose words begin so is met."""
    (line,) = (line for line in goal_rows(rows) if line[0].startswith(words))
    return line[-1] == "met"


def test_every_measure_has_a_goal():
    assert {name for goal in GOALS for name in goal.measures} == set(PLAN)


def test_every_goal_of_a_good_table_is_met():
    rows = [table(seed=seed) for seed in range(300, 320)]
    assert {line[-1] for line in goal_rows(rows)} == {"met"}
    assert {line[2] for line in goal_rows(rows)} == {"20"}


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("mean confidence within 0.04", {"confidence": 0.95}),
        ("confidence within 0.12", {"confidence": 0.75}),
        ("calibration error at most 0.05", {"error": 0.06}),
        ("calibration error at most 0.02 above raw", {"error": 0.08}),
        ("the interval contains", {"covered": True}),
        ("`predict_set(0.1)`", {"set_coverage": 0.95}),
        ("right labels", {"suspects": 3}),
    ],
)
def test_goals_of_tables_can_be_missed(words, changes):
    rows = [table(seed=seed) for seed in range(300, 320)]
    assert met(rows, words)
    assert not met([{**one, **table(**changes)} for one in rows], words)


def test_every_verdict_on_noise_must_be_chance():
    words = "noise is called no better"
    right, wrong = table("noise", verdict="chance"), table("noise graph", verdict="better")
    assert met([right, right], words) and not met([right, wrong], words)


def test_each_draw_of_the_customers_counts():
    good, bad = table("customers"), table("customers", confidence=0.8)
    words = "confidence within 0.08"
    assert met([good], words) and not met([good, bad], words)


def test_precision_is_over_tables_with_suspects_and_recall_over_all():
    found = {"wrong": 10, "suspects": 10, "wrong_suspects": 8, "estimated_wrong": 9.0}
    some, none = (
        table("mistakes", **found),
        table("cora", **found | {"suspects": 0} | {"wrong_suspects": 0}),
    )
    assert met([some, some, none], "10 % planted")
    assert not met([some, none], "10 % planted")  # recall 0.4
    line = next(line for line in goal_rows([some, none]) if line[0].startswith("10 %"))
    assert line[3].startswith("precision 0.80, recall 0.40")


@pytest.mark.parametrize(
    ("drawn", "is_met"),
    [
        ([row("uneven", ["u", 200], balanced=0.5, logistic=0.5, none=0.4)], True),
        ([row("choice", ["cora"], s, gain=g) for s, g in enumerate((0.04, 0.05, 0.05))], True),
        ([row("choice", ["cora"], s, gain=g) for s, g in ((300, -0.04), (301, 0.05))], False),
    ],
)
def test_goals_of_other_measures(drawn, is_met):
    (line,) = goal_rows(drawn)
    assert line[-1] == ("met" if is_met else "**missed**")


def test_effects_of_labels_are_shown_with_what_they_are_held_against():
    effects = {"rank correlation": 0.7, "one fit": 0.6, "half against half": 0.9}
    (line,) = goal_rows([row("influence", ["iris"], **effects, nodes=30, seeds=24)])
    assert line[3].startswith("0.70 at 30 nodes")
    assert line[3].endswith("0.60, half of the 24 seeds and the other 0.90")
    assert line[-1] == "**missed**"


def test_the_page_says_how_it_was_made():
    page = {"versions": {"python": "3.12"}, "rows": [table(seed=s) for s in range(300, 320)]}
    words = trust_page(page)
    assert "seeds from 300 on, 10 minutes of one core; python 3.12" in words
    assert "| all without planted mistakes | 20 | 0.900, 1.20 classes a set | met |" in words
