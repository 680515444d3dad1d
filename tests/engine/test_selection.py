import dataclasses
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.distributed import Partition
from glnn.engine import selection
from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import FitProblem
from glnn.engine.inputs import Scaling
from glnn.engine.selection import (
    ClassifierComparison,
    compete,
    label_folds,
    mean_and_error,
    predict_hidden,
    settle,
)
from glnn.engine.settings import PRESETS, resolve_settings
from glnn.engine.steps import FitState, Steps, TrainedClassifier, mean_answer, temper
from glnn.engine.tasks import ClassifierTask, Labels
from glnn.engine.trainer import Validation
from glnn.graph.operators import RandomWalk

# Comparison of classifiers

CLASSES = np.arange(40) % 2
VALIDATION = Validation(torch.arange(5, 35), torch.from_numpy(CLASSES[5:35]))


def member(n_wrong, sure=0.9, first=5):
    """A classifier that is wrong on some validation nodes in a row."""
    right = np.full(40, sure)
    right[first : first + n_wrong] = 1 - sure
    probabilities = np.empty((40, 2))
    probabilities[np.arange(40), CLASSES], probabilities[np.arange(40), 1 - CLASSES] = (
        right,
        1 - right,
    )
    return TrainedClassifier(ClassifierTask.__new__(ClassifierTask), probabilities, None, None)


def chosen(candidates, validation, n_errors=1.0):
    """Those that are kept, at their temperatures, the best first."""
    kept = ClassifierComparison.of([c.probabilities for c in candidates], validation).select(
        n_errors
    )
    return [dataclasses.replace(candidates[k], temperature=t) for k, t in kept.items()]


def test_how_sure_a_classifier_is_does_not_count():
    calm, sure = member(3, sure=0.6), member(3, sure=0.999)
    members = chosen([calm, sure], VALIDATION)
    assert len(members) == 2
    answers = [temper(m.probabilities, m.temperature) for m in members]
    np.testing.assert_allclose(answers[0], answers[1], atol=0.05)
    np.testing.assert_allclose(mean_answer(members), np.mean(answers, axis=0))


def test_equals_answer_together_and_the_clearly_worse_do_not():
    good, other, bad = member(3), member(4, first=20), member(15)
    members = chosen([bad, other, good], VALIDATION)
    assert [m.task for m in members] == [good.task, other.task]


def test_nodes_without_weight_tell_nothing_apart():
    good, bad = member(0), member(15)
    counted = np.ones(30)
    assert len(chosen([good, bad], VALIDATION.with_weights(counted))) == 1
    counted[:15] = 0.0  # those on which they differ
    assert len(chosen([good, bad], VALIDATION.with_weights(counted))) == 2


def test_a_candidate_alone_is_chosen():
    only = member(15)
    assert [m.task for m in chosen([only], VALIDATION)] == [only.task]


def test_processes_agree_with_one(together):
    rng = np.random.default_rng(0)
    differences = torch.from_numpy(rng.normal(size=30))

    def work(peers):
        part = Partition(40, peers)
        local = VALIDATION.local(part)
        mine = differences[part.is_local(VALIDATION.nodes.numpy())]
        return mean_and_error(mine, local)

    mean, error = mean_and_error(differences, VALIDATION)
    assert mean == pytest.approx(differences.mean().item())
    assert error == pytest.approx(differences.std().item() / 30**0.5)
    for found in together(3, work):
        assert found == pytest.approx((mean, error))


def test_who_is_as_often_right_is_kept_though_sure_of_its_mistakes():
    calm, sure = member(6, sure=0.9), member(0)
    doubtful = np.where(np.arange(40) % 3 == 0, 0.55, 0.99)  # knows where it may be wrong
    doubtful[5:35:5] = 0.45
    other = np.empty((40, 2))
    other[np.arange(40), CLASSES], other[np.arange(40), 1 - CLASSES] = doubtful, 1 - doubtful
    calm_mistakes = calm.probabilities[5:35].argmax(1) != CLASSES[5:35]
    assert calm_mistakes.sum() == (other[5:35].argmax(1) != CLASSES[5:35]).sum() == 6
    both = chosen([calm, TrainedClassifier(calm.task, other, None, None)], VALIDATION)
    assert len(both) == 2
    assert len(chosen([calm, sure], VALIDATION)) == 1  # worse in both


