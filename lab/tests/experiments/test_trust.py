import time
from functools import partial

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn_lab.experiments import trust
from glnn_lab.experiments.trust import (
    PLAN,
    TABLE_MEASURES,
    Draw,
    TrustMeasure,
    draw_choice,
    draw_graph,
    draw_table,
    draw_uneven,
    influence_rows,
    label_per_class,
    list_draws,
    load_table,
    make_table,
    mean_rank_correlation,
    measure_effects,
    move_labels,
    run_draws,
    show_labels,
)

# Tables

KINDS = ("features", "graph", "noise", "noise graph", "customers", "mistakes")


@pytest.mark.parametrize("kind", [*KINDS, "digits", "right digits"])
def test_a_table_is_finite_and_the_same_for_the_same_seed(kind):
    for seed in (1, 2):
        table, again = make_table(kind, seed), make_table(kind, seed)
        assert np.isfinite(table.x).all()
        np.testing.assert_array_equal(table.x, again.x)
        np.testing.assert_array_equal(table.seen, again.seen)
        assert len(table.x) == len(table.y) == len(table.seen)
        assert np.bincount(table.seen[table.seen >= 0]).min() >= 1
        assert (table.graph is not None) >= (kind.endswith("graph") or kind == "customers")
        assert (table.seen[table.wrong] >= 0).all()


def test_tables_have_many_sizes():
    tables = [make_table("features", seed) for seed in range(40)]
    n_rows = [len(table.y) for table in tables]
    n_labels = [(table.seen >= 0).sum() for table in tables]
    assert min(n_rows) < 300 and max(n_rows) > 2000
    assert min(n_labels) < 40 and max(n_labels) > 150
    assert {int(table.y.max()) + 1 for table in tables} == set(range(2, 9))


def test_a_tenth_of_the_labels_is_wrong_and_all_others_are_true():
    table = make_table("mistakes", 0)
    known = table.seen >= 0
    np.testing.assert_array_equal(table.wrong, known & (table.seen != table.y))
    assert table.wrong.sum() == round(0.1 * known.sum())
    assert not make_table("right digits", 0).wrong.any()


def test_noise_in_labels_is_part_of_the_table():
    tables = [make_table("features", seed) for seed in range(12)]
    shares = [table.wrong.sum() / (table.seen >= 0).sum() for table in tables]
    assert min(shares) == 0 and 0 < max(shares) < 0.4
    for table in tables:
        known = table.seen >= 0
        np.testing.assert_array_equal(table.seen[known], table.y[known])


def test_six_draws_of_customers_differ_in_their_labels_alone():
    first, last, other = (make_table("customers", seed) for seed in (300, 305, 306))
    np.testing.assert_array_equal(first.x, last.x)
    assert (first.seen != last.seen).any()
    assert (first.x != other.x).any()
    edges = first.graph.tocoo()
    assert (first.y[edges.row] == first.y[edges.col]).mean() == pytest.approx(0.72, abs=0.03)


def test_the_share_of_edges_inside_classes_is_that_asked_for(rng):
    y = rng.integers(0, 4, 2000)
    for homophily in (0.0, 0.6, 1.0):
        edges = draw_graph(y, 8, homophily, rng).tocoo()
        expected = homophily + (1 - homophily) / 4
        assert (y[edges.row] == y[edges.col]).mean() == pytest.approx(expected, abs=0.03)


def test_labels_that_are_shown_are_true_and_of_every_class(rng):
    y = np.where(np.arange(50) < 5, -1, np.arange(50) % 3)
    seen = show_labels(None, y, None, 12, 0.0, rng).seen
    for shown in (seen, label_per_class(y, 4, rng)):
        assert (shown >= 0).sum() == 12
        assert (shown[shown >= 0] == y[shown >= 0]).all()
        assert np.bincount(shown[shown >= 0]).min() >= 2


def test_moved_labels_are_other_labels(rng):
    y = rng.integers(0, 5, 100)
    moved = move_labels(y, np.arange(40), rng)
    assert (moved[:40] != y[:40]).all() and (moved[40:] == y[40:]).all()


@pytest.mark.parametrize("name", ["moons", "uneven", "block"])
def test_a_named_table_is_the_same_for_the_same_seed(name):
    x, y, graph = load_table(name, 3)
    assert x.shape[0] == len(y)
    assert (graph is not None) == (name == "block")
    assert abs(x - load_table(name, 3)[0]).max() == 0


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# What a fit states

QUICK = {"n_epochs": 10, "n_rounds": 1}


