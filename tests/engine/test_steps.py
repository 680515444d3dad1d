import numpy as np
import pytest

from glnn.engine.presets import resolve_settings
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.steps import _NOISE, Steps
from glnn.engine.task_gradient import task_factors
from glnn.solver import learn_graph

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


@pytest.mark.parametrize(
    "changes",
    [
        {"prediction_weight": 0.5},
        {"prior": "binary"},
        {"signal": "standardized"},
        {"reading": "channel"},
        {"n_candidates": 7},
        {"n_neighbors": 3},
        {"support": "all"},
    ],
    ids=str,
)
def test_what_the_graph_is_told_reaches_the_solver(problem, monkeypatch, changes):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST | changes))
    seen = {}

    def solve(x, given, **named):
        seen.update(named)
        return learn_graph(x, given, **named)

    monkeypatch.setattr("glnn.engine.steps.learn_graph", solve)
    steps.graph_step(steps.start().changed(round=2))
    assert {name: seen[name] for name in changes} == changes
    assert seen["weights"] == steps.settings.graph.weights


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_the_task_joins_with_its_weight_as_a_cost(problem, weight):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST | {"task_weight": weight}))
    trained = steps.classifier_step(steps.graph_step(steps.start().next_round()))
    task, (left, right) = steps.task_signals(trained)["task"], task_factors(trained.trained.task)
    np.testing.assert_allclose(task.left @ task.right.T, weight * (left @ right.T), atol=1e-12)


@pytest.mark.parametrize(("patience", "grace"), [(3, 25), (3, 1), (9, 12)])
def test_a_training_ends_when_patience_after_the_ramp_is_over(problem, patience, grace):
    changes = {"n_epochs": 300, "patience": patience, "ramp_epochs": grace}
    steps = steps_of(problem, resolve_settings("default", changes=changes, head="gcn"))
    steps.classifier_step(steps.graph_step(steps.start().next_round()))
    losses = steps.history.column("validation_loss")
    assert len(losses) == max(int(np.argmin(losses)), grace) + patience + 1


def test_a_round_has_its_own_noise_and_the_same_each_time(problem):
    steps = steps_of(problem, resolve_settings("paper"))
    state = steps.graph_step(steps.start().next_round())
    tasks = [steps.task_of(state.changed(round=number)) for number in (1, 1, 2)]
    for task in tasks[1:]:  # the same parameters, so that noise alone can differ
        task.module.load_state_dict(tasks[0].module.state_dict())
    first, again, other = (task.losses(0)["cross_entropy"].item() for task in tasks)
    assert first == again != other


@pytest.mark.parametrize("kind", ["rows", "none", "columns"])
def test_words_are_compared_as_they_are_and_other_columns_scaled(problem, kind):
    scaling = Scaling.fit(problem.features, kind)
    steps = Steps(problem, resolve_settings("default"), scaling, seed=0, device="cpu")
    assert steps.signal is (steps.scaled if kind == "columns" else problem.features)


def test_heads_on_rows_have_the_same_noise_in_every_process(problem):
    steps = steps_of(problem, resolve_settings("default", "linear"))
    state = steps.graph_step(steps.start().next_round())
    task = steps.task_of(state.changed(row_graph=steps.row_graph(state)))
    assert task._noise.initial_seed() == generator_for(0, 1, _NOISE, 0).initial_seed()
