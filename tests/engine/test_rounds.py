import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from glnn import GLNNClassifier
from glnn.data import NodeData
from glnn.distributed import Partition
from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import FitProblem, hide_labels
from glnn.engine.inputs import Scaling
from glnn.engine.rounds import Rounds, correct, fit_correction, fit_weights
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import Steps
from glnn.engine.tasks import Labels

FAST, SHORT = {"n_epochs": 8}, {"n_epochs": 2, "n_rounds": 2}
DEFAULT = resolve_settings("default", changes=FAST)
NAMES = ("learned", "features", "linear", "hops")


def rounds_of(problem, settings=DEFAULT):
    scaling = Scaling.fit(problem.features, peers=problem.peers)
    return Rounds(Steps(problem, settings, scaling, seed=0, device="cpu"))


def with_folds(problem, **changes):
    """Return the problem with the folds of its labels, three of them."""
    problem = dataclasses.replace(problem, **changes)
    return dataclasses.replace(problem, folds=hide_labels(problem, 3, 0))


def trust(result):
    return sum(track.weight for track in result.model.tracks if track.sees_graph)


@pytest.fixture
def unwatched(problem):
    """The same nodes without validation."""
    return with_folds(dataclasses.replace(problem, validation=None))


@pytest.fixture
def watched_by_many(problem, blocks):
    """All nodes but the training nodes are validation nodes."""
    validation = Labels(np.arange(8, 60), blocks[2][8:], 60, 2)
    return dataclasses.replace(problem, validation=validation)


@pytest.fixture
def all_labels(unwatched, blocks):
    """Every node has a label, and there is no validation."""
    return with_folds(unwatched, labels=Labels(np.arange(60), blocks[2], 60, 2))


@pytest.fixture
def answering(monkeypatch, blocks):
    """Make up what tracks say: the probability of the true class, by name.

    Returns the function that does so, and the list of trainings: name, round, labelled nodes.
    """
    asked = []

    def set_answers(sure):
        def classifier_step(self, state, is_hopeless=None):
            asked.append((state.track.name, state.round, self.problem.labels.nodes.tolist()))
            is_true = np.eye(2)[blocks[2]] == 1
            found = np.where(is_true, sure[state.track.name], 1 - sure[state.track.name])
            task = self.build_task(state)
            return state.replace(task=task, predictions=found[self.partition.rows])

        monkeypatch.setattr(Steps, "classifier_step", classifier_step)
        return asked

    return set_answers


# Correction of the classes


def log_loss(probabilities, classes):
    return -np.log(probabilities[np.arange(len(classes)), classes]).mean()