def test_one_standard_error_tells_two_apart_unless_more_are_asked_for():
    good, worse = member(3), member(5)  # five mistakes, three of them shared: 1.4 errors
    candidates = [worse, good]
    assert len(chosen(candidates, VALIDATION)) == 1
    assert len(chosen(candidates, VALIDATION, 2.0)) == 2
    assert chosen(candidates, VALIDATION)[0].task is good.task


# Competition of heads


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
    after = compete(steps, before)
    assert after.head.head == "hops"
    assert after.head.n_steps > 0
    assert after.n_rounds == after.round == 1
    assert after.trained.validation_accuracy > before.trained.validation_accuracy + 0.1


def test_a_classifier_that_may_stay_goes_on_with_its_partners(problem):
    steps = steps_of(problem)
    before = first_round(steps)
    after = compete(steps, before)
    trained = [before.trained, *after.partners]
    assert after.trained is before.trained
    assert after.n_rounds == before.n_rounds
    kept = ClassifierComparison.of(
        [member.probabilities for member in trained], steps.validation
    ).select()
    assert set(range(1, len(trained))) <= set(kept)
    np.testing.assert_allclose(after.answer, mean_answer((after.trained, *after.partners)))


def test_those_who_answer_at_the_end_are_the_best_and_its_equals(opposites):
    steps = steps_of(opposites)
    after = compete(steps, first_round(steps))
    weak = first_round(steps).trained
    last = settle(steps, after.replace(trained=weak, partners=(after.trained, *after.partners)))
    assert last.trained.task is after.trained.task
    assert all(partner.task is not weak.task for partner in last.partners)


def test_hopeless_competitors_are_given_up(problem):
    steps = steps_of(problem)
    sure = first_round(steps)
    sure = sure.replace(trained=dataclasses.replace(sure.trained, validation_accuracy=2.0))
    compete(steps, sure)
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
    compete(steps, first_round(steps))
    assert len(made) == 2  # with loops and without


def test_a_competitor_may_be_given_up_after_half_of_its_ramp(opposites, monkeypatch):
    seen = []

    class Watched(selection.StopIfWorse):
        def __init__(self, accuracy, grace):
            seen.append(grace)
            super().__init__(accuracy, grace)

    monkeypatch.setattr(selection, "StopIfWorse", Watched)
    steps = steps_of(opposites)
    compete(steps, first_round(steps))
    assert seen == [
        head.ramp_epochs // 2 for head in steps.settings.competing_heads(has_validation=True)
    ]
    assert min(seen) > 0


def test_without_validation_nodes_those_heads_compete_that_need_none(opposites, monkeypatch):
    seen = []

    def no_answers(steps, state, heads):
        seen.extend(heads)
        raise InterruptedError

    monkeypatch.setattr(selection, "predict_hidden", no_answers)
    problem = dataclasses.replace(opposites, validation=None)
    scaling = Scaling.fit(problem.features)
    steps = Steps(problem, resolve_settings("default"), scaling, seed=0, device="cpu")
    before = first_round(steps)
    with pytest.raises(InterruptedError):
        compete(steps, before)
    watched, unwatched = (
        steps.settings.competing_heads(has_validation=has) for has in (True, False)
    )
    assert seen == [before.head, *unwatched]
    assert unwatched != watched


# Hidden labels

FOLDS = resolve_settings("default", changes={"selection": "folds", "n_epochs": 10})
HEADS = (FOLDS.unwatched[0], *FOLDS.unwatched_competitors)


