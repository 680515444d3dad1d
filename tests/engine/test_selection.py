import dataclasses

import numpy as np
import pytest

from glnn.engine.classifier import Labels
from glnn.engine.competition import competed
from glnn.engine.fit import fit_problem
from glnn.engine.presets import PRESETS, resolve_settings
from glnn.engine.scaling import Scaling
from glnn.engine.selection import hidden_answers, label_folds
from glnn.engine.state import FitState
from glnn.engine.steps import Steps
from glnn.engine.trained import Trained, tempered
from glnn.peers import Partition

FOLDS = resolve_settings("default", changes={"selection": "folds", "n_epochs": 10})
HEADS = (FOLDS.unwatched[0], *FOLDS.unwatched_competitors)


@pytest.fixture
def unwatched(problem):
    """The same nodes without validation."""
    return dataclasses.replace(problem, validation=None)


def steps_of(problem, settings=FOLDS):
    return Steps(
        problem, settings, Scaling.fit(problem.features, peers=problem.peers), seed=0, device="cpu"
    )


@pytest.fixture
def steps(unwatched):
    return steps_of(unwatched)


def first_round(steps):
    state = steps.classifier_step(steps.graph_step(steps.start().next_round()))
    return state.changed(row_graph=steps.row_graph(state))


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
        task = self.task_of(state)
        return state.changed(trained=Trained(task, found, None, None, state.temperature))

    monkeypatch.setattr(Steps, "classifier_step", classifier_step)
    return asked


def test_each_label_is_hidden_once_and_predicted_without_it(steps, monkeypatch, blocks):
    state = first_round(steps)
    asked = answering(monkeypatch, blocks[2], ["propagation", "linear", "hops"])
    answers, judged = hidden_answers(steps, state, HEADS)
    nodes = steps.problem.labels.nodes.numpy()
    hidden = [tuple(np.setdiff1d(nodes, seen)) for seen, _, _ in asked]
    assert sorted(node for fold in set(hidden) for node in fold) == sorted(nodes)
    assert all(hidden.count(fold) == len(HEADS) for fold in set(hidden))
    assert sorted(judged.nodes.tolist()) == sorted(nodes)
    for answer in answers.values():
        assert (answer[nodes].argmax(1) == blocks[2][nodes]).all()
        assert (np.delete(answer, nodes, axis=0) == 0).all()


def test_nothing_of_the_folds_enters_the_history(steps):
    state = first_round(steps)
    before = len(steps.history)
    hidden_answers(steps, state, HEADS[:1])
    assert len(steps.history) == before


def test_the_answers_are_those_of_trainings_with_the_labels_that_are_left(steps):
    state = first_round(steps)
    answers, _ = hidden_answers(steps, state, HEADS[:1])
    hidden = label_folds(steps.problem.labels, 0)[0]
    kept = np.setdiff1d(np.arange(len(steps.problem.labels)), hidden)
    known = steps.problem.labels.picked(kept)
    again = steps_of(dataclasses.replace(steps.problem, labels=known))
    found = again.classifier_step(state.changed(head=HEADS[0])).trained.probabilities
    nodes = steps.problem.labels.nodes.numpy()[hidden]
    np.testing.assert_array_equal(answers[0][nodes], found[nodes])


def test_a_hopeless_head_is_not_trained_again(steps, monkeypatch, blocks):
    state = first_round(steps)
    wide = steps.with_labels(type(steps.problem.labels)(np.arange(48), blocks[2][:48], 60, 2))
    asked = answering(monkeypatch, blocks[2], ["hops"])
    answers, _ = hidden_answers(wide, state, HEADS)
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
    state = first_round(steps)
    answering(monkeypatch, blocks[2], good)
    after = competed(steps, state)
    assert {m.task.settings.head for m in (after.trained, *after.partners)} == taken
    assert after.n_rounds == n_rounds


def test_a_head_that_is_not_told_apart_stays_first_with_its_temperature(steps, monkeypatch, blocks):
    state = first_round(steps)
    answering(monkeypatch, blocks[2], ["propagation", "linear", "hops"])
    after = competed(steps, state)
    assert isinstance(after, FitState)
    assert after.trained.task is state.trained.task
    assert after.trained.temperature == after.temperature < 1
    assert len(after.partners) == len(HEADS) - 1
    answers = [tempered(m.probabilities, m.temperature) for m in (after.trained, *after.partners)]
    np.testing.assert_allclose(after.answer, np.mean(answers, axis=0))
    later = steps.classifier_step(after.next_round())
    assert later.trained.temperature == after.temperature


def test_processes_choose_alike(unwatched, blocks, together, monkeypatch):
    answering(monkeypatch, blocks[2], ["hops"])

    def work(peers):
        mine = Partition(60, peers).rows
        features, graph = unwatched.features[mine], unwatched.graph[mine]
        part = dataclasses.replace(unwatched, features=features, graph=graph, peers=peers)
        steps = steps_of(part)
        state = steps.start().next_round().changed(adjacency=graph)
        return competed(steps, steps.classifier_step(state)).trained.task.settings.head

    assert together(3, work) == ["hops"] * 3


def test_by_itself_it_needs_a_graph_and_labels_that_are_not_few(unwatched, monkeypatch):
    asked = []
    monkeypatch.setattr("glnn.engine.rounds.competed", lambda s, state: asked.append(1) or state)
    auto = resolve_settings("default", changes={"n_epochs": 2, "n_rounds": 1})
    many = type(unwatched.labels)(np.arange(40), np.arange(40) % 2, 60, 2)
    fit_problem(unwatched, auto, seed=0)
    fit_problem(dataclasses.replace(unwatched, labels=many, graph=None), auto, seed=0)
    assert not asked
    fit_problem(dataclasses.replace(unwatched, labels=many), auto, seed=0)
    assert len(asked) == 1
    fit_problem(unwatched, auto.changed("selection", "folds"), seed=0)
    assert len(asked) == 2
    schedule = auto.changed("selection", "schedule")
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
