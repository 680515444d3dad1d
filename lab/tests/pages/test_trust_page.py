import pytest

from glnn_lab.experiments.trust import PLAN
from glnn_lab.pages.trust_page import GOALS, goal_rows, trust_page


def row(what, case, seed=200, **numbers):
    return {"what": what, "case": case, "seed": seed, "seconds": 1.0, **numbers}


def test_every_measure_has_a_goal():
    assert {goal.what for goal in GOALS} == set(PLAN)


@pytest.mark.parametrize(
    ("drawn", "met"),
    [
        ([row("sets", ["digits", 10], coverage=0.9, size=1.2)], "met"),
        ([row("sets", ["digits", 10], coverage=0.95, size=2.2)], "**missed**"),
        ([row("calibration", ["cora"], **{"error": 0.04, "raw error": 0.2})], "met"),
        ([row("calibration", ["cora"], **{"error": 0.06, "raw error": 0.2})], "**missed**"),
        ([row("uneven", ["u", 200], balanced=0.5, logistic=0.5, none=0.4)], "met"),
        ([row("choice", ["cora"], s, gain=g) for s, g in enumerate((0.04, 0.05, 0.05))], "met"),
        (
            [row("choice", ["cora"], s, gain=g) for s, g in ((200, -0.04), (201, 0.05))],
            "**missed**",
        ),
    ],
)
def test_goals_are_met_or_missed(drawn, met):
    (line,) = goal_rows(drawn)
    assert line[-1] == met
    assert line[2] == str(len(drawn))


def test_intervals_are_counted_over_all_tables_together():
    drawn = [
        row("coverage", [name, 40], seed, covered=float(seed > 200), **{"half width": 0.1})
        for name in ("wine", "iris")
        for seed in range(200, 210)
    ]
    (line,) = goal_rows(drawn)
    assert line[1] == "wine, iris"
    assert line[3].startswith("18 of 20 draws; intervals of ± 10 points")
    assert line[-1] == "met"


def test_noise_must_be_told_in_every_draw():
    numbers = {"accuracy": 0.25, "confidence": 0.3, "raw confidence": 0.99}
    told = row("noise", [600, 30], **numbers, **{"says chance": 1.0})
    assert goal_rows([told])[0][-1] == "met"
    assert goal_rows([told, {**told, "says chance": 0.0}])[0][-1] == "**missed**"


def test_planted_mistakes_and_effects_of_labels_are_shown_with_what_they_are_held_against():
    doubted = {"precision": 0.6, "recall": 0.5, "accuracy": 0.8, "accuracy without them": 0.82}
    effects = {"rank correlation": 0.7, "estimate": 0.5, "one fit": 0.6, "half against half": 0.9}
    effects |= {"nodes": 30, "seeds": 24}
    same, mean, suspects = goal_rows(
        [row("suspects", ["cora"], **doubted), row("influence", ["iris"], **effects)]
    )
    assert suspects[3].endswith("accuracy 80.0 %, 82.0 % without them")
    assert suspects[-1] == "met"
    assert same[3:] == ["0.70", "**missed**"]
    assert mean[3].startswith("0.50 at 30 nodes that a label moves by 0.05; one fit and the others")
    assert mean[3].endswith("0.60, half of the 24 seeds and the other 0.90")
    assert mean[-1] == "**missed**"


def test_the_page_says_how_it_was_made():
    rows = [row("sets", ["digits", 10], coverage=0.9, size=1.2)]
    page = {"versions": {"python": "3.12"}, "jobs": 16, "seconds": 600, "rows": rows}
    words = trust_page(page)
    assert "seeds from 200 on, 16 draws at a time, 10 minutes; python 3.12" in words
    assert "| digits, 10 | 1 | 0.900, 1.20 classes a set | met |" in words