@pytest.fixture
def unwatched(problem):
    """The same nodes without validation."""
    return dataclasses.replace(problem, validation=None)


def fold_steps(problem, settings=FOLDS):
    return Steps(
        problem, settings, Scaling.fit(problem.features, peers=problem.peers), seed=0, device="cpu"
    )


@pytest.fixture
def steps(unwatched):
    return fold_steps(unwatched)


def first_of_folds(steps):
    state = steps.classifier_step(steps.graph_step(steps.start().next_round()))
    return state.replace(row_graph=steps.row_graph(state))


def answering(monkeypatch, truth, good):
    """Trainings whose heads are right about all nodes, or about a quarter of them.

    Returns the labels that each of them saw, and the state they answered for.
    """
    asked = []

    def classifier_step(self, state, stage="classifier", rivals=()):
        asked.append((self.problem.labels.nodes.numpy(), state, stage))
        sure = np.eye(2)[truth] * 0.8 + 0.1
        is_right = (np.arange(len(truth)) % 4 == 0) | (state.head.head in good)
        found = np.where(is_right[:, None], sure, 1 - sure)[self.partition.rows]
        task = self.build_task(state)
        return state.replace(trained=TrainedClassifier(task, found, None, None, state.temperature))

    monkeypatch.setattr(Steps, "classifier_step", classifier_step)
    return asked


def test_each_label_is_hidden_once_and_predicted_without_it(steps, monkeypatch, blocks):
    state = first_of_folds(steps)
    asked = answering(monkeypatch, blocks[2], ["propagation", "linear", "hops"])
    answers, judged = predict_hidden(steps, state, HEADS)
    nodes = steps.problem.labels.nodes.numpy()
    hidden = [tuple(np.setdiff1d(nodes, seen)) for seen, _, _ in asked]
    assert sorted(node for fold in set(hidden) for node in fold) == sorted(nodes)
    assert all(hidden.count(fold) == len(HEADS) for fold in set(hidden))
    assert sorted(judged.nodes.tolist()) == sorted(nodes)
    for answer in answers.values():
        assert (answer[nodes].argmax(1) == blocks[2][nodes]).all()
        assert (np.delete(answer, nodes, axis=0) == 0).all()


def test_nothing_of_the_folds_enters_the_history(steps):
    state = first_of_folds(steps)
    before = len(steps.history)
    predict_hidden(steps, state, HEADS[:1])
    assert len(steps.history) == before


def test_the_answers_are_those_of_trainings_with_the_labels_that_are_left(steps):
    state = first_of_folds(steps)
    answers, _ = predict_hidden(steps, state, HEADS[:1])
    hidden = label_folds(steps.problem.labels, 0)[0]
    kept = np.setdiff1d(np.arange(len(steps.problem.labels)), hidden)
    known = steps.problem.labels.select(kept)
    again = fold_steps(dataclasses.replace(steps.problem, labels=known))
    found = again.classifier_step(state.replace(head=HEADS[0])).trained.probabilities
    nodes = steps.problem.labels.nodes.numpy()[hidden]
    np.testing.assert_array_equal(answers[0][nodes], found[nodes])


def test_a_hopeless_head_is_not_trained_again(steps, monkeypatch, blocks):
    state = first_of_folds(steps)
    wide = steps.with_labels(type(steps.problem.labels)(np.arange(48), blocks[2][:48], 60, 2))
    asked = answering(monkeypatch, blocks[2], ["hops"])
    answers, _ = predict_hidden(wide, state, HEADS)
    assert {HEADS[place].head for place in answers} == {"hops"}
    assert sum("propagation" in stage for _, _, stage in asked) == 1


def test_folds_have_every_class_alike(unwatched):
    folds = label_folds(unwatched.labels, 0)
    assert sorted(np.concatenate(folds).tolist()) == list(range(8))
    for fold in folds:
        counts = np.bincount(unwatched.labels.classes.numpy()[fold], minlength=2)
        assert abs(counts[0] - counts[1]) <= 1