@pytest.fixture
def quick_fits(monkeypatch):
    quick = partial(GLNNClassifier, **QUICK)
    monkeypatch.setattr(trust, "GLNNClassifier", quick)
    monkeypatch.setattr(trust, "_MAX_ROWS", 150)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fewer than 10 hidden labels")
@pytest.mark.parametrize("kind", ["graph", "mistakes"])
def test_what_a_fit_states_is_compared_with_the_truth(kind, quick_fits):
    found = draw_table((kind,), 1)
    table = make_table(kind, 1)
    assert found["labels"] == (table.seen >= 0).sum()
    assert found["wrong"] == table.wrong.sum()
    assert found["wrong suspects"] <= min(found["suspects"], found["wrong"])
    assert found["covered"] == (found["low"] <= found["accuracy"] <= found["high"])
    assert 0 <= found["set coverage"] <= 1
    assert 0 <= found["rival accuracy"] <= 1
    assert isinstance(found["verdict"], str)
    assert 0 < found["confidence error"] < 0.3
    assert found["least error"] > 0


def test_the_plain_method_has_the_same_labels(quick_fits, monkeypatch):
    from sklearn.datasets import load_iris

    iris = *load_iris(return_X_y=True), None
    monkeypatch.setattr(trust, "load_table", lambda name, seed: iris)
    found = draw_uneven(("iris", 30), 0)
    assert found["logistic"] > 0.8
    assert {"none", "balanced"} < set(found)


# Draws on explanations and suggestions


@pytest.fixture
def short_fits(monkeypatch):
    quick = partial(GLNNClassifier, n_epochs=5)
    monkeypatch.setattr(trust, "GLNNClassifier", quick)


@pytest.mark.slow
def test_effects_are_those_of_every_label_at_every_hidden_node(short_fits, monkeypatch):
    monkeypatch.setattr(trust, "_MAX_TABLE_ROWS", 40)
    x, y, _ = trust._load_small_table("iris", 0)
    seen = label_per_class(y, 2, np.random.default_rng(0))
    found = measure_effects(x, y, None, seen, 0)
    assert set(found) == {"real", "explained"}
    for effects in found.values():
        assert effects.shape == (6, 34)
        assert np.abs(effects).max() > 0
    assert "explained" not in measure_effects(x, y, None, seen, 1)


def test_effects_are_ranked_in_the_same_fit_and_over_all_seeds():
    real = np.random.default_rng(0).normal(size=(4, 5, 7))
    rows = [{"real": effects} for effects in real]
    rows[1]["explained"] = 2 * real[1]
    found = influence_rows(rows)
    assert found["rank correlation"] == pytest.approx(1)
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
    found = influence_rows([{"real": real, "explained": said}])
    assert found["nodes"] == 1
    assert found["rank correlation"] == pytest.approx(1)


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
    monkeypatch.setitem(PLAN, "two", TrustMeasure(number, ((3,),), 2))


def test_draws_of_all_cases_take_turns(plan):
    draws = list_draws(["one", "two"], 200)
    assert len(draws) == 2 * 4 + 2
    assert [draw.case for draw in draws[:3]] == [(1,), (2,), (3,)]
    assert {draw.seed for draw in draws if draw.name == "one"} == {200, 201, 202, 203}
    assert len(list_draws(["one", "two"], 200, most=1)) == 3


def test_draws_that_are_done_are_not_repeated(plan):
    draws = list_draws(["one", "two"], 10)
    rows = list(run_draws(draws[:4], 1))
    assert [row["value"] for row in rows] == [10, 20, 30, 11]
    assert list_draws(["one", "two"], 10, done=rows) == draws[4:]


def test_after_the_deadline_nothing_begins(plan):
    assert Draw("one", (1,), 5).make()["value"] == 5
    assert Draw("one", (1,), 5).make(time.time() - 1) is None
    assert list(run_draws(list_draws(["one"], 1), 1, time.time() - 1)) == []


def test_two_hundred_tables_are_drawn_at_seeds_that_chose_nothing():
    assert sum(len(PLAN[name].cases) * PLAN[name].n_draws for name in TABLE_MEASURES) == 200
    assert trust.FIRST_SEED == 300


def test_published_graphs_are_left_out_without_their_files(monkeypatch):
    monkeypatch.delenv(trust.ENVIRONMENT, raising=False)
    assert {draw.case[0] for draw in list_draws(["choice"], 300)} == {"digits"}
    monkeypatch.setenv(trust.ENVIRONMENT, "somewhere")
    assert len(list_draws(["choice"], 300)) == 30
