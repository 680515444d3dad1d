"""Without validation nodes, labels that are hidden in turn judge the heads."""

from collections.abc import Sequence

import numpy as np

from glnn.engine.classifier import Labels
from glnn.engine.committee import HOPELESS, Contest
from glnn.engine.settings import HeadSettings
from glnn.engine.state import FitState
from glnn.engine.steps import Steps
from glnn.engine.trainer import Validation

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
