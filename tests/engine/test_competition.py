import dataclasses
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine import competition
from glnn.engine.classifier import Labels
from glnn.engine.committee import Contest
from glnn.engine.competition import competed, settled
from glnn.engine.presets import PRESETS, resolve_settings
from glnn.engine.problem import FitProblem
from glnn.engine.scaling import Scaling
from glnn.engine.steps import Steps
from glnn.engine.trained import mean_answer
from glnn.engine.trainer import Validation
from glnn.graph.random_walk import RandomWalk


@pytest.fixture
def opposites():
    """Two classes whose members are linked to the other class alone; features say little."""
    rng = np.random.default_rng(0)
    classes = np.arange(120) % 2
    other = classes[:, None] != classes[None]
    upper = np.triu(rng.random((120, 120)) < 0.08 * other, 1)
    graph = sp.csr_matrix((upper | upper.T).astype(np.float64))
    features = (rng.normal(size=(120, 4)) + 0.6 * classes[:, None]).astype(np.float32)
    watched = torch.arange(40, 80)
    validation = Validation(watched, torch.from_numpy(classes)[watched])
    return FitProblem(features, Labels(np.arange(40), classes[:40], 120, 2), graph, validation)


def steps_of(problem, **changes):
    settings = resolve_settings("default", changes={"n_epochs": 40, **changes})
    scaling = Scaling.fit(problem.features, settings.scaling)
    return Steps(problem, settings, scaling, seed=0, device="cpu")


def first_round(steps):
    return steps.classifier_step(steps.graph_step(steps.start().next_round()))


def test_where_neighbours_differ_the_head_that_keeps_them_apart_takes_over(opposites):
    steps = steps_of(opposites)
    before = first_round(steps)
    after = competed(steps, before)
    assert after.head.head == "hops"
    assert after.head.n_steps > 0
    assert after.n_rounds == after.round == 1
    assert after.trained.validation_accuracy > before.trained.validation_accuracy + 0.1


def test_a_classifier_that_may_stay_goes_on_with_its_partners(problem):
    steps = steps_of(problem)
    before = first_round(steps)
    after = competed(steps, before)
    trained = [before.trained, *after.partners]
    assert after.trained is before.trained
    assert after.n_rounds == before.n_rounds
    kept = Contest.of([member.probabilities for member in trained], steps.validation).kept()
    assert set(range(1, len(trained))) <= set(kept)
    np.testing.assert_allclose(after.answer, mean_answer((after.trained, *after.partners)))


def test_those_who_answer_at_the_end_are_the_best_and_its_equals(opposites):
    steps = steps_of(opposites)
    after = competed(steps, first_round(steps))
    weak = first_round(steps).trained
    last = settled(steps, after.changed(trained=weak, partners=(after.trained, *after.partners)))
    assert last.trained.task is after.trained.task
    assert all(partner.task is not weak.task for partner in last.partners)


def test_hopeless_competitors_are_given_up(problem):
    steps = steps_of(problem)
    sure = first_round(steps)
    sure = sure.changed(trained=dataclasses.replace(sure.trained, validation_accuracy=2.0))
    competed(steps, sure)
    stages = [str(record["stage"]) for record in steps.history]
    limits = Counter()
    for head in PRESETS["default"].competitors:
        limits[f"{head.head} 1"] += min(head.ramp_epochs + 1, 40)
    assert all(stages.count(stage) <= limit for stage, limit in limits.items())


def test_heads_that_see_the_same_walk_share_it(problem, monkeypatch):
    made = []
    of = RandomWalk.of
    monkeypatch.setattr(RandomWalk, "of", lambda *args, **more: made.append(1) or of(*args, **more))
    steps = steps_of(problem)
    competed(steps, first_round(steps))
    assert len(made) == 2  # with loops and without


def test_a_competitor_may_be_given_up_after_half_of_its_ramp(opposites, monkeypatch):
    seen = []

    class Watched(competition.GiveUp):
        def __init__(self, accuracy, grace):
            seen.append(grace)
            super().__init__(accuracy, grace)

    monkeypatch.setattr(competition, "GiveUp", Watched)
    steps = steps_of(opposites)
    competed(steps, first_round(steps))
    assert seen == [head.ramp_epochs // 2 for head in steps.settings.rivals(has_validation=True)]
    assert min(seen) > 0


def test_without_validation_nodes_those_heads_compete_that_need_none(opposites, monkeypatch):
    seen = []

    def no_answers(steps, state, heads):
        seen.extend(heads)
        raise InterruptedError

    monkeypatch.setattr(competition, "hidden_answers", no_answers)
    problem = dataclasses.replace(opposites, validation=None)
    scaling = Scaling.fit(problem.features)
    steps = Steps(problem, resolve_settings("default"), scaling, seed=0, device="cpu")
    before = first_round(steps)
    with pytest.raises(InterruptedError):
        competed(steps, before)
    watched, unwatched = (steps.settings.rivals(has_validation=has) for has in (True, False))
    assert seen == [before.head, *unwatched]
    assert unwatched != watched
