import dataclasses

import numpy as np
import pytest

from glnn.engine.fit import fit_problem
from glnn.engine.presets import PRESETS, resolve_settings
from glnn.engine.selection import chosen_by_folds, hidden_answers, label_folds

FOLDS = resolve_settings("default", changes={"selection": "folds", "n_epochs": 10})


@pytest.fixture
def unwatched(problem):
    """The same nodes without validation."""
    return dataclasses.replace(problem, validation=None)


def answering(truth, good):
    """Fits that are right about all nodes with some heads, about a quarter with others."""

    def fit(part, settings):
        sure = np.eye(2)[truth] * 0.8 + 0.1
        is_right = (np.arange(len(truth)) % 4 == 0) | (settings.head.head in good)
        return np.where(is_right[:, None], sure, 1 - sure)

    return fit


def test_each_label_is_hidden_once_and_predicted_without_it(unwatched):
    asked = []

    def fit(part, settings):
        asked.append(part.labels.nodes.numpy())
        return np.full((60, 2), len(asked) / 10)

    answers = hidden_answers(unwatched, FOLDS, fit, 0)
    nodes = unwatched.labels.nodes.numpy()
    for number, seen in enumerate(asked, start=1):
        hidden = np.setdiff1d(nodes, seen)
        assert len(hidden) == len(nodes) - len(seen) > 0
        np.testing.assert_allclose(answers[hidden], number / 10)
    assert (answers[28:] == 0).all()


def test_folds_have_every_class_alike(unwatched):
    folds = label_folds(unwatched.labels, 0)
    assert sorted(np.concatenate(folds).tolist()) == list(range(8))
    for fold in folds:
        counts = np.bincount(unwatched.labels.classes.numpy()[fold], minlength=2)
        assert abs(counts[0] - counts[1]) <= 1


@pytest.mark.parametrize(
    ("good", "taken"),
    [
        (["hops"], "hops"),
        (["linear", "hops"], "linear"),  # the first of equals
        (["propagation", "hops"], "propagation"),  # what stays unless it is told apart
    ],
)
def test_a_head_that_is_clearly_better_is_taken(unwatched, blocks, good, taken):
    fit = answering(blocks[2], good)
    assert chosen_by_folds(unwatched, FOLDS, fit, 0).head.head == taken


def test_processes_choose_alike(unwatched, blocks, together):
    whole = answering(blocks[2], ["hops"])

    def work(peers):
        mine = dataclasses.replace(unwatched, peers=peers)
        rows = mine.partition.rows
        return chosen_by_folds(mine, FOLDS, lambda p, s: whole(p, s)[rows], 0).head.head

    assert together(3, work) == ["hops"] * 3


def test_the_fit_is_that_of_the_chosen_head(unwatched, monkeypatch):
    hops = PRESETS["default"].competitors[1]
    monkeypatch.setattr(
        "glnn.engine.fit.chosen_by_folds", lambda problem, settings, *_: settings.with_head(hops)
    )
    chosen = fit_problem(unwatched, FOLDS, seed=0)
    named = fit_problem(unwatched, resolve_settings("default").with_head(hops), seed=0)
    np.testing.assert_array_equal(chosen.probabilities, named.probabilities)


def test_with_validation_nodes_nothing_is_hidden(problem):
    watched = resolve_settings("default", changes={"n_epochs": 10})
    both = (fit_problem(problem, settings, seed=0) for settings in (FOLDS, watched))
    np.testing.assert_array_equal(*(result.probabilities for result in both))
