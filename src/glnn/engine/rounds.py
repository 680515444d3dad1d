"""The tracks of a fit: each takes its rounds, and labels they have not seen find their weights.

With validation nodes all tracks take their first round; those with a negligible weight stop there,
the others go on. Without them, every track is first trained without a fold of the labels, once for
each fold, and then on all labels.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from glnn.engine.mixture import NEGLIGIBLE, fit_weights
from glnn.engine.steps import FitState, Steps
from glnn.engine.tasks import Labels

N_FOLDS = 3


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a fit is: what its tracks said of hidden labels, and where each track stands."""

    hidden: Float64[np.ndarray, "t l c"]  # probabilities of labelled nodes by fits without them
    states: tuple[FitState, ...] = ()  # of the tracks that are trained on all labels
    kept: tuple[str, ...] = ()  # tracks that take all their rounds; empty while that is open

    def replace(self, **changes: object) -> "Progress":
        """Return the progress with some of its parts replaced."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Mixture:
    """The fitted tracks and their weights, the heaviest first."""

    states: tuple[FitState, ...]
    weights: tuple[float, ...]
    all_weights: dict[str, float]  # of every track, those that were given up included
    held_out: "HeldOutLabels | None" = field(default=None)

    @property
    def shown(self) -> FitState:
        """The heaviest track that learns a graph, or else the heaviest."""
        return next((s for s in self.states if s.track.learns), self.states[0])


@dataclass(frozen=True, eq=False)
class HeldOutLabels:
    """What the mixture says of labels that its tracks had not seen when they were trained."""

    nodes: np.ndarray
    classes: np.ndarray
    probabilities: Float64[np.ndarray, "l c"]
    folds: np.ndarray  # number of the fold of each


class Rounds:
    """Runs the tracks of one fit."""

    def __init__(self, steps: Steps) -> None:
        self.steps, self.tracks = steps, steps.tracks
        self._counts = [track.prior_count for track in self.tracks]
        self._folds: list[np.ndarray] = []
        if len(self.tracks) > 1 and steps.problem.validation is None:
            self._folds = label_folds(steps.problem.labels, steps.seed)

    def start(self) -> Progress:
        """Return the progress of a fit that has not begun."""
        labels = self.steps.problem.labels
        return Progress(np.zeros((len(self.tracks), len(labels.nodes), labels.n_classes)))

    def run(
        self, progress: Progress, after_round: Callable[[Progress], None] | None = None
    ) -> Mixture:
        """Take the rounds that are left; ``after_round`` is called with the progress after each."""
        save = after_round or (lambda progress: None)
        progress = self._run_folds(progress, save)
        progress = self._run_first_rounds(progress, save)
        if not progress.kept:
            weights = self._weights(progress)
            progress = progress.replace(kept=self._tracks_that_count(weights))
        progress = self._run_later_rounds(progress, save)
        return self._mix(progress)

    def _run_folds(self, progress: Progress, save: Callable[[Progress], None]) -> Progress:
        """Train every track without each fold of the labels, and keep what it says of them."""
        labels, partition = self.steps.problem.labels, self.steps.partition
        nodes = labels.nodes.numpy()
        for number, places in enumerate(self._folds):
            rest = np.setdiff1d(np.arange(len(nodes)), places)
            steps = self.steps.with_labels(labels.select(rest))
            weights = self._fold_weights(progress, number)
            for place, track in enumerate(self.tracks):
                if progress.hidden[place, places].any() or weights[track.name] < NEGLIGIBLE:
                    continue  # a checkpoint has it, or earlier folds have given it up
                state = steps.start(track)
                while not state.is_done:
                    state = steps.next_round(state)
                hidden = progress.hidden.copy()
                hidden[place, places] = partition.rows_of(state.probabilities, nodes[places])
                progress = progress.replace(hidden=hidden)
                save(progress)
        return progress

    def _run_first_rounds(self, progress: Progress, save: Callable[[Progress], None]) -> Progress:
        """Take the first round of every track that folds have not given up."""
        done = {state.track.name for state in progress.states}
        wanted = self._tracks_that_count(self._fold_weights(progress, len(self._folds)))
        for track in self.tracks:
            if track.name not in done and track.name in wanted:
                state = self.steps.next_round(self.steps.start(track))
                progress = progress.replace(states=(*progress.states, state))
                save(progress)
        return progress

    def _run_later_rounds(self, progress: Progress, save: Callable[[Progress], None]) -> Progress:
        for number, state in enumerate(progress.states):
            while state.track.name in progress.kept and not state.is_done:
                state = self.steps.next_round(state)
                states = list(progress.states)
                states[number] = state
                progress = progress.replace(states=tuple(states))
                save(progress)
        return progress

    def _tracks_that_count(self, weights: dict[str, float]) -> tuple[str, ...]:
        """Return the tracks with some weight, and the heaviest one that learns a graph."""
        learning = [track.name for track in self.tracks if track.learns]
        shown = max(learning or list(weights), key=lambda name: weights[name])
        return tuple(name for name in weights if weights[name] >= NEGLIGIBLE or name == shown)

    def _mix(self, progress: Progress) -> Mixture:
        """Return the tracks that count with their weights, which sum to one."""
        weights = self._weights(progress)
        states = sorted(
            (state for state in progress.states if state.track.name in progress.kept),
            key=lambda state: -weights[state.track.name],
        )
        own = np.array([weights[state.track.name] for state in states])
        held_out = self._held_out(progress, weights) if self._folds else None
        return Mixture(tuple(states), tuple((own / own.sum()).tolist()), weights, held_out)

    def _held_out(self, progress: Progress, weights: dict[str, float]) -> HeldOutLabels:
        """Return what the mixture says of the labels that were hidden."""
        labels = self.steps.problem.labels
        own = np.array([weights[track.name] for track in self.tracks])
        own = own[:, None] * progress.hidden.any(2)  # 0 where a track was not asked
        places = np.sort(np.concatenate(self._folds))
        mixed = (own[..., None] * progress.hidden).sum(0)[places] / own.sum(0)[places, None]
        folds = np.zeros(len(labels.nodes), dtype=np.int64)
        for number, part in enumerate(self._folds):
            folds[part] = number
        nodes, classes = labels.nodes.numpy(), labels.classes.numpy()
        return HeldOutLabels(nodes[places], classes[places], mixed, folds[places])

    def _weights(self, progress: Progress) -> dict[str, float]:
        """Return the weight of every track by all that is known."""
        if self.steps.validation is None or len(self.tracks) == 1:
            return self._fold_weights(progress, len(self._folds))
        return self._named(*self._validation_right(progress.states))

    def _fold_weights(self, progress: Progress, n_folds: int) -> dict[str, float]:
        """Return the weights by the first folds; a track that was not asked has no chance."""
        labels = self.steps.problem.labels
        places = np.concatenate([np.empty(0, dtype=np.int64), *self._folds[:n_folds]])
        right = progress.hidden[:, places, labels.classes.numpy()[places]].T
        each = None if labels.weights is None else labels.weights.double().numpy()[places]
        return self._named(right, each)

    def _named(self, right: np.ndarray, each: np.ndarray | None) -> dict[str, float]:
        weights = fit_weights(right, self._counts, each)
        return {track.name: float(weight) for track, weight in zip(self.tracks, weights)}

    def _validation_right(self, states: Sequence[FitState]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the probabilities of the validation nodes' labels, over all processes."""
        validation, partition = self.steps.problem.validation, self.steps.partition
        assert validation is not None  # the caller has looked
        nodes, classes = validation.nodes.cpu().numpy(), validation.labels.cpu().numpy()
        by_name = {state.track.name: state for state in states}
        columns = [
            partition.rows_of(by_name[track.name].probabilities, nodes)[
                np.arange(len(nodes)), classes
            ]
            for track in self.tracks
        ]
        each = None if validation.weights is None else validation.weights.double().cpu().numpy()
        return np.stack(columns, 1), each


def label_folds(labels: Labels, seed: int) -> list[np.ndarray]:
    """Return parts of the labels, each with as many of every class as can be.

    A label that is the only one of its class is in none of them: nothing else could teach its
    class. Labels without weight are in none and teach nothing.

    Examples
    --------
    >>> labels = Labels(np.arange(9), np.arange(9) % 3, 9, 3)
    >>> [sorted((fold % 3).tolist()) for fold in label_folds(labels, 0)]
    [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    classes = labels.classes.numpy()
    order = np.random.default_rng(seed).permutation(len(classes))
    if labels.weights is not None:
        order = order[labels.weights.numpy()[order] > 0]
    order = order[np.bincount(classes[order])[classes[order]] > 1]
    by_class = order[np.argsort(classes[order], kind="stable")]
    parts = [np.sort(by_class[first::N_FOLDS]) for first in range(N_FOLDS)]
    return [part for part in parts if part.size]
