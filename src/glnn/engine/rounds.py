r"""The tracks of a fit: each takes its rounds, and labels they have not seen find their weights.

With validation nodes the tracks are trained once and judged on these nodes. Without them they are
first trained without a fold of the labels, once for each fold, and judged on that fold; then those
that count are trained on all labels. A training begins with the first rounds of all tracks that
were not given up; those with a negligible weight stop there and take no part in later trainings.

The class probabilities of a fit are :math:`p(c \mid v) = \sum_t w_t\, p_t(c \mid v)`, summed over
its tracks :math:`t`. The weights maximise

.. math:: \sum_v \log \sum_t w_t \max(p_t(y_v \mid v), \varepsilon) + \sum_t \log w_t

over the simplex: a sum over labelled nodes :math:`v` whose labels did not train the tracks, and
one more label in favour of each track, which makes the weights alike where labels are few. The
floor :math:`\varepsilon = 0.01` keeps a few confident mistakes from deciding.

With validation nodes, their labels then correct the classes of the mixture, see
:func:`fit_correction`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import softmax

from glnn._utils import limit_threads, map_row_blocks
from glnn.engine.settings import Track
from glnn.engine.steps import FitState, IsHopeless, Steps

# Weights of the tracks

NEGLIGIBLE = 0.15  # a track with less beside the heaviest one alone is not trained any further
_LEAST = 0.01  # no probability counts as smaller
_N_STEPS = 1000
_TOLERANCE = 1e-10


def fit_weights(
    right: Float64[np.ndarray, "v t"], label_weights: Float64[np.ndarray, "v"] | None = None
) -> Float64[np.ndarray, "t"]:
    """Return the weights of tracks by expectation maximisation.

    ``right`` are the probabilities that each track gives to the true classes.

    Examples
    --------
    >>> right = np.array([[0.9, 0.3], [0.8, 0.4], [0.9, 0.2]])
    >>> fit_weights(right).round(2)
    array([0.73, 0.27])
    """
    n_tracks = right.shape[1]
    weights = np.full(n_tracks, 1 / n_tracks)
    by_track = np.ascontiguousarray(np.maximum(right, _LEAST).T)
    each = np.ones(len(right)) if label_weights is None else label_weights
    for _ in range(_N_STEPS):
        shares = weights * (by_track @ (each / (weights @ by_track)))
        new: np.ndarray = (shares + 1) / (each.sum() + n_tracks)
        if np.abs(new - weights).max() < _TOLERANCE:
            return new
        weights = new
    return weights


def mix(parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the weighted mean of class probabilities."""
    if len(parts) == 1:
        return parts[0]
    total = weights[0] * parts[0]
    for part, weight in zip(parts[1:], weights[1:]):
        total += weight * part
    return total


# Correction of the classes


def fit_correction(
    probabilities: Float64[np.ndarray, "v c"],
    classes: np.ndarray,
    label_weights: Float64[np.ndarray, "v"],
    variance: float,
    device: str | torch.device = "cpu",
) -> Float64[np.ndarray, "c+1 c"]:
    r"""Return the matrix :math:`W` and, as its last row, the offsets :math:`b` of a correction.

    The corrected probabilities are :math:`\mathrm{softmax}(W^\top \ln p + b)`. :math:`W` and
    :math:`b` maximise the likelihood of the labels times a prior: the entries of :math:`W - I` and
    :math:`b` are normal with mean 0 and this variance. The problem is convex.
    """
    n_classes = probabilities.shape[1]
    arrays = (_take_logs(probabilities), label_weights, classes, np.arange(len(classes)))
    inputs, each, known, places = (torch.from_numpy(part).to(device) for part in arrays)
    identity = torch.eye(n_classes + 1, n_classes, dtype=torch.float64, device=device)
    # The columns of logarithms resemble each other, so L-BFGS takes its steps in coordinates in
    # which the curvature is about the same in all directions.
    gram = variance * (inputs.T * each) @ inputs / n_classes
    gram.diagonal().add_(1)
    basis = math.sqrt(variance) * torch.linalg.cholesky(gram.inverse())

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        change = basis @ torch.from_numpy(flat).to(device).view_as(identity)
        logs = (inputs @ (identity + change)).log_softmax(1)
        value = change.square().sum() / (2 * variance) - each @ logs[places, known]
        error = logs.exp_()
        error[places, known] -= 1
        slope = inputs.T @ (each[:, None] * error) + change / variance
        return value.item(), (basis.T @ slope).view(-1).cpu().numpy()

    best = minimize(loss, np.zeros(identity.numel()), jac=True, method="L-BFGS-B").x
    change = basis @ torch.from_numpy(best).to(device).view_as(identity)
    return np.asarray((identity + change).cpu())


def correct(probabilities: np.ndarray, correction: np.ndarray | None) -> np.ndarray:
    """Return corrected class probabilities; without a correction they stay as they are."""
    if correction is None:
        return probabilities
    return map_row_blocks(lambda rows: softmax(_take_logs(rows) @ correction, 1), probabilities)


