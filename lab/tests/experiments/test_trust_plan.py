import time

import pytest

from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.trust_plan import PLAN, Draw, Measure, draws_of, gathered, made


def number(case, seed):
    return {"value": case[0] * seed}


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.setitem(PLAN, "one", Measure(number, ((1,), (2,)), 4))
    total = Measure(number, ((3,),), 2, lambda rows: {"sum": sum(r["value"] for r in rows)})
    monkeypatch.setitem(PLAN, "two", total)


def test_draws_of_all_cases_take_turns(plan):
    draws = draws_of(["one", "two"], 200)
    assert len(draws) == 2 * 4 + 2
    assert [draw.case for draw in draws[:3]] == [(1,), (2,), (3,)]
    assert {draw.seed for draw in draws if draw.name == "one"} == {200, 201, 202, 203}
    assert len(draws_of(["one", "two"], 200, most=1)) == 3


def test_draws_that_count_together_become_one_row(plan):
    rows = gathered(list(made(draws_of(["two", "one"], 10), 1)))
    assert [row["value"] for row in rows if row["what"] == "one"][:4] == [10, 11, 12, 13]
    (total,) = (row for row in rows if row["what"] == "two")
    assert total["sum"] == 3 * 10 + 3 * 11
    assert total["case"] == [3]


def test_after_the_deadline_nothing_begins(plan):
    assert Draw("one", (1,), 5).make()["value"] == 5
    assert Draw("one", (1,), 5).make(time.time() - 1) is None
    assert list(made(draws_of(["one"], 1), 1, time.time() - 1)) == []


def test_intervals_are_drawn_a_hundred_times_over_ten_tables():
    cases = PLAN["coverage"].cases
    assert len({case[0] for case in cases}) == 10
    assert len(cases) * PLAN["coverage"].n_draws == 100
    assert FIRST_SEED == 200
