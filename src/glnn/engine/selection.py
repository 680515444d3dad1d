"""Without validation nodes, labels that are hidden in turn judge the heads."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from glnn._utils import mapped
from glnn.engine.callbacks import Callback, GiveUp
from glnn.engine.settings import HeadSettings
from glnn.engine.steps import FitState, Steps, Trained, logarithms, softened
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation

# --- committee: Classifiers that validation nodes cannot tell apart answer together: the mean of t

HOPELESS = 2.0
"""Standard errors by which a classifier must be worse to be given up."""

_TEMPERATURES = tuple(2 ** (k / 4) for k in range(-10, 21))
_LEAST = 1e-6
"""No answer counts as less probable: one wrong answer of a sure classifier must not decide."""


@dataclass(frozen=True)
class Contest:
    """Answers of several classifiers, node by node on the validation nodes that are here.

    Parameters
    ----------
    temperatures, losses, mistakes
        Of each classifier: its best temperature, its losses there, and ones where it is wrong.
    validation
        The nodes.
    """

    temperatures: Sequence[float]
    losses: Sequence[Float64[Tensor, "v"]]
    mistakes: Sequence[Float64[Tensor, "v"]]
    validation: Validation

    @classmethod
    def of(cls, answers: Sequence[np.ndarray], validation: Validation) -> "Contest":
        """Compare class probabilities of all nodes, one array a classifier."""
        validation = validation.to(torch.device("cpu"))
        nodes = validation.nodes.numpy()
        judged = [answer[nodes] for answer in answers]
        logs = [logarithms(answer) for answer in judged]
        temperatures = [_best_temperature(own, validation) for own in logs]
        losses = [_losses(*pair, validation) for pair in zip(logs, temperatures)]
        return cls(temperatures, losses, [_mistakes(a, validation) for a in judged], validation)

    def kept(self, n_errors: float = 1.0) -> dict[int, float]:
        """Return the places of the best and of those not worse by this many standard errors.

        The best comes first; each has its temperature.
        """
        best = int(np.argmin([mean_and_error(loss, self.validation)[0] for loss in self.losses]))

        def is_worse(numbers: Sequence[Float64[Tensor, "v"]], place: int) -> bool:
            mean, error = mean_and_error(numbers[place] - numbers[best], self.validation)
            return mean > n_errors * error

        kept = {best: self.temperatures[best]}
        for place, temperature in enumerate(self.temperatures):
            is_apart = [is_worse(self.losses, place), is_worse(self.mistakes, place)]
            if place != best and not all(is_apart):
                kept[place] = temperature
        return kept


def mean_and_error(numbers: Float64[Tensor, "v"], validation: Validation) -> tuple[float, float]:
    """Return the mean over the validation nodes of all processes, and its standard error."""
    sums = torch.stack([numbers.sum(), numbers.square().sum()])
    count = len(validation.nodes) if validation.n_labels is None else validation.n_labels
    mean, square = (validation.peers.all_reduce_(sums) / count).tolist()
    return mean, math.sqrt(max(0.0, square - mean**2) / max(1, count - 1))


def _best_temperature(logs: np.ndarray, validation: Validation) -> float:
    """Return the temperature of the lowest loss on the validation nodes."""
    losses = mapped(lambda t: _losses(logs, t, validation).sum(), _TEMPERATURES, logs.size)
    sums = torch.stack(losses)
    return _TEMPERATURES[int(validation.peers.all_reduce_(sums).argmin())]


def _losses(logs: np.ndarray, temperature: float, validation: Validation) -> Float64[Tensor, "v"]:
    """Return the losses of the validation nodes that are here, times their weights."""
    labels = validation.labels.numpy()
    right = softened(logs, temperature)[np.arange(len(labels)), labels]
    return _weighted(-np.log(np.maximum(right, _LEAST)), validation)


def _mistakes(judged: np.ndarray, validation: Validation) -> Float64[Tensor, "v"]:
    """Return one for each validation node here that has another class, times its weight."""
    wrong = judged.argmax(1) != validation.labels.numpy()
    return _weighted(wrong.astype(np.float64), validation)


def _weighted(numbers: np.ndarray, validation: Validation) -> Float64[Tensor, "v"]:
    """Return a number for each validation node here, times its weight."""
    found = torch.from_numpy(numbers)
    return found if validation.weights is None else found * validation.weights.double()


# --- selection: Without validation nodes, labels that are hidden in turn judge the heads

N_FOLDS = 3


def hidden_answers(
    steps: Steps, state: FitState, heads: Sequence[HeadSettings]
) -> tuple[dict[int, np.ndarray], Validation]:
    """Return what heads say of labelled nodes whose labels they have not seen, and the labels.

    Each is trained three times, without a third of the labels each, on the graph of the state. One
    that is worse than the best by two standard errors is not trained again, and not among the
    answers, which have the places of the others. Rows of nodes without a label are zero. Nothing
    of it enters the history.
    """
    partition, labels = steps.partition, steps.problem.labels
    shape = (partition.n_rows, labels.n_classes)
    answers = {place: np.zeros(shape) for place in range(len(heads))}
    seen = np.zeros(0, dtype=np.int64)
    for number, hidden in enumerate(label_folds(labels, steps.seed), start=1):
        part = steps.with_labels(labels.picked(np.setdiff1d(np.arange(len(labels)), hidden)))
        nodes = labels.nodes.numpy()[hidden]
        here = nodes[partition.has(nodes)] - partition.start
        for place, answer in answers.items():
            stage = f"fold {number}, {heads[place].head}"
            tried = part.classifier_step(state.changed(head=heads[place]), stage).trained
            assert tried is not None  # it was just trained
            answer[here] = tried.probabilities[here]
        seen = np.concatenate([seen, hidden])
        judged = _as_judges(labels.picked(seen)).local(partition)
        places = list(answers)
        kept = Contest.of(list(answers.values()), judged).kept(HOPELESS)
        answers = {place: answers[place] for k, place in enumerate(places) if k in kept}
    return answers, judged


def _as_judges(labels: Labels) -> Validation:
    return Validation(labels.nodes, labels.classes, weights=labels.weights)


def label_folds(labels: Labels, seed: int) -> list[np.ndarray]:
    """Return three parts of the labels, each with as many of every class as can be.

    Examples
    --------
    >>> labels = Labels(np.arange(9), np.arange(9) % 3, 9, 3)
    >>> [sorted((fold % 3).tolist()) for fold in label_folds(labels, 0)]
    [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    classes = labels.classes.numpy()
    order = np.random.default_rng(seed).permutation(len(classes))
    by_class = order[np.argsort(classes[order], kind="stable")]
    parts = [np.sort(by_class[first::N_FOLDS]) for first in range(N_FOLDS)]
    return [part for part in parts if 0 < part.size < len(classes)]


# --- competition: Heads on rows compete with the first classifier; who cannot be told apart answer


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
