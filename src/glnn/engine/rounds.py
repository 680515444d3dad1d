"""The tracks of a fit: each takes its rounds, and labels they have not seen find their weights.

With validation nodes the tracks are trained once and judged on these nodes. Without them they are
first trained without a fold of the labels, once for each fold, and judged on that fold; then those
that count are trained on all labels. Every training begins with the first rounds of all tracks;
those with a negligible weight stop there.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from glnn.engine.mixture import NEGLIGIBLE, fit_weights, mix
from glnn.engine.settings import Track
from glnn.engine.steps import FitState, Steps
from glnn.engine.tasks import Labels

N_FOLDS = 3

Save = Callable[["Progress"], None]


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a fit is."""

    # class probabilities of the judged nodes by tracks that have not seen their labels; zero where
    # a track was not asked
    judged: Float64[np.ndarray, "t l c"]
    part: int = 0  # the training under way: one a fold, then that on all labels
    states: tuple[FitState, ...] = ()  # the tracks of this training
    kept: tuple[str, ...] = ()  # those that take all their rounds; empty while that is open

    def replace(self, **changes: object) -> "Progress":
        """Return the progress with some of its parts replaced."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Mixture:
    """The fitted tracks and their weights, the heaviest first."""

    states: tuple[FitState, ...]
    weights: tuple[float, ...]
    all_weights: dict[str, float]  # of every track, those that were given up included
    held_out: "HeldOutLabels | None" = None

    @property
    def probabilities(self) -> np.ndarray:
        """The class probabilities of the mixture."""
        return mix([state.probabilities for state in self.states], self.weights)

    @property
    def shown(self) -> FitState | None:
        """The heaviest of the tracks with a learned graph, if one has weight.

        Without a given graph, heads on rows see the one that features alone make.
        """
        solved = [state for state in self.states if state.learned is not None]
        return next((s for s in solved if s.track.learns), solved[0] if solved else None)


@dataclass(frozen=True, eq=False)
class HeldOutLabels:
    """What the mixture says of labels that its tracks had not seen when they were trained."""

    nodes: np.ndarray
    classes: np.ndarray
    probabilities: Float64[np.ndarray, "l c"]
    folds: np.ndarray  # number of the fold of each


class Rounds:
    """Runs the tracks of one fit.

    ``nodes``, ``classes`` and ``label_weights`` are those of the labels that judge the tracks;
    ``folds`` are places among them, one array a training.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps, self.tracks = steps, steps.tracks
        labels, validation = steps.problem.labels, steps.problem.validation
        known = labels.nodes, labels.classes, labels.weights
        if validation is not None:
            known = validation.nodes, validation.labels, validation.weights
        self.nodes, self.classes = known[0].cpu().numpy(), known[1].cpu().numpy()
        self.label_weights = None if known[2] is None else known[2].double().cpu().numpy()
        self.folds: list[np.ndarray] = []
        if len(self.tracks) > 1:
            all_places = np.arange(len(self.nodes))
            self.folds = label_folds(labels, steps.seed) if validation is None else [all_places]
        # with validation nodes, the only training is that on all labels
        self._last = 0 if validation is not None else len(self.folds)

    def start(self) -> Progress:
        """Return the progress of a fit that has not begun."""
        n_classes = self.steps.problem.labels.n_classes
        return Progress(np.zeros((len(self.tracks), len(self.nodes), n_classes)))

    def run(self, progress: Progress, after_round: Save | None = None) -> Mixture:
        """Take the rounds that are left; ``after_round`` is called with the progress after each."""
        save = after_round or (lambda progress: None)
        while True:
            progress = self._run_part(progress, save)
            if progress.part == self._last:
                return self._mix(progress)
            progress = progress.replace(part=progress.part + 1, states=(), kept=())

    def _run_part(self, progress: Progress, save: Save) -> Progress:
        """Train the tracks that count, without the labels of a fold or on all of them."""
        steps = self._steps_of(progress.part)
        wanted = self._tracks_with_a_chance(progress, progress.part)
        done = [state.track.name for state in progress.states]
        for track in self.tracks:
            if track.name in wanted and track.name not in done:
                is_hopeless = self._hopelessness(progress, track)
                state = steps.next_round(steps.start(track), is_hopeless)
                progress = self._record(progress, state)
                save(progress)
        if not progress.kept:
            progress = progress.replace(
                kept=self._tracks_with_a_chance(progress, progress.part + 1)
            )
        for state in progress.states:
            while state.track.name in progress.kept and not state.is_done:
                state = steps.next_round(state)
                progress = self._record(progress, state)
                save(progress)
        return progress

    def _steps_of(self, part: int) -> Steps:
        """Return the steps of a training, with the labels that it may see."""
        if part == self._last:
            return self.steps
        labels = self.steps.problem.labels
        rest = np.setdiff1d(np.arange(len(labels.nodes)), self.folds[part])
        return self.steps.with_labels(labels.select(rest))

    def _hopelessness(
        self, progress: Progress, track: Track
    ) -> Callable[[np.ndarray], bool] | None:
        """Return whether predictions give a track a negligible weight beside those before it."""
        if not progress.states or progress.part >= len(self.folds):
            return None

        def is_hopeless(probabilities: np.ndarray) -> bool:
            tried = self._judge(progress, track.name, probabilities)
            return track.name not in self._tracks_with_a_chance(tried, tried.part + 1)

        return is_hopeless

    def _record(self, progress: Progress, state: FitState) -> Progress:
        """Return the progress with the new state of a track."""
        states = [s for s in progress.states if s.track.name != state.track.name]
        order = [track.name for track in self.tracks]
        states = sorted([*states, state], key=lambda s: order.index(s.track.name))
        judged = self._judge(progress, state.track.name, state.probabilities)
        return judged.replace(states=tuple(states))

    def _judge(self, progress: Progress, name: str, probabilities: np.ndarray) -> Progress:
        """Return the progress with a track's predictions of the labels that judge this training."""
        if progress.part >= len(self.folds):
            return progress
        places = self.folds[progress.part]
        number = [track.name for track in self.tracks].index(name)
        judged = progress.judged.copy()
        judged[number, places] = self.steps.partition.rows_of(probabilities, self.nodes[places])
        return progress.replace(judged=judged)

    def weights(self, progress: Progress, n_parts: int) -> dict[str, float]:
        """Return the weight of every track by its predictions in the first trainings."""
        weights = fit_weights(*self._evidence(progress, self.folds[:n_parts]))
        return {track.name: float(weight) for track, weight in zip(self.tracks, weights)}

    def _evidence(
        self, progress: Progress, folds: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the probabilities that tracks gave to the true classes, and labels' weights."""
        places = np.concatenate([np.empty(0, dtype=np.int64), *folds])
        right = progress.judged[:, places, self.classes[places]].T
        return right, None if self.label_weights is None else self.label_weights[places]

    def _tracks_with_a_chance(self, progress: Progress, n_parts: int) -> tuple[str, ...]:
        """Return the tracks whose weight is not negligible beside the heaviest one alone.

        Among all tracks a good one may have little weight because it resembles another.
        """
        right, each = self._evidence(progress, self.folds[:n_parts])
        best = int(np.argmax(fit_weights(right, each)))
        return tuple(
            track.name
            for place, track in enumerate(self.tracks)
            if place == best or fit_weights(right[:, [best, place]], each)[1] >= NEGLIGIBLE
        )

    def _mix(self, progress: Progress) -> Mixture:
        """Return the tracks that count with their weights, which sum to one."""
        weights = self.weights(progress, len(self.folds))
        total = sum(weights[name] for name in progress.kept)
        counting = [name for name in progress.kept if weights[name] >= NEGLIGIBLE * total]
        states = sorted(
            (state for state in progress.states if state.track.name in counting),
            key=lambda state: -weights[state.track.name],
        )
        shares = np.array([weights[state.track.name] for state in states])
        held_out = None if self._last == 0 else self._held_out(progress)
        return Mixture(tuple(states), tuple((shares / shares.sum()).tolist()), weights, held_out)

    def _held_out(self, progress: Progress) -> HeldOutLabels:
        """Return what mixtures say of the labels that were hidden in folds.

        The weights for a fold are found on the other folds, so that no label takes part in its own
        prediction.
        """
        mixed, folds = np.zeros_like(progress.judged[0]), np.zeros(len(self.nodes), dtype=np.int64)
        for number, places in enumerate(self.folds):
            others = self.folds[:number] + self.folds[number + 1 :]
            weights = fit_weights(*self._evidence(progress, others))
            judged = progress.judged[:, places]
            own = weights[:, None] * judged.any(2)  # 0 where a track was not asked
            mixed[places] = (own[..., None] * judged).sum(0) / own.sum(0)[:, None]
            folds[places] = number
        places = np.sort(np.concatenate(self.folds))
        return HeldOutLabels(self.nodes[places], self.classes[places], mixed[places], folds[places])


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
