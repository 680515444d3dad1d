"""Heads on rows compete with the first classifier; who cannot be told apart answers with it."""

import math

from glnn.engine.callbacks import GiveUp
from glnn.engine.committee import chosen
from glnn.engine.state import FitState
from glnn.engine.steps import Steps
from glnn.engine.trained import Trained

_HOPELESS = 2.0
"""Standard errors by which a classifier must be worse to be given up."""


def competed(steps: Steps, state: FitState) -> FitState:
    """Train the competitors of the settings; return the state with those that may stay.

    Where the classifier that was there is worse by two standard errors, the best competitor takes
    its place. Heads on rows see the given graph as it is, so there is nothing to gain from learning
    it better: the round is the last. Otherwise later rounds may still improve the classifier, and
    the competitors that cannot be told apart from the best one wait for the end.
    """
    before = state.trained
    assert before is not None and steps.validation is not None  # the caller has looked
    state = state.changed(row_graph=steps.row_graph(state))
    candidates = [before]
    for head in steps.settings.competitors:
        rival = max(candidates, key=_accuracy)
        give_up = GiveUp(_hopeless_below(steps, rival), head.ramp_epochs // 2)
        tried = steps.classifier_step(state.changed(head=head), head.head, [give_up])
        assert tried.trained is not None  # it was just trained
        candidates.append(tried.trained)
    members = chosen(candidates, steps.validation)
    reach = chosen(candidates, steps.validation, _HOPELESS)
    if any(member.task is before.task for member in reach):
        partners = tuple(member for member in members if member.task is not before.task)
        return state.changed(partners=partners)
    best, *others = members
    return state.changed(
        head=best.task.settings, trained=best, partners=tuple(others), n_rounds=state.round
    )


def settled(steps: Steps, state: FitState) -> FitState:
    """Return the state after the last round with those who answer together, the best first."""
    if steps.validation is None or state.trained is None or not state.partners:
        return state
    best, *others = chosen((state.trained, *state.partners), steps.validation)
    return state.changed(head=best.task.settings, trained=best, partners=tuple(others))


def _accuracy(trained: Trained) -> float:
    assert trained.validation_accuracy is not None  # there are validation nodes
    return trained.validation_accuracy


def _hopeless_below(steps: Steps, rival: Trained) -> float:
    """Return an accuracy some standard errors below the rival's."""
    assert steps.problem.validation is not None  # the caller has looked
    accuracy, count = _accuracy(rival), len(steps.problem.validation.nodes)
    error = math.sqrt(max(accuracy * (1 - accuracy), 1 / count) / count)
    return accuracy - _HOPELESS * error