def confused(n_nodes, seed):
    """Return predictions that mostly take class 2 for class 1, and the true classes."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n_nodes)
    claimed = np.where((classes == 2) & (rng.random(n_nodes) < 0.9), 1, classes)
    probabilities = rng.dirichlet(np.ones(3), n_nodes) * 0.4 + 0.6 * np.eye(3)[claimed]
    probabilities[classes == 2] += [0.05, 0, 0.1]
    return probabilities / probabilities.sum(1, keepdims=True), classes


def test_a_correction_finds_classes_that_are_mistaken_for_each_other():
    (found, known), (new, classes) = confused(300, 0), confused(2000, 1)
    corrected = correct(new, fit_correction(found, known, np.ones(300), 0.25))
    np.testing.assert_allclose(corrected.sum(1), 1)
    before, after = (new.argmax(1) == classes).mean(), (corrected.argmax(1) == classes).mean()
    assert after > before + 0.05
    assert log_loss(corrected, classes) < log_loss(new, classes) - 0.1


@pytest.mark.parametrize("variance", [1e-300, 1e6])
def test_a_correction_with_any_prior_and_few_labels_is_a_distribution(variance):
    found = fit_correction(np.full((1, 4), 0.25), np.zeros(1, np.int64), np.ones(1), variance)
    np.testing.assert_allclose(correct(np.eye(4), found).sum(1), 1)


def test_a_correction_is_the_minimum_of_its_loss():
    rng = np.random.default_rng(0)
    probabilities, classes, each = (
        rng.dirichlet(np.ones(3), 40),
        rng.integers(0, 3, 40),
        rng.random(40),
    )
    found = fit_correction(probabilities, classes, each, 0.25)

    def loss(correction):
        change = correction - np.eye(4, 3)
        logs = np.log(correct(probabilities, correction)[np.arange(40), classes])
        return (change**2).sum() / 0.5 - each @ logs

    for step in rng.normal(size=(20, 4, 3)):
        assert loss(found) <= loss(found + 0.01 * step) + 1e-9


def test_validation_labels_take_no_part_in_their_own_held_out_predictions(
    problem, all_tracks_count
):
    rounds = rounds_of(problem)
    mixture = rounds.run(rounds.start())
    held_out, labels = mixture.held_out, problem.validation
    np.testing.assert_array_equal(held_out.nodes, labels.nodes)
    np.testing.assert_array_equal(held_out.classes, labels.classes)
    assert not held_out.folds.any()  # all are predicted by one training
    classes = labels.classes.clone()
    classes[0] = 1 - classes[0]
    changed = Labels(labels.nodes, classes, 60, 2)
    other = rounds_of(dataclasses.replace(problem, validation=changed))
    # the same networks, whose epochs these labels do not choose
    progress = rounds.start()
    for state in mixture.states:
        progress = rounds._record(progress, state)
    progress = dataclasses.replace(progress, kept=NAMES)
    before, after = (each._held_out(progress).probabilities for each in (rounds, other))
    same = np.abs(before - after).max(1) == 0
    assert same[0] and same[::5].all() and not same.all()


def test_folds_have_no_correction_and_a_setting_switches_it_off(problem, unwatched):
    settings = resolve_settings("default", changes=SHORT)
    assert fit_problem(unwatched, settings, seed=0).model.correction is None
    result = fit_problem(problem, settings, seed=0)
    assert result.model.correction.shape == (3, 2)
    n_labels = len(problem.validation)
    assert result.choices["class correction"] == f"fitted to {n_labels} validation labels"
    off = fit_problem(problem, resolve_settings(settings, {"correction": 0}), seed=0)
    assert off.model.correction is None and "class correction" not in off.choices
    corrected = correct(off.model.distributions, result.model.correction)
    np.testing.assert_allclose(corrected, result.model.distributions)


# Weights

RIGHT = np.random.default_rng(0).beta([4.0, 2.0, 1.0], [1.0, 2.0, 2.0], (25, 3)).clip(0.1)


def test_no_point_of_a_fine_grid_is_better_than_the_weights():
    def objective(weights):
        return np.log(weights @ RIGHT.T).sum(-1) + np.log(weights).sum(-1)

    steps = np.arange(1, 200) / 200
    grid = np.array([(a, b, 1 - a - b) for a, b in itertools.product(steps, steps) if a + b < 1])
    found, values = fit_weights(RIGHT), objective(grid)
    assert objective(found) >= values.max()
    np.testing.assert_allclose(found, grid[values.argmax()], atol=0.006)
    assert found.sum() == pytest.approx(1)


def test_labels_that_tell_no_tracks_apart_leave_the_weights_alike():
    for right in (RIGHT[:0], np.repeat(RIGHT[:, :1], 3, axis=1), np.zeros((4, 3))):
        np.testing.assert_allclose(fit_weights(right), 1 / 3)


def test_a_label_of_weight_two_counts_as_two_and_one_of_weight_zero_not_at_all():
    each = np.arange(len(RIGHT)) % 3.0
    repeated = np.repeat(RIGHT, each.astype(int), axis=0)
    np.testing.assert_allclose(fit_weights(RIGHT, each), fit_weights(repeated), atol=1e-8)
    np.testing.assert_array_equal(fit_weights(RIGHT, np.ones(25)), fit_weights(RIGHT))


def test_one_surprise_does_not_decide():
    right = np.tile([0.9, 0.6], (30, 1))
    right[0, 0] = 0.0  # the good track was sure, and wrong once
    assert fit_weights(right)[0] > 0.7


# The rounds of one track


def test_one_track_alone_has_all_the_weight_and_hides_labels_only_in_folds(unwatched, answering):
    asked = answering({"learned": 0.7})
    bare = dataclasses.replace(unwatched, folds=None)
    result = fit_problem(bare, resolve_settings("paper"), seed=0)
    rounds = [("learned", n) for n in (1, 2, 3)]
    assert [(name, number) for name, number, _ in asked] == rounds
    assert all(len(nodes) == 8 for _, _, nodes in asked)
    assert result.weights == {"learned": 1.0}
    assert result.held_out is None
    asked.clear()
    hiding = fit_problem(unwatched, resolve_settings("paper"), seed=0)
    assert [(name, number) for name, number, _ in asked] == 4 * rounds
    seen = [*(nodes.tolist() for nodes in unwatched.folds.seen), list(range(8))]
    assert [nodes for _, number, nodes in asked if number == 1] == seen
    assert hiding.weights == {"learned": 1.0}
    np.testing.assert_allclose(hiding.held_out.probabilities.max(1), 0.7)
    np.testing.assert_array_equal(hiding.model.distributions, result.model.distributions)


# The weights of several


def test_the_weights_are_those_of_the_last_rounds_on_the_validation_nodes(
    problem, all_tracks_count
):
    rounds = rounds_of(problem)
    mixture = rounds.run(rounds.start())
    nodes, classes = problem.validation.nodes.numpy(), problem.validation.classes.numpy()
    by_name = {state.track.name: state.probabilities for state in mixture.states}
    right = np.stack([by_name[name][nodes, classes] for name in NAMES], 1)
    expected = fit_weights(right)
    np.testing.assert_allclose(list(mixture.all_weights.values()), expected)
    own = np.array([mixture.all_weights[state.track.name] for state in mixture.states])
    np.testing.assert_allclose(mixture.weights, own / own.sum())
    assert list(mixture.weights) == sorted(mixture.weights, reverse=True)
    parts = [state.probabilities for state in mixture.states]
    mixed = np.tensordot(mixture.weights, parts, 1)
    np.testing.assert_allclose(mixture.probabilities, correct(mixed, mixture.correction))
    np.testing.assert_allclose(mixture.probabilities.sum(1), 1)


@pytest.mark.parametrize("has_validation", [True, False])
def test_a_label_that_weighs_more_counts_more(problem, unwatched, has_validation):
    problem = problem if has_validation else unwatched
    name = "validation" if has_validation else "labels"
    each = 1.0 + np.arange(len(getattr(problem, name))) % 3
    problem = dataclasses.replace(problem, **{name: getattr(problem, name).with_weights(each)})
    np.testing.assert_allclose(
        np.sort(rounds_of(problem).label_weights), np.sort(each / each.mean()), rtol=1e-6
    )


def given_graph(follows_classes, has_words, has_validation):
    """90 nodes: a graph of the classes or of other groups, with words of classes or of chance."""
    rng = np.random.default_rng(0)
    numbers = np.arange(90)
    classes = numbers % 2
    groups = classes if follows_classes else numbers // 2 % 2
    upper = np.triu(rng.random((90, 90)) < np.where(groups[:, None] == groups, 0.15, 0.01), 1)
    graph = sp.csr_matrix((upper | upper.T).astype(np.float64))
    often = np.where(np.arange(20) % 2 == classes[:, None], 0.45, 0.15) if has_words else 0.3
    words = sp.csr_matrix((rng.random((90, 20)) < often).astype(np.float32))
    n_labels, validation = 48, None
    if has_validation:
        n_labels, validation = 16, Labels(numbers[16:80], classes[16:80], 90, 2)
    labels = Labels(numbers[:n_labels], classes[:n_labels], 90, 2)
    return with_folds(FitProblem(words, labels, graph, validation))


@pytest.mark.parametrize("has_validation", [True, False], ids=["validation", "folds"])
def test_a_misleading_graph_gets_little_weight_and_an_informative_one_much(has_validation):
    changes = {"n_epochs": 15, "n_rounds": 2, "tracks": ["learned", "features"]}
    settings = resolve_settings("default", changes=changes)
    misled, informed = (
        fit_problem(given_graph(good, not good, has_validation), settings, seed=0)
        for good in (False, True)
    )
    assert trust(misled) < 0.35 < 0.65 < trust(informed)  # 0.5 before any label was looked at
    assert misled.choices["learned graph"] == "that of the track features"
    assert informed.choices["learned graph"] == "that of the track learned"


# Tracks that are given up


def test_a_track_that_is_negligible_after_its_first_round_takes_no_other(
    watched_by_many, answering
):
    asked = answering(dict.fromkeys(NAMES, 0.9) | {"linear": 0.0})
    rounds = rounds_of(watched_by_many)
    mixture = rounds.run(rounds.start())
    taken = [[number for n, number, _ in asked if n == name] for name in NAMES]
    assert taken == [[1, 2, 3], [1, 2], [1], [1]]
    assert {state.track.name for state in mixture.states} == set(NAMES) - {"linear"}
    assert mixture.all_weights["linear"] < 0.05
    assert sum(mixture.weights) == pytest.approx(1)


def test_a_track_that_is_negligible_in_one_fold_is_not_trained_in_the_next(
    all_labels, answering, monkeypatch
):
    asked = answering(dict.fromkeys(NAMES, 0.9) | {"linear": 0.0})
    monkeypatch.setattr("glnn.engine.rounds.NEGLIGIBLE", 0.08)  # 1 / 22 after 20 labels
    rounds = rounds_of(all_labels)
    mixture = rounds.run(rounds.start())
    assert [name for name, _, _ in asked].count("linear") == 1
    assert [name for name, _, _ in asked].count("hops") == 4  # three folds, and all labels
    assert mixture.all_weights["linear"] < 0.05
    np.testing.assert_allclose(mixture.held_out.probabilities.sum(1), 1)
    is_first = mixture.held_out.folds == 0  # where it was asked, and said nothing of use
    right = mixture.held_out.probabilities.max(1)
    assert (right[is_first] < 0.9).all()
    np.testing.assert_allclose(right[~is_first], 0.9)


@pytest.mark.parametrize("has_validation", [True, False], ids=["validation", "folds"])
def test_a_graph_is_learned_from_the_mixture_though_no_track_that_learns_one_counts(
    watched_by_many, all_labels, answering, monkeypatch, has_validation
):
    asked = answering(dict.fromkeys(NAMES, 0.0) | {"hops": 0.9, "learned": 0.2})
    monkeypatch.setattr("glnn.engine.rounds.NEGLIGIBLE", 0.08)
    problem = watched_by_many if has_validation else all_labels
    result = fit_problem(problem, DEFAULT, seed=0)
    assert [track.name for track in result.model.tracks] == ["hops"]
    assert "that of the track learned" in result.choices["learned graph"]
    assert "did not help" in result.choices["learned graph"]
    assert {number for _, number, _ in asked} == {1}
    assert result.certificate.converged
    assert result.attribution.certificate is result.certificate
    assert abs(result.model.adjacency - result.model.prior).max() > 1e-3
    assert abs(result.model.adjacency - result.attribution.adjacency).max() == 0


# Labels that are hidden


@pytest.mark.parametrize("number", [0, 2])
def test_no_fit_sees_the_labels_that_judge_it(unwatched, all_tracks_count, number):
    """Other labels of a fold change nothing of what is said of that fold."""
    folds = unwatched.folds.hidden
    classes = unwatched.labels.classes.numpy().copy()
    classes[folds[number]] = 1 - classes[folds[number]]
    others = Labels(unwatched.labels.nodes.numpy(), classes, 60, 2)
    settings, hidden = resolve_settings("default", changes=SHORT), []
    for problem in (unwatched, dataclasses.replace(unwatched, labels=others)):
        rounds, seen = rounds_of(problem, settings), []
        rounds.run(rounds.start(), seen.append)
        hidden.append(seen[-1].judged)
    own = rounds.entries[number]
    rest = np.setdiff1d(np.arange(8), own)
    assert hidden[0][:, own].any(2).all()
    np.testing.assert_array_equal(hidden[0][:, own], hidden[1][:, own])
    assert (hidden[0][:, rest] != hidden[1][:, rest]).any(2).all()  # which they did teach


def test_what_is_said_of_hidden_labels_is_the_mixture_of_fits_without_them(
    unwatched, all_tracks_count
):
    settings = resolve_settings("default", changes=FAST | {"tracks": ["features", "hops"]})
    result = fit_problem(unwatched, settings, seed=0)
    judged, classes = np.zeros((2, 8, 2)), unwatched.labels.classes.numpy()
    folds = unwatched.folds.hidden
    for places in folds:
        rest = unwatched.labels.select(np.setdiff1d(np.arange(8), places))
        steps = rounds_of(dataclasses.replace(unwatched, labels=rest, folds=None), settings).steps
        steps.n_labels = 8  # on which the strength of the alignment depends, in folds too
        for number, track in enumerate(steps.tracks):
            state = steps.start(track)
            while not state.is_done:
                state = steps.next_round(state)
            judged[number, places] = state.probabilities[places]
    right = judged[:, np.arange(8), classes].T
    for places in folds:
        weights = fit_weights(np.delete(right, places, axis=0))
        expected = np.tensordot(weights, judged[:, places], 1)
        np.testing.assert_allclose(result.held_out.probabilities[places], expected, atol=1e-12)
    right = result.held_out.probabilities[np.arange(8), unwatched.labels.classes.numpy()]
    assert right.std() > 0


@pytest.mark.parametrize("with_validation", [True, False])
def test_test_labels_change_nothing(blocks, with_validation):
    features, graph, classes = blocks
    splits = {"train": np.arange(8), "test": np.arange(28, 60)}
    if with_validation:
        splits["val"] = np.arange(8, 28)
    turned = np.where(np.arange(60) >= 28, 1 - classes, classes)
    fits = []
    for labels in (classes, turned):
        data = NodeData(features, labels, graph, ("a", "b"), splits)
        fits.append(GLNNClassifier(**SHORT, random_state=0).fit(data))
    np.testing.assert_array_equal(*(clf.label_distributions_ for clf in fits))
    assert fits[0].mixture_ == fits[1].mixture_
    assert (fits[0].graph_ != fits[1].graph_).nnz == 0


# Going on, and several processes


@pytest.mark.parametrize("has_validation", [True, False], ids=["validation", "folds"])
def test_a_fit_that_goes_on_from_any_point_ends_alike(
    watched_by_many, all_labels, answering, has_validation
):
    asked = answering({"learned": 0.9, "linear": 0.7, "hops": 0.0})
    changes = {"tracks": ["learned", "linear", "hops"], "n_rounds": 2}
    problem = watched_by_many if has_validation else all_labels
    rounds = rounds_of(problem, resolve_settings("default", changes=changes))
    saved = [rounds.start()]
    whole = rounds.run(saved[0], saved.append)
    n_trainings = len(asked)
    for progress in saved:
        asked.clear()
        again = rounds.run(progress)
        assert again.weights == whole.weights
        assert again.all_weights == whole.all_weights
        assert [s.track.name for s in again.states] == [s.track.name for s in whole.states]
        assert all(state.is_done for state in again.states)
        assert len(asked) < n_trainings or progress is saved[0]
    assert asked == []  # the last had everything


@pytest.mark.parametrize("has_validation", [True, False], ids=["validation", "folds"])
def test_two_processes_find_the_weights_of_one(
    problem, unwatched, together, all_tracks_count, has_validation
):
    problem = problem if has_validation else unwatched
    noiseless = {"n_epochs": 3, "dropout": 0.0, "drop_node": 0.0, "n_rounds": 2}
    noiseless["tracks"] = ["learned", "features", "linear"]
    settings = resolve_settings("default", changes=noiseless)
    settings = settings.map_tracks(  # the rows that any number of processes has
        lambda track: dataclasses.replace(track, head=dataclasses.replace(track.head, pool_size=0))
    )

    def work(peers):
        rows = Partition(60, peers).rows
        features, graph = problem.features[rows], problem.graph[rows]
        part = dataclasses.replace(problem, features=features, graph=graph, peers=peers)
        return fit_problem(part, settings, seed=0)

    (one,) = together(1, work)
    first, second = together(2, work)
    assert first.weights == second.weights == pytest.approx(one.weights, abs=1e-3)
    both = np.concatenate([first.model.distributions, second.model.distributions])
    np.testing.assert_allclose(both, one.model.distributions, atol=1e-2)
    if not has_validation:
        hidden = [result.held_out.probabilities for result in (one, first, second)]
        np.testing.assert_allclose(hidden[1:], [hidden[0]] * 2, atol=1e-2)


def test_a_label_hidden_several_times_takes_no_part_in_the_weights_of_its_own_prediction(
    unwatched, answering
):
    answering({"learned": 0.9, "linear": 0.6})
    labels = Labels(np.arange(8), np.array([0] * 6 + [1, 1]), 60, 2)
    changes = {"tracks": ["learned", "linear"], "n_rounds": 1}
    problem = with_folds(unwatched, labels=labels)  # each of three folds hides one of the last two
    rounds, saved = rounds_of(problem, resolve_settings("default", changes=changes)), []
    rounds.run(rounds.start(), saved.append)
    assert len(rounds.nodes) == 9
    np.testing.assert_allclose(np.bincount(rounds.nodes, rounds.label_weights), np.ones(8))
    judged = np.random.default_rng(0).dirichlet(np.ones(2), saved[-1].judged.shape[:2])
    found = rounds._held_out(dataclasses.replace(saved[-1], judged=judged))
    node = max((6, 7), key=lambda n: (rounds.nodes == n).sum())  # hidden in two folds
    parts = []
    for own in rounds.entries:
        if node in rounds.nodes[own]:
            rest = ~np.isin(rounds.nodes, rounds.nodes[own])
            right = judged[:, rest, rounds.classes[rest]].T
            weights = fit_weights(right, rounds.label_weights[rest])
            parts.append(weights @ judged[:, own[rounds.nodes[own] == node][0]])
    assert len(parts) == 2
    assert found.nodes.tolist() == list(range(8))
    np.testing.assert_allclose(found.probabilities[found.nodes == node][0], np.mean(parts, 0))