def _take_logs(probabilities: np.ndarray) -> np.ndarray:
    """Return the logarithms of class probabilities, and a column of ones."""
    logs = np.log(np.maximum(probabilities, _LEAST))
    return np.column_stack([logs, np.ones(len(logs))])


# The rounds

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


@dataclass(frozen=True, eq=False)
class Mixture:
    """The fitted tracks and their weights, the heaviest first."""

    states: tuple[FitState, ...]
    weights: tuple[float, ...]
    all_weights: dict[str, float]  # of every track, those that were given up included
    correction: np.ndarray | None = None  # of the classes
    held_out: "HeldOutLabels | None" = None

    @property
    def probabilities(self) -> np.ndarray:
        """The class probabilities of the mixture."""
        mixed = mix([state.probabilities for state in self.states], self.weights)
        return correct(mixed, self.correction)

    @property
    def shown(self) -> FitState | None:
        """The heaviest of the tracks with a learned graph, if one has weight.

        Without a given graph, heads on rows see the one that features alone make.
        """
        solved = [state for state in self.states if state.certificate is not None]
        return next((s for s in solved if s.track.learns), solved[0] if solved else None)


@dataclass(frozen=True, eq=False)
class HeldOutLabels:
    """What the mixture says of labels that took no part in training, weights and correction."""

    nodes: np.ndarray
    classes: np.ndarray
    probabilities: Float64[np.ndarray, "l c"]
    folds: np.ndarray  # number of the fold of each


