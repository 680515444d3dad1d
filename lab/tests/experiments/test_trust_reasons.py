from functools import partial

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn_lab.experiments import trust_reasons
from glnn_lab.experiments.trust_reasons import by_node, choice, influence, influence_rows


@pytest.fixture
def quick_fits(monkeypatch):
    quick = partial(GLNNClassifier, n_epochs=5)
    monkeypatch.setattr(trust_reasons, "GLNNClassifier", quick)


def test_effects_are_those_of_every_label_at_every_hidden_node(quick_fits):
    found = influence(("iris", 2, 0), 0)
    assert found["estimated"].shape == found["real"].shape == (6, 144)
    assert np.abs(found["real"]).max() > 0
    assert np.abs(found["estimated"]).max() > 0


def test_an_estimate_that_is_the_mean_effect_agrees_in_every_rank():
    real = np.random.default_rng(0).normal(size=(4, 5, 7))
    rows = [{"real": effects, "estimated": 2 * real.mean(0)} for effects in real]
    found = influence_rows(rows)
    assert found["rank correlation"] == pytest.approx(1)
    assert found["of all pairs"] == pytest.approx(1)
    assert found["half against half"] == pytest.approx(by_node(real[:2].sum(0), real[2:].sum(0)))
    assert (found["seeds"], found["nodes"]) == (4, 7)
    assert "half against half" not in influence_rows(rows[:1])


def test_nodes_that_no_label_moves_have_nothing_to_rank():
    moved = np.array([0.3, -0.2, 0.1])
    still = 1e-3 * moved[::-1]
    real = np.stack([moved, still], 1)
    found = influence_rows([{"real": real, "estimated": np.stack([moved, moved], 1)}])
    assert found["nodes"] == 1
    assert found["rank correlation"] == pytest.approx(1)
    assert found["at all nodes"] < 1


def test_columns_without_a_rank_take_no_part():
    first = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert by_node(first, np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])) == pytest.approx(1)


def test_suggested_and_random_labels_are_measured_at_equal_numbers(quick_fits, monkeypatch):
    monkeypatch.setattr(trust_reasons, "SIZES", (2, 3))
    monkeypatch.setattr(trust_reasons, "_N_TEST", 50)
    found = choice(("iris",), 0)
    assert found["gain"] == pytest.approx(found["suggested 3"] - found["random 3"])
    assert 0.2 < found["random 3"] <= 1
