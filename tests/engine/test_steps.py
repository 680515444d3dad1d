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
    with_columns,
    with_structure,
)
from glnn.engine.tasks import Labels, factor_task_gradient
from glnn.exceptions import InputError
from glnn.graph.operators import RandomWalk
from glnn.graph.prior import prior_graph
from glnn.solver import learn_graph
from glnn.solver.learn import GraphRequest, solve_graph

# Steps

FAST = {"n_epochs": 30}


def steps_of(problem, settings):
    return Steps(problem, settings, Scaling.fit(problem.features), seed=0, device="cpu")


def begin(steps, name=None):
    """The state of a track, the first one unless named, as its first round begins."""
    tracks = {track.name: track for track in steps.tracks}
    return steps.start(tracks[name or next(iter(tracks))]).replace(round=1)


def test_a_step_returns_another_state_and_leaves_its_own_as_it_was(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    start = begin(steps)
    solved = steps.graph_step(start)
    trained = steps.classifier_step(solved)
    assert (start.adjacency, solved.trained) == (None, None)
    assert trained.adjacency is solved.adjacency
    assert len(steps.history) == 30


def test_predictions_and_the_task_join_the_graph_problem_once_there_are_any(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    solved = steps.graph_step(begin(steps))
    assert steps.task_signals(solved) == {}
    trained = steps.classifier_step(solved)
    assert {"predictions", "task"} <= set(steps.task_signals(trained))


def test_the_first_classifier_sees_the_prior_graph_unless_there_is_no_other_round(problem):
    steps = steps_of(problem, resolve_settings("paper"))
    prior = steps.graph_step(begin(steps))
    assert prior.learned is None
    assert (prior.adjacency != 0).nnz == problem.graph.nnz + 60  # with its loops
    steps = steps_of(problem, resolve_settings("paper", changes={"n_rounds": 1}))
    learned = steps.graph_step(begin(steps))
    assert learned.adjacency.nnz > problem.graph.nnz + 60
    assert learned.learned.certificate.converged


def test_each_track_sees_its_own_graph(problem):
    steps = steps_of(problem, resolve_settings("default"))
    solved = {track.name: steps.graph_step(begin(steps, track.name)) for track in steps.tracks}
    prior = prior_graph(problem.graph, "renormalized")
    for name in ("learned", "far"):
        assert (solved[name].adjacency != prior).nnz == 0
    for name in ("linear", "hops"):
        assert (solved[name].adjacency != problem.graph).nnz == 0
        assert solved[name].new_rows is None
    alone = learn_graph(problem.features, n_neighbors=20, n_candidates=40)
    features = solved["features"]
    assert features.given is None
    assert features.learned.certificate.converged
    assert abs(features.adjacency - alone.adjacency).max() < 1e-3 * alone.adjacency.max()


def test_without_a_graph_heads_on_rows_see_the_one_that_features_make(problem):
    steps = steps_of(dataclasses.replace(problem, graph=None), resolve_settings("default"))
    features, linear = (steps.graph_step(begin(steps, name)) for name in ("features", "linear"))
    assert linear.adjacency is features.adjacency
    assert linear.n_rounds == 1 < features.n_rounds


def test_the_graph_of_features_alone_is_solved_once_for_all_tracks_and_labels(problem, monkeypatch):
    calls = []

    def solve(request):
        calls.append(request.signal)
        return solve_graph(request)

    monkeypatch.setattr("glnn.engine.steps.solve_graph", solve)
    steps = steps_of(dataclasses.replace(problem, graph=None), resolve_settings("default"))
    other = steps.with_labels(problem.labels.select(np.arange(4)), "fold 1 of 2")
    for each in (steps, other):
        for track in each.tracks:
            each.graph_step(each.start(track).replace(round=1))
    assert calls == ["l2"]


def test_other_labels_have_the_same_data_and_a_history_of_their_own(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    few = Labels(np.arange(2), np.arange(2), 60, 2)
    other = steps.with_labels(few, "fold 1 of 2")
    assert other.problem.labels is few
    assert steps.problem.labels is problem.labels
    assert other.features is steps.features
    assert other.given is steps.given
    other.next_round(other.start(other.tracks[0]))
    assert (len(steps.history), len(other.history)) == (0, 30)
    assert set(other.history.column("stage")) == {"fold 1 of 2, classifier 1"}


def test_a_round_is_a_graph_step_and_a_classifier_step(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    state = steps.next_round(steps.start(steps.tracks[0]))
    by_hand = steps.classifier_step(steps.graph_step(begin(steps)))
    assert state.round == by_hand.round == 1
    np.testing.assert_array_equal(state.probabilities, by_hand.probabilities)
    assert (state.is_done, steps.next_round(steps.next_round(state)).is_done) == (False, True)


def test_heads_that_see_the_same_walk_share_it(problem, monkeypatch):
    made = []
    of = RandomWalk.of
    monkeypatch.setattr(RandomWalk, "of", lambda *args, **more: made.append(1) or of(*args, **more))
    steps = steps_of(problem, resolve_settings("default"))
    for each in (steps, steps.with_labels(problem.labels.select(np.arange(4)), "fold 1 of 2")):
        for name in ("linear", "hops"):
            each.build_task(each.graph_step(begin(each, name)))
    assert len(made) == 2  # with loops and without


def test_predictions_alone_give_a_head_on_rows_a_graph_with_a_certificate(problem):
    steps = steps_of(problem, resolve_settings("default", {"head": "hops"}))
    probabilities = np.full((60, 2), 0.5)
    solved = steps.learn_graph_from(steps.tracks[0], probabilities)
    assert solved.learned.certificate.converged
    links = solved.new_rows.connect(problem.features[:3], problem.graph[:3]).links
    assert links.nnz >= problem.graph[:3].nnz  # new nodes join where they are linked
    assert solved.trained is None
    state = steps.graph_step(begin(steps)).replace(
        trained=TrainedClassifier(steps.build_task(steps.graph_step(begin(steps))), probabilities)
    )
    assert steps.task_signals(state).keys() == {"predictions", "column_weights"}


def test_the_given_graph_is_prepared_once(problem, monkeypatch):
    steps = steps_of(problem, resolve_settings("paper"))
    start = begin(steps)
    monkeypatch.setattr("glnn.engine.steps.PriorGraph", None)  # asking it again would fail
    assert steps.graph_step(start).adjacency is steps.given.prior


@pytest.mark.parametrize("number", [1, 2])
def test_a_round_has_its_own_first_parameters_and_the_same_each_time(problem, number):
    steps = steps_of(problem, resolve_settings("paper"))
    state = steps.graph_step(begin(steps))
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
    seen = []
    solve = lambda request: seen.append(request) or solve_graph(request)  # noqa: E731
    monkeypatch.setattr("glnn.engine.steps.solve_graph", solve)
    steps.graph_step(begin(steps).replace(round=2))
    assert {name: getattr(seen[0], name) for name in changes} == changes
    assert seen[0].weights == steps.settings.graph.weights


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_the_task_joins_with_its_weight_as_a_cost(problem, weight):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST | {"task_weight": weight}))
    trained = steps.classifier_step(steps.graph_step(begin(steps)))
    task, (left, right) = (
        steps.task_signals(trained)["task"],
        factor_task_gradient(trained.trained.task),
    )
    np.testing.assert_allclose(task[0] @ task[1].T, weight * (left @ right.T), atol=1e-12)


@pytest.mark.parametrize(("patience", "grace"), [(3, 25), (3, 1), (9, 12)])
def test_a_training_ends_when_patience_after_the_ramp_is_over(problem, patience, grace):
    changes = {"n_epochs": 300, "patience": patience, "ramp_epochs": grace}
    steps = steps_of(problem, resolve_settings("default", changes | {"head": "gcn"}))
    steps.classifier_step(steps.graph_step(begin(steps)))
    losses = steps.history.column("validation_loss")
    assert len(losses) == max(int(np.argmin(losses)), grace) + patience + 1


def test_a_round_has_its_own_noise_and_the_same_each_time(problem):
    steps = steps_of(problem, resolve_settings("paper"))
    state = steps.graph_step(begin(steps))
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
    steps = steps_of(problem, resolve_settings("default", {"head": "linear"}))
    state = steps.graph_step(begin(steps))
    task = steps.build_task(state)
    assert task._noise.initial_seed() == make_generator(0, 1, _NOISE, 0).initial_seed()


# State

TRACKS = {track.name: track for track in resolve_settings("default").tracks}
START = FitState(TRACKS["learned"], None)


def test_a_state_is_a_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        START.round = 1
    later = START.replace(round=2)
    assert (START.round, later.round) == (0, 2)


def test_a_track_that_learns_takes_its_rounds_and_a_head_on_rows_one():
    assert [START.replace(round=n).is_done for n in range(4)] == [False, False, False, True]
    rows = FitState(TRACKS["hops"], None)
    assert [rows.replace(round=n).is_done for n in range(2)] == [False, True]


def test_a_track_sees_the_given_graph_or_not(problem):
    steps = steps_of(problem, resolve_settings("default"))
    given = {track.name: steps.start(track).given for track in steps.tracks}
    assert given.pop("features") is None
    assert all(graph is steps.given for graph in given.values())


def test_a_part_of_a_graph_is_not_kept_for_explanations(together, blocks):
    features, graph = blocks[0], blocks[1]

    def work(peers):
        layout = Partition(60, peers)
        request = GraphRequest(features[layout.rows], graph[layout.rows], layout=layout)
        return Solution.of(solve_graph(request)).learned is None

    assert together(1, work) == [False]
    assert together(2, work) == [True, True]


# The signal structure

DEFAULT = resolve_settings("default", changes={"n_epochs": 15})


@pytest.fixture
def alone(problem):
    """The same nodes without features."""
    return dataclasses.replace(problem, features=sp.identity(60, dtype=np.float32, format="csr"))


def test_it_is_chosen_where_features_say_nothing_and_a_graph_is_given(problem, alone):
    chosen = with_structure(DEFAULT, alone)
    assert {track.graph.signal for track in chosen.tracks} == {STRUCTURE}
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


@pytest.mark.parametrize("head", [{}, {"head": "linear"}, {"head": "hops"}], ids=str)
def test_a_graph_alone_is_classified_and_new_nodes_by_their_links(alone, blocks, tmp_path, head):
    settings = resolve_settings("default", head | {"n_epochs": 30})
    result = fit_problem(alone, settings, seed=0)
    assert result.choices["signal"] == STRUCTURE
    assert (result.probabilities.argmax(1) == blocks[2])[28:].mean() > 0.85
    model = Model.of(alone.features, result)
    none = sp.csr_matrix((60, 60), dtype=np.float32)
    found = model.predict_new(none, alone.graph)
    assert (found.argmax(1) == blocks[2])[28:].mean() > 0.85
    model.save(tmp_path)
    assert_allclose(Model.load(tmp_path).predict_new(none, alone.graph), found)


def test_processes_agree_with_one(alone, together):
    settings = resolve_settings("default", {"head": "gcn", "n_epochs": 5, "dropout": 0.0})
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


@pytest.mark.parametrize("is_bad", [True, False])
def test_a_training_whose_predictions_are_hopeless_ends_half_way(problem, is_bad):
    seen = []

    def is_hopeless(probabilities):
        seen.append(probabilities)
        return is_bad

    settings = resolve_settings("default", changes={"n_epochs": 9, "tracks": ["linear"]})
    steps = steps_of(dataclasses.replace(problem, validation=None), settings)
    steps.next_round(begin(steps).replace(round=0), is_hopeless)
    assert len(steps.history) == (5 if is_bad else 9)
    assert [probabilities.shape for probabilities in seen] == [(60, 2)]
