import time
from functools import partial

import numpy as np
import pytest

from glnn import GLNNClassifier, evaluate
from glnn_lab.experiments import trust
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.trust import (
    PLAN,
    Draw,
    TrustMeasure,
    draw_calibration,
    draw_choice,
    draw_coverage,
    draw_influence,
    draw_noise,
    draw_sets,
    draw_suspects,
    draw_uneven,
    gather_rows,
    influence_rows,
    label_at_random,
    label_per_class,
    list_draws,
    load_table,
    mean_rank_correlation,
    run_draws,
)


@pytest.mark.parametrize("name", ["moons", "uneven", "wide", "gaps", "text", "dates", "block"])
def test_a_table_is_finite_and_the_same_for_the_same_seed(name):
    x, y, graph = load_table(name, 3)
    dense = x.toarray() if hasattr(x, "toarray") else x
    assert np.isfinite(dense).all()
    assert len(dense) == len(y)
    assert (graph is not None) == (name == "block")
    again = load_table(name, 3)[0]
    assert np.array_equal(dense, again.toarray() if hasattr(again, "toarray") else again)


def test_the_uneven_table_has_classes_of_80_15_and_5_percent():
    shares = np.bincount(load_table("uneven", 0)[1]) / 2000
    np.testing.assert_allclose(shares, [0.8, 0.15, 0.05], atol=0.02)


def test_columns_of_text_and_dates_become_numbers_beside_the_eight_of_the_table():
    assert load_table("text", 0)[0].shape[1] > 8
    assert load_table("dates", 0)[0].shape == (400, 9)
    gaps = load_table("gaps", 0)[0]
    assert set(np.unique(gaps[:, 1::2])) <= {0.0, 1.0}  # a mark beside each column


def test_labels_that_are_shown_are_true():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(50) < 5, -1, np.arange(50) % 3)
    for shown in (label_at_random(y, 12, rng), label_per_class(y, 4, rng)):
        assert (shown >= 0).sum() == 12
        assert (shown[shown >= 0] == y[shown >= 0]).all()


# Draws on predictions

QUICK = {"n_epochs": 10, "n_rounds": 1}


@pytest.fixture(autouse=True)
def quick_fits(monkeypatch):
    quick = partial(GLNNClassifier, **QUICK)
    monkeypatch.setattr(trust, "GLNNClassifier", quick)
    judged = partial(evaluate, estimator=quick(random_state=0), folds=2)
    monkeypatch.setattr(trust, "evaluate", judged)


def test_noise_is_judged_on_labels_that_no_fit_has_seen():
    found = draw_noise((150, 4, 2, True), 0)
    assert found["says chance"] == 1
    assert 0.3 < found["accuracy"] < 0.7
    assert found["confidence"] >= 0.5


def test_a_draw_is_covered_if_the_truth_lies_within_the_half_width():
    found = draw_coverage(("iris", 30), 0)
    distance = abs(found["estimate"] - found["true accuracy"])
    assert found["covered"] in (0, 1)
    if distance > 2 * found["half width"]:
        assert found["covered"] == 0


@pytest.mark.parametrize("case", [("iris", 5, 20, "auto"), ("iris", 30, 0, "auto")])
def test_errors_are_measured_before_and_after_calibration(case):
    found = draw_calibration(case, 0)
    assert set(found) == {
        f"{when}{what}" for when in ("raw ", "") for what in ("error", "log loss", "accuracy")
    }
    assert found["log loss"] <= found["raw log loss"] + 0.1


def test_the_plain_method_has_the_same_labels(monkeypatch):
    monkeypatch.setattr(trust, "load_table", lambda name, seed: iris())
    found = draw_uneven(("iris", 30), 0)
    assert found["logistic"] > 0.8
    assert {"none", "balanced"} < set(found)


def iris():
    from sklearn.datasets import load_iris

    return *load_iris(return_X_y=True), None


def test_sets_are_counted_at_hidden_nodes():
    found = draw_sets(("iris", 8), 0)
    assert 0.5 < found["coverage"] <= 1
    assert 0 < found["size"] <= 3


def test_planted_mistakes_are_counted(monkeypatch):
    found = draw_suspects(("iris", 20), 0)
    assert 0 <= found["precision"] <= 1
    assert np.isclose(found["recall"] * 6, round(found["recall"] * 6))  # of six planted ones


