"""Heads on rows compete with the first classifier; who cannot be told apart answers with it."""

import dataclasses
import math
from collections.abc import Sequence

from glnn.engine.callbacks import Callback, GiveUp
from glnn.engine.committee import HOPELESS, Contest
from glnn.engine.selection import hidden_answers
from glnn.engine.state import FitState
from glnn.engine.steps import Steps
from glnn.engine.trained import Trained


def competed(steps: Steps, state: FitState) -> FitState:
    """Train the competitors of the settings; return the state with those that may stay.

    Validation nodes judge them, or else labels that are hidden in turn. Where the classifier that
    was there is worse, the best competitor takes its place. Heads on rows see the given graph as
    it is, so there is nothing to gain from learning it better: the round is the last.
    """
    state = state.changed(row_graph=steps.row_graph(state))
    return _judged_by_folds(steps, state) if steps.validation is None else _judged(steps, state)


def settled(steps: Steps, state: FitState) -> FitState:
    """Return the state after the last round with those who answer together, the best first."""
    if steps.validation is None or state.trained is None or not state.partners:
        return state
    members = (state.trained, *state.partners)
    contest = Contest.of([member.probabilities for member in members], steps.validation)
    best, *others = (_at(t, members[place]) for place, t in contest.kept().items())
    return state.changed(head=best.task.settings, trained=best, partners=tuple(others))


def _judged(steps: Steps, state: FitState) -> FitState:
    """Let validation nodes judge.

    A first classifier that is not worse by two standard errors stays: later rounds may still
    improve it, and the competitors that cannot be told apart from the best one wait for the end.
    """
    before = state.trained
    assert before is not None and steps.validation is not None  # the caller has looked
    candidates = [before]
    for head in steps.settings.rivals(has_validation=True):
        rival = max(candidates, key=_accuracy)
        give_up = GiveUp(_hopeless_below(steps, rival), head.ramp_epochs // 2)
        candidates.append(_tried(steps, state.changed(head=head), [give_up]))
    contest = Contest.of([c.probabilities for c in candidates], steps.validation)
    members = {place: _at(t, candidates[place]) for place, t in contest.kept().items()}
    if 0 not in contest.kept(HOPELESS):
        return _taken_over(state, list(members.values()))
    partners = tuple(member for place, member in members.items() if place > 0)
    return state.changed(partners=partners)


def _judged_by_folds(steps: Steps, state: FitState) -> FitState:
    """Let hidden labels judge; who cannot be told apart from the best is trained on all labels."""
    before = state.trained
    heads = (state.head, *steps.settings.rivals(has_validation=False))
    assert before is not None  # the caller has looked
    answers, judged = hidden_answers(steps, state, heads)
    places = list(answers)
    kept = Contest.of(list(answers.values()), judged).kept()
    temperatures = {places[k]: temperature for k, temperature in kept.items()}
    members = [
        _tried(steps, state.changed(head=heads[place], temperature=temperature))
        for place, temperature in temperatures.items()
        if place > 0
    ]
    if 0 not in temperatures:
        return _taken_over(state, members)
    first = _at(temperatures[0], before)
    return state.changed(trained=first, partners=tuple(members), temperature=temperatures[0])


def _at(temperature: float, member: Trained) -> Trained:
    return dataclasses.replace(member, temperature=temperature)


def _taken_over(state: FitState, members: Sequence[Trained]) -> FitState:
    """Return the state with other classifiers, which end the rounds."""
    best, *others = members
    return state.changed(
        head=best.task.settings, trained=best, partners=tuple(others), n_rounds=state.round
    )


def _tried(steps: Steps, state: FitState, rivals: Sequence[Callback] = ()) -> Trained:
    tried = steps.classifier_step(state, state.head.head, rivals).trained
    assert tried is not None  # it was just trained
    return tried


def _accuracy(trained: Trained) -> float:
    assert trained.validation_accuracy is not None  # there are validation nodes
    return trained.validation_accuracy


def _hopeless_below(steps: Steps, rival: Trained) -> float:
    """Return an accuracy some standard errors below the rival's."""
    assert steps.problem.validation is not None  # the caller has looked
    accuracy, count = _accuracy(rival), len(steps.problem.validation.nodes)
    error = math.sqrt(max(accuracy * (1 - accuracy), 1 / count) / count)
    return accuracy - HOPELESS * error
