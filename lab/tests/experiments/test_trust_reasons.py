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


def test_effects_are_those_of_every_label_at_every_hidden_node(quick_fits, monkeypatch):
    monkeypatch.setattr(trust_reasons, "_MOST_NODES", 40)
    found = influence(("iris", 2, 0), 0)
    assert set(found) == {"real", "estimated", "explained"}
    for effects in found.values():
        assert effects.shape == (6, 34)
        assert np.abs(effects).max() > 0
    assert "explained" not in influence(("iris", 2, 0), 1)


def test_effects_are_ranked_in_the_same_fit_and_over_all_seeds():
    real = np.random.default_rng(0).normal(size=(4, 5, 7))
    rows = [{"real": effects, "estimated": -real.mean(0)} for effects in real]
    rows[1]["explained"] = 2 * real[1]
    found = influence_rows(rows)
    assert found["rank correlation"] == pytest.approx(1)
    assert found["estimate"] == pytest.approx(-1)
    assert found["half against half"] == pytest.approx(by_node(real[:2].sum(0), real[2:].sum(0)))
    alone = [by_node(real[k], np.delete(real, k, 0).mean(0)) for k in range(4)]
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
    assert by_node(first, np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])) == pytest.approx(1)


def test_suggested_and_random_labels_are_measured_at_equal_numbers(quick_fits, monkeypatch):
    monkeypatch.setattr(trust_reasons, "SIZES", (2, 3))
    monkeypatch.setattr(trust_reasons, "_N_TEST", 50)
    found = choice(("iris",), 0)
    assert found["gain"] == pytest.approx(found["suggested 3"] - found["random 3"])
    assert 0.2 < found["random 3"] <= 1
