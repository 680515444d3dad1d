import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import FitProblem
from glnn.engine.inputs import Scaling
from glnn.engine.rounds import Rounds
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import Steps
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation
from glnn.graph.prior import prior_graph

FAST = {"n_epochs": 30, "competes": False}


def rounds_of(problem, settings):
    scaling = Scaling.fit(problem.features)
    return Rounds(Steps(problem, settings, scaling, seed=0, device="cpu"))


def first_round(rounds):
    return rounds.first_round(rounds.steps.start())


def after_a_bold_round(problem):
    """Rounds, and a state after the first whose head believes predictions at once."""
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    rounds = rounds_of(problem, settings)
    state = first_round(rounds)
    bold = dataclasses.replace(settings.cautious[-1], gate=0.0)
    trained = dataclasses.replace(state.trained, validation_loss=0.5, validation_accuracy=0.8)
    return rounds, state.replace(head=bold, trained=trained)


def stages(result):
    return list(dict.fromkeys(result.history.column("stage")))


def test_each_round_has_one_classifier(problem):
    result = fit_problem(problem, resolve_settings("paper", changes=FAST), seed=0)
    assert stages(result) == ["classifier 1", "classifier 2", "classifier 3"]


def test_a_learned_metric_changes_the_candidates_and_a_fixed_one_keeps_them(problem):
    for metric, kept in (("learned", False), ("fixed", True)):
        settings = resolve_settings("default", changes=FAST | {"metric": metric})
        rounds = rounds_of(dataclasses.replace(problem, graph=None), settings)
        signals = rounds.steps.task_signals(first_round(rounds))
        assert ("candidates" in signals) == kept
        assert ("column_weights" in signals) != kept


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
    settings = resolve_settings("default", changes=FAST)
    rounds = rounds_of(problem, settings)
    state = first_round(rounds)
    losses = [
        rounds.steps.classifier_step(state.replace(head=head)).trained.validation_loss
        for head in (settings.head, *settings.cautious)
    ]
    best, least = settings.head, losses[0]
    for head, loss in zip(settings.cautious, losses[1:]):
        if loss < 0.98 * least:
            best, least = head, loss
    assert len(losses) == 3
    assert state.head == state.trained.task.settings == best


def told(losses):
    """A classifier step whose numbers on the validation nodes are made up."""
    step = Steps.classifier_step

    def classifier_step(self, state):
        state = step(self, state)
        loss, accuracy = losses(state)
        numbers = {"validation_loss": loss, "validation_accuracy": accuracy}
        return state.replace(trained=dataclasses.replace(state.trained, **numbers))

    return classifier_step


def test_with_validation_and_many_labels_the_plain_network_is_tried(problem, monkeypatch):
    monkeypatch.setattr("glnn.engine.rounds.MANY_LABELS", 4)
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    losses = {"propagation": 0.5, "gcn": 0.48}
    monkeypatch.setattr(
        Steps, "classifier_step", told(lambda state: (losses[state.head.head], 0.8))
    )
    assert first_round(rounds_of(problem, settings)).head == settings.plain
    losses["gcn"] = 0.495  # not clearly better
    assert first_round(rounds_of(problem, settings)).head == settings.head


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
    monkeypatch.setattr(Steps, "probe", lambda self, state: next(losses))
    state = first_round(rounds_of(problem, resolve_settings("default", changes=FAST)))
    assert (state.given is not None) == (source == "given")
    assert state.graph.weights.closeness == closeness


def test_a_round_that_is_worse_in_loss_and_accuracy_is_undone_and_the_last(problem, monkeypatch):
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    numbers = []

    def losses(state):
        numbers.append(state.round)
        return (0.5, 0.8) if state.round == 1 else (0.6, 0.79)

    monkeypatch.setattr(Steps, "classifier_step", told(losses))
    rounds, seen = rounds_of(problem, settings), []
    state = rounds.run(rounds.steps.start(), seen.append)
    assert max(numbers) == 2
    assert (state.round, state.n_rounds) == (1, 1)
    assert state.trained is seen[0].trained  # the old state was kept, not put together again
    assert [after.round for after in seen] == [1, 1]
    prior = prior_graph(problem.graph, "renormalized")
    assert abs(state.adjacency - prior).max() == 0
    assert state.learned.certificate.converged
    links = state.new_rows.connect(problem.features[:3], problem.graph[:3]).links
    assert links.nnz >= problem.graph[:3].nnz  # new nodes join where they are linked


