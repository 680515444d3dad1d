import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.distributed import Partition
from glnn.engine.fit import fit_problem
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.model import Model
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import (
    _NOISE,
    STRUCTURE,
    FitState,
    Solution,
    Steps,
    TrainedClassifier,
    compute_structure,
    has_collapsed,
    is_better,
    is_worse,
    with_columns,
    with_structure,
)
from glnn.engine.tasks import ClassifierTask, factor_task_gradient
from glnn.exceptions import InputError
from glnn.solver import learn_graph

# Steps

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
    states = (state.replace(round=n) for n in (number, number, number + 1))
    weights = [steps.build_task(of_round).module.first.weight for of_round in states]
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
    steps.graph_step(steps.start().replace(round=2))
    assert {name: seen[name] for name in changes} == changes
    assert seen["weights"] == steps.settings.graph.weights


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_the_task_joins_with_its_weight_as_a_cost(problem, weight):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST | {"task_weight": weight}))
    trained = steps.classifier_step(steps.graph_step(steps.start().next_round()))
    task, (left, right) = (
        steps.task_signals(trained)["task"],
        factor_task_gradient(trained.trained.task),
    )
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
    tasks = [steps.build_task(state.replace(round=number)) for number in (1, 1, 2)]
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
    task = steps.build_task(state.replace(row_graph=steps.row_graph(state)))
    assert task._noise.initial_seed() == make_generator(0, 1, _NOISE, 0).initial_seed()


# State

SETTINGS = resolve_settings("default")
START = FitState(SETTINGS.graph, SETTINGS.head, None, 3)


def test_a_state_is_a_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        START.round = 1
    later = START.next_round().next_round()
    assert (START.round, later.round) == (0, 2)


def test_another_graph_problem_has_nothing_solved_and_the_same_round():
    state = START.next_round().replace(adjacency=sp.eye(3, format="csr"), n_rounds=4)
    again = state.restart(SETTINGS.no_graph, None)
    assert again.graph == SETTINGS.no_graph
    assert (again.round, again.head, again.n_rounds) == (1, state.head, state.n_rounds)
    solved = (again.adjacency, again.learned, again.new_rows, again.trained)
    assert solved == (None, None, None, None)


def test_at_first_nothing_is_doubted_and_nothing_is_softened():
    assert (START.doubt, START.temperature, START.round) == (0.0, 1.0, 0)


def test_a_part_of_a_graph_is_not_kept_for_explanations(together, blocks):
    features, graph = blocks[0], blocks[1]

    def work(peers):
        rows = Partition(60, peers).rows
        return Solution.of(learn_graph(features[rows], graph[rows], peers=peers)).learned is None

    assert together(1, work) == [False]
    assert together(2, work) == [True, True]


# The signal structure

DEFAULT = resolve_settings("default", changes={"n_epochs": 15})


@pytest.fixture
def alone(problem):
    """The same nodes without features."""
    return dataclasses.replace(problem, features=sp.identity(60, dtype=np.float32, format="csr"))


def test_it_is_chosen_where_features_say_nothing_and_a_graph_is_given(problem, alone):
    assert with_structure(DEFAULT, alone).graph.signal == STRUCTURE
    assert with_structure(DEFAULT, problem) == DEFAULT
    assert with_structure(DEFAULT, dataclasses.replace(alone, graph=None)) == DEFAULT
    assert with_structure(resolve_settings("paper"), alone) == resolve_settings("paper")
    named = resolve_settings("default", changes={"signal": "l2"})
    assert with_structure(named, alone) == named


def test_without_a_graph_it_is_refused(problem):
    settings = resolve_settings("default", changes={"signal": STRUCTURE})
    with pytest.raises(InputError, match="must come with a graph"):
        with_structure(settings, dataclasses.replace(problem, graph=None))


def test_its_rows_are_as_long_as_those_of_the_features(problem):
    _, rows = compute_structure(problem, problem.features, 0)
    lengths = np.sqrt(np.asarray(problem.features.multiply(problem.features).sum(1)))
    assert_allclose(np.linalg.norm(rows, axis=1), lengths.mean(), rtol=1e-5)
    joined = with_columns(problem.features, rows)
    assert_allclose(joined.toarray()[:, :20], problem.features.toarray())
    assert_allclose(joined.toarray()[:, 20:], rows, rtol=1e-6)


@pytest.mark.parametrize("head", [None, "linear", "hops"])
def test_a_graph_alone_is_classified_and_new_nodes_by_their_links(alone, blocks, tmp_path, head):
    settings = resolve_settings("default", head, {"n_epochs": 60})
    result = fit_problem(alone, settings, seed=0)
    assert result.choices["signal"] == STRUCTURE
    assert (result.probabilities.argmax(1) == blocks[2])[28:].mean() > 0.85
    model = Model.of(alone.features, result)
    none = sp.csr_matrix((60, 60), dtype=np.float32)
    found = model.predict_new(none, alone.graph)
    assert (found.argmax(1) == blocks[2])[28:].mean() > 0.85
    model.save(tmp_path, {})
    assert_allclose(Model.load(tmp_path)[0].predict_new(none, alone.graph), found)


def test_processes_agree_with_one(alone, together):
    settings = resolve_settings("default", "gcn", {"n_epochs": 5, "dropout": 0.0})
    whole = fit_problem(alone, settings, seed=0)

    def work(peers):
        part = dataclasses.replace(alone, peers=peers).partition
        mine = dataclasses.replace(
            alone, features=alone.features[part.rows], graph=alone.graph[part.rows], peers=peers
        )
        return fit_problem(mine, settings, seed=0).probabilities

    found = np.vstack(together(2, work))
    assert_allclose(found, whole.probabilities, atol=1e-3)


def test_features_without_length_leave_the_structure_its_own(alone):
    empty = np.zeros((alone.labels.n_nodes, 2), dtype=np.float32)
    _, signal = compute_structure(alone, empty, 0)
    lengths = np.linalg.norm(signal, axis=1)
    assert_allclose(lengths[lengths > 0], 1.0)
    assert (lengths > 0).any()


# Trained classifiers


def found(loss, accuracy):
    task = object.__new__(ClassifierTask)  # which network it was plays no part
    return TrainedClassifier(task, np.zeros((1, 2)), loss, accuracy)


BEFORE = found(0.5, 0.8)


@pytest.mark.parametrize(("loss", "better"), [(0.489, True), (0.491, False)])
def test_another_choice_must_have_a_clearly_lower_loss(loss, better):
    assert is_better(found(loss, 0.1), BEFORE) is better
    assert is_better(found(loss, 0.1), None)


@pytest.mark.parametrize(
    ("loss", "accuracy", "worse"),
    [(0.6, 0.79, True), (0.6, 0.8, False), (0.5, 0.79, False), (0.4, 0.9, False)],
)
def test_a_round_is_worse_if_loss_and_accuracy_both_are(loss, accuracy, worse):
    assert is_worse(found(loss, accuracy), BEFORE) is worse
    assert not is_worse(found(loss, accuracy), None)
    assert not is_worse(found(None, None), BEFORE)


def test_a_round_has_collapsed_if_it_lost_five_points():
    assert has_collapsed(found(0.1, 0.74), BEFORE)
    assert not has_collapsed(found(9.0, 0.76), BEFORE)
    assert not has_collapsed(found(None, None), BEFORE)
