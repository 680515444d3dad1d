import pytest

from glnn.engine.presets import resolve_settings
from glnn.engine.scaling import Scaling
from glnn.engine.steps import Steps

FAST = {"n_epochs": 30}


def steps_of(problem, settings):
    scaling = Scaling.fit(problem.features)
    return Steps(problem, settings, scaling, seed=0, device="cpu", callbacks=())


def test_predictions_and_the_task_join_the_graph_problem_once_there_are_any(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    steps.adjacency = steps.graph_step(1)
    assert steps._task_signals() == {}
    steps.trained = steps.classifier_step(1, steps.head)
    assert {"predictions", "task"} <= set(steps._task_signals())


def test_the_first_classifier_sees_the_prior_graph_or_the_one_learned_from_features(problem):
    steps = steps_of(problem, resolve_settings("paper"))
    assert (steps.graph_step(1) != 0).nnz == problem.graph.nnz + 60  # with its loops
    settings = resolve_settings("paper", changes={"first_graph": "features"})
    learned = steps_of(problem, settings).graph_step(1)
    assert learned.nnz > problem.graph.nnz + 60


def test_the_given_graph_is_prepared_once(problem, monkeypatch):
    steps = steps_of(problem, resolve_settings("paper"))
    prior = steps.graph_step(1)
    monkeypatch.setattr("glnn.engine.steps.GivenGraph", None)  # asking it again would fail
    assert steps.graph_step(1) is prior


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_has_its_own_first_parameters_and_the_same_each_time(problem, number):
    steps = steps_of(problem, resolve_settings("paper"))
    steps.adjacency = steps.graph_step(1)
    first, again, other = (steps.task_of(n, steps.head) for n in (number, number, number + 1))
    weights = [task.module.first.weight for task in (first, again, other)]
    assert (weights[0] == weights[1]).all()
    assert (weights[0] != weights[2]).any()