def test_a_collapsed_round_that_is_undone_leaves_the_head_of_the_network_that_stays(
    problem, monkeypatch
):
    settings = resolve_settings("default", changes=FAST | {"doubts_graph": False})
    rounds = rounds_of(problem, settings)
    monkeypatch.setattr(
        Steps,
        "classifier_step",
        told(lambda state: (0.1, 0.99) if state.round == 1 else (0.9, 0.3)),
    )
    before = first_round(rounds)
    after = rounds.later_round(before)
    assert after.trained is before.trained
    assert after.head == before.head == after.trained.task.settings


def test_a_round_that_collapses_on_validation_is_trained_again_with_caution(problem, monkeypatch):
    rounds, before = after_a_bold_round(problem)
    accuracies = iter([0.4, 0.9])
    monkeypatch.setattr(Steps, "classifier_step", told(lambda state: (0.4, next(accuracies))))
    after = rounds.later_round(before)
    assert after.head == rounds.steps.settings.cautious[-1]
    assert after.trained.validation_accuracy == 0.9


@pytest.mark.parametrize(
    ("doubt", "losses", "taken"),
    [
        (0.9, {10.0: 0.5, 1.0: 0.4, 0.3: 0.3, 0.1: 0.299}, 0.3),  # the last is not clearly better
        (0.9, {10.0: 0.5, 1.0: 0.6, 0.3: 0.1}, 10.0),  # the next must be better
        (0.8, {10.0: 0.5, 1.0: 0.1}, 10.0),  # the graph is by far the better source
    ],
)
def test_lower_closeness_is_taken_while_each_is_clearly_better(
    problem, monkeypatch, doubt, losses, taken
):
    rounds = rounds_of(problem, resolve_settings("default", changes=FAST | {"doubts_graph": False}))
    before = first_round(rounds)
    weights = before.graph.weights.replace(closeness=10.0)
    graph = dataclasses.replace(before.graph, weights=weights)
    trained = dataclasses.replace(before.trained, validation_loss=0.7, validation_accuracy=0.9)
    before = before.replace(graph=graph, doubt=doubt, trained=trained)
    monkeypatch.setattr(
        Steps,
        "classifier_step",
        told(lambda state: (losses[state.graph.weights.closeness], 0.99)),
    )
    assert rounds.later_round(before).graph.weights.closeness == taken


def test_another_closeness_needs_no_second_search_for_candidates(problem, monkeypatch):
    rounds, before = after_a_bold_round(problem)
    first = rounds.steps.graph_step(before.next_round())
    graph = before.graph
    other = dataclasses.replace(graph, weights=graph.weights.replace(closeness=0.1))
    searched = rounds.steps.graph_step(before.replace(graph=other).next_round())
    monkeypatch.setattr("glnn.solver.learn.nearest_pairs", None)
    taken = rounds.steps.graph_step(before.replace(graph=other).next_round(), like=first)
    assert (taken.adjacency != searched.adjacency).nnz == 0
    assert (taken.adjacency != first.adjacency).nnz > 0


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


def test_a_round_that_does_not_collapse_keeps_its_head(problem, monkeypatch):
    rounds, before = after_a_bold_round(problem)
    monkeypatch.setattr(Steps, "classifier_step", told(lambda state: (0.4, 0.79)))
    assert rounds.later_round(before).head == before.head


def test_without_validation_nodes_or_after_the_second_round_closeness_stays(problem, monkeypatch):
    bare = dataclasses.replace(problem, validation=None)
    for case, number in ((bare, 2), (problem, 3)):
        rounds = rounds_of(case, resolve_settings("default", changes=FAST))
        state = rounds.steps.start().replace(round=number, doubt=1.0)
        monkeypatch.setattr(rounds, "_run_round", None)  # nothing is tried
        assert rounds._with_best_closeness(state, state) is state
