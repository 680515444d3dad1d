import pytest

from glnn.engine.presets import resolve_settings
from glnn.engine.scaling import Scaling
from glnn.engine.steps import Steps

FAST = {"n_epochs": 30}


def steps_of(problem, settings):
    return Steps(problem, settings, Scaling.fit(problem.features), seed=0, device="cpu")


def test_a_step_returns_another_state_and_leaves_its_own_as_it_was(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    start = steps.start().next_round()
    solved = steps.graph_step(start)
    trained = steps.classifier_step(solved)
    assert (start.adjacency, solved.trained) == (None, None)
    assert trained.adjacency is solved.adjacency
    assert len(steps.history) == 30


def test_predictions_and_the_task_join_the_graph_problem_once_there_are_any(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    solved = steps.graph_step(steps.start().next_round())
    assert steps.task_signals(solved) == {}
    trained = steps.classifier_step(solved)
    assert {"predictions", "task"} <= set(steps.task_signals(trained))


def test_the_first_classifier_sees_the_prior_graph_or_the_one_learned_from_features(problem):
    steps = steps_of(problem, resolve_settings("paper"))
    prior = steps.graph_step(steps.start().next_round())
    assert prior.learned is None
    assert (prior.adjacency != 0).nnz == problem.graph.nnz + 60  # with its loops
    steps = steps_of(problem, resolve_settings("paper", changes={"first_graph": "features"}))
    learned = steps.graph_step(steps.start().next_round())
    assert learned.adjacency.nnz > problem.graph.nnz + 60
    assert learned.learned.certificate.converged


def test_the_given_graph_is_prepared_once(problem, monkeypatch):
    steps = steps_of(problem, resolve_settings("paper"))
    start = steps.start().next_round()
    monkeypatch.setattr("glnn.engine.steps.GivenGraph", None)  # asking it again would fail
    assert steps.graph_step(start).adjacency is steps.start().given.prior


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_has_its_own_first_parameters_and_the_same_each_time(problem, number):
    steps = steps_of(problem, resolve_settings("paper"))
    state = steps.graph_step(steps.start().next_round())
    states = (state.changed(round=n) for n in (number, number, number + 1))
    weights = [steps.task_of(of_round).module.first.weight for of_round in states]
    assert (weights[0] == weights[1]).all()
    assert (weights[0] != weights[2]).any()
