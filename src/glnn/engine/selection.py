"""Selection and averaging of heads, on validation nodes or on labels hidden in turn."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from glnn._utils import thread_map
from glnn.engine.callbacks import Callback, StopIfWorse
from glnn.engine.settings import HeadSettings
from glnn.engine.steps import FitState, Steps, TrainedClassifier, log_probabilities, temper_logs
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation

# Comparison of classifiers on validation nodes

N_SIGMA = 2.0  # standard errors by which a classifier must be worse to be dropped

_TEMPERATURES = tuple(2 ** (k / 4) for k in range(-10, 21))
_LEAST = 1e-6  # smallest probability in a loss, so that one confident mistake does not decide


@dataclass(frozen=True)
class ClassifierComparison:
    """Losses and mistakes of several classifiers on this process's validation nodes."""

    temperatures: Sequence[float]  # the best one of each classifier
    losses: Sequence[Float64[Tensor, "v"]]  # at these temperatures
    mistakes: Sequence[Float64[Tensor, "v"]]  # 1 where the predicted class is wrong
    validation: Validation

    @classmethod
    def of(cls, answers: Sequence[np.ndarray], validation: Validation) -> "ClassifierComparison":
        """Compare class probabilities of all nodes, one array a classifier."""
        validation = validation.to(torch.device("cpu"))
        nodes = validation.nodes.numpy()
        judged = [answer[nodes] for answer in answers]
        logs = [log_probabilities(answer) for answer in judged]
        temperatures = [_best_temperature(own, validation) for own in logs]
        losses = [_losses(*pair, validation) for pair in zip(logs, temperatures)]
        return cls(temperatures, losses, [_mistakes(a, validation) for a in judged], validation)

    def select(self, n_errors: float = 1.0) -> dict[int, float]:
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
    losses = thread_map(lambda t: _losses(logs, t, validation).sum(), _TEMPERATURES, logs.size)
    sums = torch.stack(losses)
    return _TEMPERATURES[int(validation.peers.all_reduce_(sums).argmin())]


def _losses(logs: np.ndarray, temperature: float, validation: Validation) -> Float64[Tensor, "v"]:
    """Return the losses of the validation nodes that are here, times their weights."""
    labels = validation.labels.numpy()
    right = temper_logs(logs, temperature)[np.arange(len(labels)), labels]
    return _apply_weights(-np.log(np.maximum(right, _LEAST)), validation)


def _mistakes(judged: np.ndarray, validation: Validation) -> Float64[Tensor, "v"]:
    """Return one for each validation node here that has another class, times its weight."""
    wrong = judged.argmax(1) != validation.labels.numpy()
    return _apply_weights(wrong.astype(np.float64), validation)


def _apply_weights(numbers: np.ndarray, validation: Validation) -> Float64[Tensor, "v"]:
    """Return a number for each validation node here, times its weight."""
    found = torch.from_numpy(numbers)
    return found if validation.weights is None else found * validation.weights.double()


# Predictions for hidden labels

N_FOLDS = 3