# Draws on explanations and suggestions


@pytest.fixture
def short_fits(monkeypatch):
    quick = partial(GLNNClassifier, n_epochs=5)
    monkeypatch.setattr(trust, "GLNNClassifier", quick)


def test_effects_are_those_of_every_label_at_every_hidden_node(short_fits, monkeypatch):
    monkeypatch.setattr(trust, "_MAX_TABLE_ROWS", 40)
    found = draw_influence(("iris", 2, 0), 0)
    assert set(found) == {"real", "estimated", "explained"}
    for effects in found.values():
        assert effects.shape == (6, 34)
        assert np.abs(effects).max() > 0
    assert "explained" not in draw_influence(("iris", 2, 0), 1)


def test_effects_are_ranked_in_the_same_fit_and_over_all_seeds():
    real = np.random.default_rng(0).normal(size=(4, 5, 7))
    rows = [{"real": effects, "estimated": -real.mean(0)} for effects in real]
    rows[1]["explained"] = 2 * real[1]
    found = influence_rows(rows)
    assert found["rank correlation"] == pytest.approx(1)
    assert found["estimate"] == pytest.approx(-1)
    assert found["half against half"] == pytest.approx(
        mean_rank_correlation(real[:2].sum(0), real[2:].sum(0))
    )
    alone = [mean_rank_correlation(real[k], np.delete(real, k, 0).mean(0)) for k in range(4)]
    assert found["one fit"] == pytest.approx(np.mean(alone))
    assert (found["seeds"], found["nodes"]) == (4, 7)
    assert "half against half" not in influence_rows(rows[1:2])


def test_nodes_that_no_label_moves_have_nothing_to_rank():
    moved = np.array([0.3, -0.2, 0.1])
    still = 1e-3 * moved[::-1]
    real = np.stack([moved, still], 1)
    said = np.stack([moved, moved], 1)
    found = influence_rows([{"real": real, "estimated": said, "explained": said}])
    assert found["nodes"] == 1
    assert found["rank correlation"] == found["estimate"] == pytest.approx(1)


def test_columns_without_a_rank_take_no_part():
    first = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert mean_rank_correlation(
        first, np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    ) == pytest.approx(1)


def test_suggested_and_random_labels_are_measured_at_equal_numbers(short_fits, monkeypatch):
    monkeypatch.setattr(trust, "SIZES", (2, 3))
    monkeypatch.setattr(trust, "_N_TEST", 50)
    found = draw_choice(("iris",), 0)
    assert found["gain"] == pytest.approx(found["suggested 3"] - found["random 3"])
    assert 0.2 < found["random 3"] <= 1


# The plan


def number(case, seed):
    return {"value": case[0] * seed}


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.setitem(PLAN, "one", TrustMeasure(number, ((1,), (2,)), 4))
    total = TrustMeasure(number, ((3,),), 2, lambda rows: {"sum": sum(r["value"] for r in rows)})
    monkeypatch.setitem(PLAN, "two", total)


def test_draws_of_all_cases_take_turns(plan):
    draws = list_draws(["one", "two"], 200)
    assert len(draws) == 2 * 4 + 2
    assert [draw.case for draw in draws[:3]] == [(1,), (2,), (3,)]
    assert {draw.seed for draw in draws if draw.name == "one"} == {200, 201, 202, 203}
    assert len(list_draws(["one", "two"], 200, most=1)) == 3


def test_draws_that_count_together_become_one_row(plan):
    rows = gather_rows(list(run_draws(list_draws(["two", "one"], 10), 1)))
    assert [row["value"] for row in rows if row["what"] == "one"][:4] == [10, 11, 12, 13]
    (total,) = (row for row in rows if row["what"] == "two")
    assert total["sum"] == 3 * 10 + 3 * 11
    assert total["case"] == [3]


def test_after_the_deadline_nothing_begins(plan):
    assert Draw("one", (1,), 5).make()["value"] == 5
    assert Draw("one", (1,), 5).make(time.time() - 1) is None
    assert list(run_draws(list_draws(["one"], 1), 1, time.time() - 1)) == []


def test_intervals_are_drawn_a_hundred_times_over_ten_tables():
    cases = PLAN["coverage"].cases
    assert len({case[0] for case in cases}) == 10
    assert len(cases) * PLAN["coverage"].n_draws == 100
    assert FIRST_SEED == 200
