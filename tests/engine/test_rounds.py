import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine.classifier import Labels
from glnn.engine.fit import fit_problem
from glnn.engine.presets import resolve_settings
from glnn.engine.problem import FitProblem
from glnn.engine.rounds import Rounds
from glnn.engine.scaling import Scaling
from glnn.engine.trainer import Validation
from glnn.graph.prior import prior_graph

FAST = {"n_epochs": 30}


def rounds_of(problem, settings):
    scaling = Scaling.fit(problem.features)
    return Rounds(problem, settings, scaling, seed=0, device="cpu", callbacks=())


def stages(result):
    return list(dict.fromkeys(result.history.column("stage")))


def test_each_round_has_one_classifier(problem):
    result = fit_problem(problem, resolve_settings("paper", changes=FAST), seed=0)
    assert stages(result) == ["classifier 1", "classifier 2", "classifier 3"]


def test_a_learned_metric_changes_the_candidates_and_a_fixed_one_keeps_them(problem):
    for metric, kept in (("learned", False), ("fixed", True)):
        settings = resolve_settings("default", changes=FAST | {"metric": metric})
        rounds = rounds_of(dataclasses.replace(problem, graph=None), settings)
        rounds.first_round()
        assert ("candidates" in rounds._task_signals()) == kept
        assert ("column_weights" in rounds._task_signals()) != kept


def test_without_validation_few_labels_take_the_cautious_head(problem):
    bare = FitProblem(problem.features, problem.labels, problem.graph)
    result = fit_problem(bare, resolve_settings("default", changes=FAST), seed=0)
    assert result.settings.head.gate == 0.7  # 4 labels a class
    assert result.choices["n_rounds"] == 3
    alone = FitProblem(problem.features, problem.labels)
    assert (
        fit_problem(alone, resolve_settings("default", changes=FAST), seed=0).choices["n_rounds"]
        == 1
    )


def test_with_validation_and_few_labels_every_head_is_tried_and_the_best_is_kept(problem):
    rounds = rounds_of(problem, resolve_settings("default", changes=FAST))
    rounds.first_round()
    best = bold = resolve_settings("default", changes=FAST).head
    loss = rounds.classifier_step(1, bold).validation_loss
    for head in rounds.cautious:
        tried = rounds.classifier_step(1, head).validation_loss
        if tried < 0.98 * loss:
            best, loss = head, tried
    assert len(rounds.cautious) == 2
    assert rounds.head == best


def test_with_validation_and_many_labels_the_plain_network_is_tried(problem, monkeypatch):
    monkeypatch.setattr("glnn.engine.rounds.MANY_LABELS", 4)
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    plain, losses = settings.plain, {"propagation": 0.5, "gcn": 0.48}
    step = Rounds.classifier_step

    def told(self, number, head):
        trained = step(self, number, head)
        return dataclasses.replace(trained, validation_loss=losses[head.head])

    monkeypatch.setattr(Rounds, "classifier_step", told)
    rounds = rounds_of(problem, settings)
    rounds.first_round()
    assert rounds.head == plain
    losses["gcn"] = 0.495  # not clearly better
    rounds = rounds_of(problem, settings)
    rounds.first_round()
    assert rounds.head == settings.head


@pytest.mark.parametrize("with_validation", [True, False])
def test_a_graph_of_pure_chance_is_not_trusted_and_a_good_one_is(blocks, with_validation):
    features, graph, classes = blocks
    rng = np.random.default_rng(1)
    chance = np.triu(rng.random((60, 60)) < 0.2, 1)
    chance = sp.csr_matrix((chance | chance.T).astype(float))
    train, held = np.arange(36), np.arange(36, 56)
    validation = None
    if with_validation:
        validation = Validation(torch.from_numpy(held), torch.from_numpy(classes[held]))
    sources = []
    for given in (chance, graph):
        problem = FitProblem(features, Labels(train, classes[train], 60, 2), given, validation)
        settings = resolve_settings("default", changes={"n_epochs": 60})
        sources.append(fit_problem(problem, settings, seed=0).choices["source"])
    assert sources == ["features", "given"]


