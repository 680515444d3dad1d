import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from glnn.distributed import Partition
from glnn.engine.archive import read_archive, write_archive
from glnn.engine.fit import fit_problem
from glnn.engine.inputs import Scaling
from glnn.engine.model import Model
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import (
    STRUCTURE,
    Steps,
    channel_weights,
    compute_structure,
    with_structure,
)
from glnn.engine.tasks import factor_task_gradient
from glnn.exceptions import InputError
from glnn.graph.prior import prior_graph
from glnn.solver import learn_graph
from glnn.solver.learn import solve_graph

# Steps

FAST = {"n_epochs": 30}


def steps_of(problem, settings):
    return Steps(problem, settings, Scaling.fit(problem.features), seed=0, device="cpu")


def begin(steps, name=None):
    """The state of a track, the first one unless named, as its first round begins."""
    tracks = {track.name: track for track in steps.tracks}
    return steps.start(tracks[name or next(iter(tracks))]).replace(round=1)


def test_the_first_classifier_sees_the_prior_graph_unless_there_is_no_other_round(problem):
    steps = steps_of(problem, resolve_settings("paper"))
    prior = steps.graph_step(begin(steps))
    assert prior.certificate is None
    assert (prior.adjacency != 0).nnz == problem.graph.nnz + 60  # with its loops
    steps = steps_of(problem, resolve_settings("paper", changes={"n_rounds": 1}))
    learned = steps.graph_step(begin(steps))
    assert learned.adjacency.nnz > problem.graph.nnz + 60
    assert learned.certificate.converged


def test_each_track_sees_its_own_graph(problem):
    steps = steps_of(problem, resolve_settings("default"))
    solved = {track.name: steps.graph_step(begin(steps, track.name)) for track in steps.tracks}
    prior = prior_graph(problem.graph, "renormalized")
    assert (solved["learned"].adjacency != prior).nnz == 0
    for name in ("linear", "hops"):
        assert (solved[name].adjacency != problem.graph).nnz == 0
        assert solved[name].new_rows is None
    alone = learn_graph(problem.features, n_neighbors=20, n_candidates=40)
    features = solved["features"]
    assert features.given is None
    assert features.certificate.converged
    assert abs(features.adjacency - alone.adjacency).max() < 1e-3 * alone.adjacency.max()


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


def test_a_round_is_a_graph_step_and_a_classifier_step_with_noise_of_its_own(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST))
    fold = steps.with_labels(problem.labels, "fold 1 of 2")
    state = fold.next_round(fold.start(steps.tracks[0]))
    by_hand = steps.classifier_step(steps.graph_step(begin(steps)))
    assert state.round == by_hand.round == 1
    assert_array_equal(state.probabilities, by_hand.probabilities)
    other = steps.classifier_step(by_hand.replace(round=2))
    assert (other.probabilities != by_hand.probabilities).any()
    assert (state.is_done, state.replace(round=3).is_done) == (False, True)
    assert len(steps.history) == 2 * len(fold.history) == 60
    assert set(fold.history.column("stage")) == {"fold 1 of 2, classifier 1"}


def test_predictions_alone_give_a_head_on_rows_a_graph_with_a_certificate(problem):
    steps = steps_of(problem, resolve_settings("default", {"head": "hops"}))
    probabilities = np.full((60, 2), 0.5)
    solved = steps.learn_graph_from(steps.tracks[0], probabilities)
    assert solved.certificate.converged
    links = solved.new_rows.connect(problem.features[:3], problem.graph[:3]).links
    assert links.nnz >= problem.graph[:3].nnz  # new nodes join where they are linked
    assert solved.task is None
    state = steps.graph_step(begin(steps))
    state = state.replace(task=steps.build_task(state), predictions=probabilities)
    assert steps.task_signals(state).keys() == {"predictions", "column_weights"}


def test_a_graph_from_predictions_takes_the_similar_rows_that_another_track_found(problem):
    steps = steps_of(problem, resolve_settings("default", {"n_candidates": 7}))
    found = steps.graph_step(begin(steps, "features")).candidates
    solved = steps.learn_graph_from(steps.tracks[0], np.full((60, 2), 0.5))
    assert set(zip(*solved.candidates)) == set(zip(*found))
    fewer = resolve_settings("default", {"n_candidates": 3})
    few = steps.learn_graph_from(fewer.tracks[0], np.full((60, 2), 0.5)).candidates
    alone = steps_of(problem, fewer)
    assert set(zip(*few)) == set(zip(*alone.graph_step(begin(alone, "features")).candidates))


def test_what_the_graph_is_told_reaches_the_solver(problem, monkeypatch):
    changes = {"prediction_weight": 0.5, "prior": "binary", "signal": "standardized"}
    changes |= {"reading": "channel", "n_candidates": 7, "n_neighbors": 3, "support": "all"}
    steps = steps_of(problem, resolve_settings("paper", changes=FAST | changes))
    seen = []
    solve = lambda request: seen.append(request) or solve_graph(request)  # noqa: E731
    monkeypatch.setattr("glnn.engine.steps.solve_graph", solve)
    steps.graph_step(begin(steps).replace(round=2))
    assert {name: getattr(seen[0], name) for name in changes} == changes
    assert seen[0].weights == steps.settings.graph.weights