class Rounds:
    """Runs the tracks of one fit.

    A label that judges is an entry: a place among ``nodes`` and ``classes``. ``entries`` are the
    entries of each training in turn; a label that is hidden in several folds has several entries,
    which share its weight.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps, self.tracks = steps, steps.tracks
        validation, folds = steps.problem.validation, steps.problem.folds
        known = validation or steps.problem.labels
        parts: list[np.ndarray] = []  # places of the labels that judge each training
        # prior variance of the correction of the classes, which folds do not have
        self._correction = 0.0 if validation is None else steps.settings.correction
        if validation is not None:
            parts = [np.arange(len(known))] if len(self.tracks) > 1 or self._correction else []
        elif folds is not None:
            parts = [np.searchsorted(known.nodes.numpy(), hidden) for hidden in folds.hidden]
        self._last = 0 if validation is not None else len(parts)  # the training on all labels
        places = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        self.nodes, self.classes = known.nodes.numpy()[places], known.classes.numpy()[places]
        ends = np.cumsum([0, *map(len, parts)])
        self.entries = [np.arange(*ends[k : k + 2]) for k in range(len(parts))]
        self.label_weights = 1 / np.bincount(places, minlength=1)[places]
        if known.weights is not None:
            self.label_weights *= known.weights.double().numpy()[places]

    def start(self) -> Progress:
        """Return the progress of a fit that has not begun."""
        n_classes = self.steps.problem.labels.n_classes
        return Progress(np.zeros((len(self.tracks), len(self.nodes), n_classes)))

    def run(self, progress: Progress, save: Save = lambda progress: None) -> Mixture:
        """Take the rounds that are left; ``save`` is called with the progress after each."""
        while True:
            progress = self._run_part(progress, save)
            if progress.part == self._last:
                with limit_threads(len(self.nodes)):  # few labels gain nothing by threads
                    return self._mix(progress)
            self._notify_fold_end(progress)
            progress = Progress(progress.judged, progress.part + 1)

    def _run_part(self, progress: Progress, save: Save) -> Progress:
        """Train the tracks that count, without the labels of a fold or on all of them."""
        steps = self.steps_of(progress.part)
        wanted = self._tracks_with_a_chance(progress, progress.part)
        done = [state.track.name for state in progress.states]
        for track in self.tracks:
            if track.name in wanted and track.name not in done:
                is_hopeless = self._hopelessness(progress, track)
                state = steps.next_round(steps.start(track), is_hopeless)
                progress = self._record(progress, state)
                save(progress)
        if not progress.kept:
            kept = self._tracks_with_a_chance(progress, progress.part + 1)
            progress = replace(progress, kept=kept)
        for state in progress.states:
            while state.track.name in progress.kept and not state.is_done:
                state = steps.next_round(state)
                progress = self._record(progress, state)
                save(progress)
        return progress

    def steps_of(self, part: int) -> Steps:
        """Return the steps of a training, with the labels that it may see."""
        if part == self._last:
            return self.steps
        labels, folds = self.steps.problem.labels, self.steps.problem.folds
        assert folds is not None  # there is a training for each of them
        places = np.searchsorted(labels.nodes.numpy(), folds.seen[part])
        return self.steps.with_labels(labels.select(places), f"fold {part + 1} of {self._last}")

    def _notify_fold_end(self, progress: Progress) -> None:
        """Tell the callbacks how many hidden labels the mean of the tracks predicts."""
        own = self.entries[progress.part]
        predicted = progress.judged[:, own].sum(0).argmax(1)
        n_right = int((predicted == self.classes[own]).sum())
        for callback in self.steps.callbacks:
            callback.on_fold_end(f"fold {progress.part + 1} of {self._last}", n_right, len(own))

    def _hopelessness(self, progress: Progress, track: Track) -> IsHopeless | None:
        """Return whether predictions give a track a negligible weight beside those before it."""
        if not progress.states or progress.part >= len(self.entries):
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
        return replace(judged, states=tuple(states))

    def _judge(self, progress: Progress, name: str, probabilities: np.ndarray) -> Progress:
        """Return the progress with a track's predictions of the labels that judge this training."""
        if progress.part >= len(self.entries):
            return progress
        own = self.entries[progress.part]
        number = [track.name for track in self.tracks].index(name)
        judged = progress.judged.copy()
        judged[number, own] = self.steps.rows_of(probabilities, self.nodes[own])
        return replace(progress, judged=judged)

    def _evidence(
        self, progress: Progress, parts: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities that tracks gave to the true classes, and labels' weights."""
        entries = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        return progress.judged[:, entries, self.classes[entries]].T, self.label_weights[entries]

    def _tracks_with_a_chance(self, progress: Progress, n_parts: int) -> tuple[str, ...]:
        """Return the tracks whose weight is not negligible beside the heaviest one alone.

        Among all tracks a good one may have little weight because it resembles another.
        """
        right, each = self._evidence(progress, self.entries[:n_parts])
        right = np.maximum(right, _LEAST)
        best = int(np.argmax(fit_weights(right, each)))
        # The objective of a pair is concave in the weight w of the second track, so its maximum
        # lies at w or beyond if the slope at w, here times w (1 - w), is not negative.
        w, first = NEGLIGIBLE, right[:, [best]]
        gains = each @ ((right - first) / (w * right + (1 - w) * first))
        slopes = w * (1 - w) * gains + 1 - 2 * w
        return tuple(track.name for track, slope in zip(self.tracks, slopes) if slope >= 0)

    def _mix(self, progress: Progress) -> Mixture:
        """Return the tracks that count with their weights, which sum to one."""
        every = np.arange(len(self.nodes))
        found = fit_weights(*self._evidence(progress, [every]))
        weights = {track.name: float(weight) for track, weight in zip(self.tracks, found)}
        states = sorted(
            (state for state in progress.states if state.track.name in progress.kept),
            key=lambda state: -weights[state.track.name],
        )
        shares = np.array([weights[state.track.name] for state in states])
        own = tuple((shares / shares.sum()).tolist())
        held_out = self._held_out(progress) if self.entries else None
        correction = self._fit_correction(progress, found, every)
        return Mixture(tuple(states), own, weights, correction, held_out)

    def _predict(self, progress: Progress, weights: np.ndarray, entries: np.ndarray) -> np.ndarray:
        """Return what the tracks with these weights say of some entries."""
        if not self._last:  # in folds, tracks that were given up have predicted some labels too
            weights = weights * [track.name in progress.kept for track in self.tracks]
        judged = progress.judged[:, entries]
        shares = weights[:, None] * judged.any(2)  # 0 where a track was not asked
        return np.asarray((shares[..., None] * judged).sum(0) / shares.sum(0)[:, None])

    def _fit_correction(
        self, progress: Progress, weights: np.ndarray, known: np.ndarray
    ) -> np.ndarray | None:
        if not self._correction:
            return None
        labels = self.classes[known], self.label_weights[known]
        probabilities, device = self._predict(progress, weights, known), self.steps.features.device
        return fit_correction(probabilities, *labels, self._correction, device)

    def _held_out(self, progress: Progress) -> HeldOutLabels:
        """Return what mixtures say of the labels that judge.

        The weights for a fold are found on the other folds, so that no label takes part in its own
        prediction, and so is the correction for each fifth of the validation nodes. A label that
        was hidden several times has the mean of its predictions.
        """
        nodes, place, times = np.unique(self.nodes, return_inverse=True, return_counts=True)
        mixed, fold = np.zeros((len(nodes), progress.judged.shape[2])), np.zeros_like(nodes)
        n_labels, is_one_training = len(self.nodes), not self._last
        fifths = [np.arange(k, n_labels, 5) for k in range(min(5, n_labels))]
        parts = fifths if is_one_training else self.entries
        for number in reversed(range(len(parts))):  # the first fold of a label is kept
            own = parts[number]
            others = np.flatnonzero(~np.isin(self.nodes, self.nodes[own]))
            weights = fit_weights(*self._evidence(progress, [others]))
            correction = self._fit_correction(progress, weights, others)
            mixed[place[own]] += correct(self._predict(progress, weights, own), correction)
            fold[place[own]] = 0 if is_one_training else number
        classes = np.zeros_like(nodes)
        classes[place] = self.classes
        return HeldOutLabels(nodes, classes, mixed / times[:, None], fold)