def predict_hidden(
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
        part = steps.with_labels(labels.select(np.setdiff1d(np.arange(len(labels)), hidden)))
        nodes = labels.nodes.numpy()[hidden]
        here = nodes[partition.is_local(nodes)] - partition.start
        for place, answer in answers.items():
            stage = f"fold {number}, {heads[place].head}"
            tried = part.classifier_step(state.replace(head=heads[place]), stage).trained
            assert tried is not None  # it was just trained
            answer[here] = tried.probabilities[here]
        seen = np.concatenate([seen, hidden])
        judged = _to_validation(labels.select(seen)).local(partition)
        places = list(answers)
        kept = ClassifierComparison.of(list(answers.values()), judged).select(N_SIGMA)
        answers = {place: answers[place] for k, place in enumerate(places) if k in kept}
    return answers, judged


def _to_validation(labels: Labels) -> Validation:
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


# Competition of heads


def compete(steps: Steps, state: FitState) -> FitState:
    """Train the competitors of the settings; return the state with those that may stay.

    Validation nodes judge them, or else labels that are hidden in turn. Where the classifier that
    was there is worse, the best competitor takes its place. Heads on rows see the given graph as
    it is, so there is nothing to gain from learning it better: the round is the last.
    """
    state = state.replace(row_graph=steps.row_graph(state))
    return (
        _compete_on_folds(steps, state)
        if steps.validation is None
        else _compete_on_validation(steps, state)
    )


def settle(steps: Steps, state: FitState) -> FitState:
    """Return the state after the last round with the classifiers to average, the best first."""
    if steps.validation is None or state.trained is None or not state.partners:
        return state
    members = (state.trained, *state.partners)
    comparison = ClassifierComparison.of(
        [member.probabilities for member in members], steps.validation
    )
    best, *others = (_at(t, members[place]) for place, t in comparison.select().items())
    return state.replace(head=best.task.settings, trained=best, partners=tuple(others))


def _compete_on_validation(steps: Steps, state: FitState) -> FitState:
    """Compare the heads on the validation nodes.

    A first classifier that is not worse by two standard errors stays, because later rounds may
    improve it; competitors within one standard error of the best are kept for the average.
    """
    before = state.trained
    assert before is not None and steps.validation is not None  # the caller has looked
    candidates = [before]
    for head in steps.settings.competing_heads(has_validation=True):
        rival = max(candidates, key=_accuracy)
        stop = StopIfWorse(_lowest_accuracy(steps, rival), head.ramp_epochs // 2)
        candidates.append(_train_head(steps, state.replace(head=head), [stop]))
    comparison = ClassifierComparison.of([c.probabilities for c in candidates], steps.validation)
    members = {place: _at(t, candidates[place]) for place, t in comparison.select().items()}
    if 0 not in comparison.select(N_SIGMA):
        return _replace_classifier(state, list(members.values()))
    partners = tuple(member for place, member in members.items() if place > 0)
    return state.replace(partners=partners)


def _compete_on_folds(steps: Steps, state: FitState) -> FitState:
    """Compare the heads on hidden labels; train those near the best again on all labels."""
    before = state.trained
    heads = (state.head, *steps.settings.competing_heads(has_validation=False))
    assert before is not None  # the caller has looked
    answers, judged = predict_hidden(steps, state, heads)
    places = list(answers)
    kept = ClassifierComparison.of(list(answers.values()), judged).select()
    temperatures = {places[k]: temperature for k, temperature in kept.items()}
    members = [
        _train_head(steps, state.replace(head=heads[place], temperature=temperature))
        for place, temperature in temperatures.items()
        if place > 0
    ]
    if 0 not in temperatures:
        return _replace_classifier(state, members)
    first = _at(temperatures[0], before)
    return state.replace(trained=first, partners=tuple(members), temperature=temperatures[0])


def _at(temperature: float, member: TrainedClassifier) -> TrainedClassifier:
    return dataclasses.replace(member, temperature=temperature)


def _replace_classifier(state: FitState, members: Sequence[TrainedClassifier]) -> FitState:
    """Return the state with other classifiers, which end the rounds."""
    best, *others = members
    return state.replace(
        head=best.task.settings, trained=best, partners=tuple(others), n_rounds=state.round
    )


def _train_head(
    steps: Steps, state: FitState, callbacks: Sequence[Callback] = ()
) -> TrainedClassifier:
    tried = steps.classifier_step(state, state.head.head, callbacks).trained
    assert tried is not None  # it was just trained
    return tried


def _accuracy(trained: TrainedClassifier) -> float:
    assert trained.validation_accuracy is not None  # there are validation nodes
    return trained.validation_accuracy


def _lowest_accuracy(steps: Steps, rival: TrainedClassifier) -> float:
    """Return an accuracy some standard errors below the rival's."""
    assert steps.problem.validation is not None  # the caller has looked
    accuracy, count = _accuracy(rival), len(steps.problem.validation.nodes)
    error = math.sqrt(max(accuracy * (1 - accuracy), 1 / count) / count)
    return accuracy - N_SIGMA * error