def test_the_task_joins_with_its_weight_as_a_cost(problem):
    steps = steps_of(problem, resolve_settings("paper", changes=FAST | {"task_weight": 2.0}))
    trained = steps.classifier_step(steps.graph_step(begin(steps)))
    task, (left, right) = steps.task_signals(trained)["task"], factor_task_gradient(trained.task)
    np.testing.assert_allclose(task[0] @ task[1].T, 2 * (left @ right.T), atol=1e-12)


@pytest.mark.parametrize(("patience", "grace"), [(3, 25), (3, 1)])
def test_a_training_ends_when_patience_after_the_ramp_is_over(problem, patience, grace):
    changes = {"n_epochs": 300, "patience": patience, "ramp_epochs": grace}
    steps = steps_of(problem, resolve_settings("default", changes | {"head": "gcn"}))
    steps.classifier_step(steps.graph_step(begin(steps)))
    losses = steps.history.column("validation_loss")
    assert len(losses) == max(int(np.argmin(losses)), grace) + patience + 1


# The signal structure

DEFAULT = resolve_settings("default", changes={"n_epochs": 15})


@pytest.fixture
def alone(problem):
    """The same nodes without features."""
    return dataclasses.replace(problem, features=sp.identity(60, dtype=np.float32, format="csr"))


def test_it_is_chosen_where_features_say_nothing_and_a_graph_is_given(problem, alone):
    chosen = with_structure(DEFAULT, alone)
    assert {track.graph.signal for track in chosen.tracks} == {STRUCTURE}
    assert [t.name for t in chosen.tracks_for(True) if t.is_spectral] == ["spectral"]
    assert not any(track.is_spectral for track in DEFAULT.tracks_for(True))
    assert with_structure(DEFAULT, problem) == DEFAULT
    assert with_structure(DEFAULT, dataclasses.replace(alone, graph=None)) == DEFAULT
    assert with_structure(resolve_settings("paper"), alone) == resolve_settings("paper")
    named = resolve_settings("default", changes={"signal": "l2"})
    assert with_structure(named, alone) == named
    settings = resolve_settings("default", changes={"signal": STRUCTURE})
    with pytest.raises(InputError, match="must come with a graph"):
        with_structure(settings, dataclasses.replace(problem, graph=None))


def test_its_rows_are_as_long_as_those_of_the_features(problem):
    structure, rows = compute_structure(problem, problem.features, 0)
    rows, _ = structure.split(rows)
    lengths = np.sqrt(np.asarray(problem.features.multiply(problem.features).sum(1)))
    assert_allclose(np.linalg.norm(rows, axis=1), lengths.mean(), rtol=1e-5)
    structure, alone = compute_structure(problem, np.zeros((60, 2), dtype=np.float32), 0)
    for part in structure.split(alone):
        assert_allclose(np.linalg.norm(part, axis=1), 1.0)  # features have no length


@pytest.mark.parametrize(
    "head", [{}, {"head": "linear"}, {"head": "hops"}, {"tracks": ["spectral"]}], ids=str
)
def test_a_graph_alone_is_classified_and_new_nodes_by_their_links(alone, blocks, tmp_path, head):
    settings = resolve_settings("default", head | {"n_epochs": 30})
    result = fit_problem(alone, settings, seed=0)
    assert result.choices["signal"] == STRUCTURE
    assert (result.model.distributions.argmax(1) == blocks[2])[28:].mean() > 0.85
    model = result.model
    none = sp.csr_matrix((60, 60), dtype=np.float32)
    found = model.predict_new(none, alone.graph)
    assert (found.argmax(1) == blocks[2])[28:].mean() > 0.85
    write_archive(tmp_path, model, model.partition)
    assert_allclose(
        read_archive(tmp_path, Model).with_networks().predict_new(none, alone.graph), found
    )


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


# Weights of columns


def test_word_weights_are_the_divergence_of_their_classes():
    rng = np.random.default_rng(0)
    words = sp.csr_matrix((rng.random((30, 5)) < 0.4).astype(float))
    p = rng.dirichlet(np.ones(3), 30)
    prior, mass = p.mean(0), words.toarray().T @ p
    given = (mass + prior) / (mass.sum(1) + 1)[:, None]
    direct = (given * np.log(given / prior)).sum(1)
    assert_allclose(channel_weights(words, p, Partition(30)), direct / direct.mean())


def test_real_columns_weigh_by_their_share_of_variance_between_classes():
    classes, rng = np.arange(200) % 2, np.random.default_rng(0)
    x = np.stack([classes + 0.0, rng.normal(size=200)], 1)
    p = np.eye(3)[classes]  # nobody is in the last class
    weights = channel_weights(x, p, Partition(200))
    assert weights[0] == pytest.approx(2, abs=0.1)  # eta^2 is 1 and about 0
    x[0, 0] = -0.01  # with a negative value they are no words
    found = channel_weights(sp.csr_matrix(x), p, Partition(200))
    assert_allclose(found, channel_weights(x, p, Partition(200)))
    assert_array_equal(channel_weights(np.ones((200, 3)), p, Partition(200)), 1)


@pytest.mark.parametrize("is_sparse", [True, False], ids=["words", "columns"])
def test_processes_weigh_columns_as_one_does(blocks, together, is_sparse):
    features = blocks[0] if is_sparse else blocks[0].toarray() - 0.3
    p = np.random.default_rng(0).dirichlet(np.ones(2), 60)

    def work(peers):
        part = Partition(60, peers)
        return channel_weights(features[part.rows], p[part.rows], part)

    (whole,) = together(1, work)
    assert whole.std() > 0
    for found in together(3, work):
        assert_allclose(found, whole)