@pytest.mark.parametrize(
    ("given", "alone", "source", "closeness"),
    [(1.0, 0.95, None, 0.0), (1.0, 0.96, "given", 1.0), (0.95, 1.0, "given", 10.0)],
)
def test_probes_say_how_far_the_given_graph_is_trusted(
    problem, monkeypatch, given, alone, source, closeness
):
    losses = iter([given, alone])
    monkeypatch.setattr(Rounds, "_probe", lambda self: next(losses))
    rounds = rounds_of(problem, resolve_settings("default", changes=FAST))
    rounds.first_round()
    assert (rounds.given is problem.graph) == (source == "given")
    assert rounds.graph.weights.closeness == closeness


def test_a_round_that_is_worse_in_loss_and_accuracy_is_undone_and_the_last(problem, monkeypatch):
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    rounds, numbers = rounds_of(problem, settings), []
    step = Rounds.classifier_step

    def told(self, number, head):
        numbers.append(number)
        loss, accuracy = (0.5, 0.8) if number == 1 else (0.6, 0.79)
        trained = step(self, number, head)
        return dataclasses.replace(trained, validation_loss=loss, validation_accuracy=accuracy)

    monkeypatch.setattr(Rounds, "classifier_step", told)
    rounds.run()
    assert max(numbers) == 2
    assert rounds.trained.validation_loss == 0.5
    prior = prior_graph(problem.graph, "renormalized")
    assert abs(rounds.adjacency - prior).max() == 0
    assert abs(rounds.learned.adjacency - prior).max() < 1e-9  # where closeness alone counts
    assert rounds.learned.certificate.converged


def test_a_collapsed_round_that_is_undone_leaves_the_head_of_the_network_that_stays(
    problem, monkeypatch
):
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    rounds = rounds_of(problem, settings)
    rounds.first_round()
    head, step = rounds.head, Rounds.classifier_step
    rounds.trained = dataclasses.replace(
        rounds.trained, validation_loss=0.1, validation_accuracy=0.99
    )

    def told(self, number, head):
        trained = step(self, number, head)
        return dataclasses.replace(trained, validation_loss=0.9, validation_accuracy=0.3)

    monkeypatch.setattr(Rounds, "classifier_step", told)
    assert not rounds.later_round(2)
    assert rounds.head == head == rounds.trained.task.settings


def test_a_round_that_collapses_on_validation_is_trained_again_with_caution(problem, monkeypatch):
    changes = FAST | {"doubts_graph": False}
    rounds = rounds_of(problem, resolve_settings("default", changes=changes))
    rounds.first_round()
    bold = dataclasses.replace(rounds.cautious[-1], gate=0.0)
    rounds.head, accuracies = bold, iter([0.4, 0.9])
    rounds.trained = dataclasses.replace(rounds.trained, validation_accuracy=0.8)
    step = Rounds.classifier_step

    def told(self, number, head):
        return dataclasses.replace(step(self, number, head), validation_accuracy=next(accuracies))

    monkeypatch.setattr(Rounds, "classifier_step", told)
    rounds.later_round(2)
    assert rounds.head == rounds.cautious[-1]
    assert rounds.trained.validation_accuracy == 0.9


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(problem, preset):
    settings = resolve_settings(preset, changes=FAST)
    first, again, other = (fit_problem(problem, settings, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    np.testing.assert_array_equal(first.adjacency.data, again.adjacency.data)
    assert (first.probabilities != other.probabilities).any()


def test_labels_outside_training_and_validation_do_not_matter(problem, blocks):
    # the problem holds labels of training and validation nodes only: nothing else can leak
    known = set(problem.labels.nodes.tolist())
    assert problem.labels.one_hot.sum() == len(known)
    assert known.isdisjoint(problem.validation.nodes.tolist())