@pytest.mark.parametrize(
    ("good", "taken", "n_rounds"),
    [(["hops"], {"hops"}, 1), (["linear", "hops"], {"linear", "hops"}, 1)],
)
def test_heads_that_are_clearly_better_take_over(steps, monkeypatch, blocks, good, taken, n_rounds):
    state = first_of_folds(steps)
    answering(monkeypatch, blocks[2], good)
    after = compete(steps, state)
    assert {m.task.settings.head for m in (after.trained, *after.partners)} == taken
    assert after.n_rounds == n_rounds


def test_a_head_that_is_not_told_apart_stays_first_with_its_temperature(steps, monkeypatch, blocks):
    state = first_of_folds(steps)
    answering(monkeypatch, blocks[2], ["propagation", "linear", "hops"])
    after = compete(steps, state)
    assert isinstance(after, FitState)
    assert after.trained.task is state.trained.task
    assert after.trained.temperature == after.temperature < 1
    assert len(after.partners) == len(HEADS) - 1
    answers = [temper(m.probabilities, m.temperature) for m in (after.trained, *after.partners)]
    np.testing.assert_allclose(after.answer, np.mean(answers, axis=0))
    later = steps.classifier_step(after.next_round())
    assert later.trained.temperature == after.temperature


def test_processes_choose_alike(unwatched, blocks, together, monkeypatch):
    answering(monkeypatch, blocks[2], ["hops"])

    def work(peers):
        mine = Partition(60, peers).rows
        features, graph = unwatched.features[mine], unwatched.graph[mine]
        part = dataclasses.replace(unwatched, features=features, graph=graph, peers=peers)
        steps = fold_steps(part)
        state = steps.start().next_round().replace(adjacency=graph)
        return compete(steps, steps.classifier_step(state)).trained.task.settings.head

    assert together(3, work) == ["hops"] * 3


def test_by_itself_it_needs_a_graph_and_labels_that_are_not_few(unwatched, monkeypatch):
    asked = []
    monkeypatch.setattr("glnn.engine.rounds.compete", lambda s, state: asked.append(1) or state)
    auto = resolve_settings("default", changes={"n_epochs": 2, "n_rounds": 1})
    many = type(unwatched.labels)(np.arange(40), np.arange(40) % 2, 60, 2)
    fit_problem(unwatched, auto, seed=0)
    fit_problem(dataclasses.replace(unwatched, labels=many, graph=None), auto, seed=0)
    assert not asked
    fit_problem(dataclasses.replace(unwatched, labels=many), auto, seed=0)
    assert len(asked) == 1
    fit_problem(unwatched, auto.replace_setting("selection", "folds"), seed=0)
    assert len(asked) == 2
    schedule = auto.replace_setting("selection", "schedule")
    fit_problem(dataclasses.replace(unwatched, labels=many), schedule, seed=0)
    assert len(asked) == 2


def test_unwatched_competitors_are_the_same_heads_with_fewer_epochs():
    default = PRESETS["default"]
    for watched, other in zip(default.competitors, default.unwatched_competitors, strict=True):
        assert dataclasses.replace(other, n_epochs=watched.n_epochs) == watched
        assert other.n_epochs <= watched.n_epochs


def test_with_validation_nodes_nothing_is_hidden(problem):
    watched = resolve_settings("default", changes={"n_epochs": 10})
    both = (fit_problem(problem, settings, seed=0) for settings in (FOLDS, watched))
    np.testing.assert_array_equal(*(result.probabilities for result in both))


def test_folds_of_few_labels_have_one_each_and_none_has_all():
    labels = Labels(np.arange(3), np.array([0, 1, 0]), 9, 2)
    assert sorted(np.concatenate(label_folds(labels, 0)).tolist()) == [0, 1, 2]
    assert label_folds(Labels(np.arange(1), np.zeros(1, np.int64), 9, 2), 0) == []
