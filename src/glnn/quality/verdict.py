"""Comparison of a fit with its rivals on the same hidden labels: scores, paired tests, verdict."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import binom, norm, random_table
from sklearn.metrics import confusion_matrix

from glnn._utils import limit_threads
from glnn.data.labels import Folds
from glnn.exceptions import GlnnError
from glnn.quality.folds import Refit, Watch, hold_out
from glnn.quality.metrics import (
    Interval,
    Score,
    ScoredPredictions,
    metric_intervals,
    paired_difference,
)
from glnn.quality.rivals import NodeProblem, Rival, choose_storage, comparable_features

# Rivals on the same folds

_MIN_SECONDS = 5.0  # rivals that take no longer in all folds are never left out


def score_rivals(
    rivals: Sequence[Rival],
    problem: NodeProblem,
    folds: Folds,
    own: ScoredPredictions,
    weights: np.ndarray,
    *,
    seed: int = 0,
    max_seconds: float = math.inf,
    progress: Watch = None,
) -> tuple[tuple[Score, ...], tuple[str, ...]]:
    """Score rivals on the folds of a fit and compare them with its predictions ``own``.

    ``own`` are in the order of ``folds.nodes`` and have the true classes. Test labels are one fold.
    Returns the scores, and notes on rivals that failed or used a part of the data only. A rival is
    left out after its first fold if all folds together would take more than ``max_seconds``.
    ``weights`` are bootstrap weights; ``progress`` is called with the title of each rival before
    it starts. Rivals train on the labels of the validation nodes too, of which the fit also makes
    more than a choice of the epoch.
    """
    problem = replace(
        problem,
        features=choose_storage(comparable_features(problem.features)),
        train=np.union1d(problem.train, problem.validation),
        validation=problem.validation[:0],
    )
    scores, notes = [], []
    for rival in rivals:
        if progress is not None:
            progress(rival.title)
        started = time.perf_counter()
        try:
            refit = _make_refit(rival, problem, seed, len(folds), max_seconds)
            held_out = hold_out(refit, problem.labels, folds)
        except Exception as error:
            lines = str(error).strip().splitlines()
            notes.append(f"{rival.title} left out: {lines[0] if lines else type(error).__name__}")
            continue
        seconds = time.perf_counter() - started
        found = ScoredPredictions(own.classes, held_out.probabilities[folds.nodes])
        metrics, lead = metric_intervals(found, weights), paired_difference(own, found, weights)
        scores.append(Score(rival.name, rival.title, found, metrics, seconds, lead))
        if limits := rival.describe_limits(problem):
            notes.append(limits)
    return tuple(scores), tuple(notes)


def _make_refit(
    rival: Rival, problem: NodeProblem, seed: int, n_folds: int, max_seconds: float
) -> Refit:
    """Return a function that fits a rival without some labels; small data use one thread.

    It stops in its second fold if all folds would take too long.
    """
    first: list[float] = []  # seconds of the first fold

    def refit(hidden: np.ndarray) -> np.ndarray:
        if first and n_folds * first[0] > max(max_seconds, _MIN_SECONDS):
            raise GlnnError(
                f"its {n_folds} folds would take about {n_folds * first[0]:.0f} s, and the fit "
                f"with its folds took {max_seconds:.0f} s"
            )
        started = time.perf_counter()
        fewer = replace(problem, train=np.setdiff1d(problem.train, hidden))
        with limit_threads(problem.n_nodes):
            found = rival.fit_predict(fewer, seed)
        first.append(time.perf_counter() - started)
        return found

    return refit


# Tests

# Probability that anything is said to be above chance where nothing is, over all methods.
CHANCE_LEVEL = 0.002
# Probability that a rival is said to be better (or the fit better than it) where none is.
RIVAL_LEVEL = 0.05
# Level at which a rival is so clearly behind that it is not counted among those that may lead.
BEHIND_LEVEL = 0.01

_N_TABLES = 19_999  # random tables of the test of balanced accuracy
_MAX_CELLS = 5_000_000  # of the random tables that are held in memory at a time


def correct_p_values(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Correct p-values for their number by Holm's method."""
    values = np.asarray(p_values, dtype=np.float64)
    order = values.argsort(kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return np.asarray(np.minimum(steps, 1)[order.argsort()])


def mcnemar_p_value(first: ScoredPredictions, second: ScoredPredictions) -> float:
    """Return the one-sided mid-p value of McNemar's test that ``first`` is no better.

    Only labels that exactly one of the two predicts right count.
    """
    is_first, is_second = first.is_right, second.is_right
    n_better, n_worse = int((is_first & ~is_second).sum()), int((is_second & ~is_first).sum())
    n_either = n_better + n_worse
    return float(binom.sf(n_better, n_either, 0.5) + binom.pmf(n_better, n_either, 0.5) / 2)


def compare_pairwise(own: Score, rivals: Sequence[Score]) -> tuple[np.ndarray, np.ndarray]:
    """Return corrected p-values that the fit is no better than each rival, and no worse.

    A rival that is clearly behind cannot be the best of several by luck, so it does not count in
    the correction of the others.
    """
    mine, others = own.predictions, [rival.predictions for rival in rivals]
    p_ahead = correct_p_values([mcnemar_p_value(mine, other) for other in others])
    p_behind = np.array([mcnemar_p_value(other, mine) for other in others])
    may_lead = p_ahead >= BEHIND_LEVEL
    p_behind[may_lead], p_behind[~may_lead] = correct_p_values(p_behind[may_lead]), 1.0
    return p_ahead, p_behind


def chance_p_value(predictions: ScoredPredictions) -> float:
    """Return the p-value that predictions are no better than chance.

    Two tests at half the level each: the accuracy against the share of the largest class, by the
    binomial distribution, and the balanced accuracy against random tables with the same numbers
    of true and of predicted labels. The second one can succeed where nearly all labels are of one
    class, so that hardly any accuracy is above its share.
    """
    labels = np.arange(predictions.n_classes)
    table = confusion_matrix(predictions.classes, predictions.predicted, labels=labels)
    n_right, share = int(np.trace(table)), largest_share(predictions)
    by_accuracy = 2 * float(binom.sf(n_right - 1, len(predictions), share))
    if by_accuracy < 1 / _N_TABLES:  # the other test cannot find a smaller one
        return by_accuracy
    return min(1.0, by_accuracy, 2 * _balanced_p_value(table))


def _balanced_p_value(table: np.ndarray) -> float:
    """Return how often random tables with the same margins have as high a balanced accuracy."""
    true, predicted = table.sum(1), table.sum(0)
    seen = np.flatnonzero(true)
    found = (np.diag(table)[seen] / true[seen]).sum() - 1e-9
    rng = np.random.default_rng(0)
    n_above, n_left = 0, _N_TABLES
    while n_left:
        size = min(n_left, max(1, _MAX_CELLS // (len(seen) * len(predicted))))
        drawn = random_table.rvs(true[seen], predicted, size=size, random_state=rng)
        hits = drawn[:, np.arange(len(seen)), seen]
        n_above += int(((hits / true[seen]).sum(1) >= found).sum())
        n_left -= size
    return (1 + n_above) / (1 + _N_TABLES)


def largest_share(predictions: ScoredPredictions) -> float:
    """Return the share of the largest class among the hidden labels."""
    return float(np.bincount(predictions.classes).max() / len(predictions))


# Verdict

MIN_LABELS = 20  # fewest hidden labels for a verdict

VerdictKind = Literal["good", "level", "rival", "chance", "few"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of the comparison with chance and with rivals.

    ``kind`` is ``good``: clearly better than chance and than every rival; ``level``: clearly better
    than chance, and no rival is clearly better; ``rival``: a rival is clearly better, and better
    than chance; ``chance``: not clearly better than chance; ``few``: too few labels to tell, or all
    of one class.
    """

    kind: VerdictKind
    n_labels: int  # number of hidden labels
    accuracy: Interval  # of the fit on them
    chance_share: float  # share of the largest class among them
    beats_chance: bool = False  # corrected for the number of methods
    rival: str | None = None  # title of the best rival; None without rivals
    rival_accuracy: Interval | None = None
    rival_beats_chance: bool | None = None  # with the same correction
    difference: Interval | None = None  # accuracy of the fit minus that of the rival
    # One-sided p-value of the difference in its own direction, by McNemar's test, corrected for the
    # number of rivals.
    p_value: float | None = None
    # About how many labels would give a clear answer if the shares stayed the same: against chance
    # for "few" and "chance", against the best rival for "level". None if no number would do.
    n_labels_needed: int | None = None
    graph_helped: bool | None = None  # None if that is unknown

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, the same wherever it is shown."""
        if self.kind == "few":
            return _describe_few(self)
        said = _describe_clear(self)
        return f"{said}; the graph did not help" if self.graph_helped is False else said

    def __str__(self) -> str:
        return self.sentence


def _describe_few(verdict: Verdict) -> str:
    n_labels = verdict.n_labels
    if n_labels >= MIN_LABELS or verdict.n_labels_needed is None:
        return f"cannot tell: all {n_labels} labels that could be hidden are of one class"
    return f"too few labels to tell: {n_labels}, and about {verdict.n_labels_needed} are needed"


def _describe_clear(verdict: Verdict) -> str:
    accuracy = verdict.accuracy
    about = f"about {_percent(accuracy.value)} of unseen labels right ({_bounds(accuracy)})"
    rival = ""
    if verdict.rival_accuracy is not None:
        found = verdict.rival_accuracy
        rival = f"{verdict.rival} with {_percent(found.value)} ({_bounds(found)})"
    if verdict.kind == "chance":
        about += f", and the largest class alone has {_percent(verdict.chance_share)}"
        if not verdict.rival_beats_chance:
            return f"nothing here beats chance: {about}"
        above = f"{rival} is above chance, but not clearly better than this fit"
        return f"not clearly better than chance: {about}; {above}"
    if not rival:
        return about
    return {
        "good": f"{about}; clearly better than every rival, the best of them {rival}",
        "level": f"{about}; not clearly different from the best rival, {rival}",
        "rival": f"{about}; {rival} is clearly better: use {verdict.rival} here",
    }[verdict.kind]


def _bounds(interval: Interval) -> str:
    return f"95 % interval {100 * interval.low:.0f}–{100 * interval.high:.0f} %"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def make_verdict(own: Score, others: Sequence[Score], graph_helped: bool | None = None) -> Verdict:
    """Compare the score of a fit with chance and with those of rivals on the same labels."""
    rivals = [other for other in others if other.name != "majority"]
    share, n_labels = largest_share(own.predictions), len(own.predictions)
    found = Verdict(
        kind="few",
        n_labels=n_labels,
        accuracy=own.metrics["accuracy"],
        chance_share=share,
        graph_helped=graph_helped,
    )
    if share == 1:
        return found
    if n_labels < MIN_LABELS:
        needed = _labels_against_chance(own, 1)
        return replace(found, n_labels_needed=max(MIN_LABELS, needed or 0))
    p_chance = correct_p_values([chance_p_value(s.predictions) for s in (own, *rivals)])
    is_above = p_chance < CHANCE_LEVEL
    found = replace(found, beats_chance=bool(is_above[0]))
    p_ahead, p_behind = compare_pairwise(own, rivals)
    is_named = (p_behind < RIVAL_LEVEL) & is_above[1:]
    best = max(range(len(rivals)), key=lambda k: (is_named[k], rivals[k].accuracy), default=None)
    if best is not None:
        rival = rivals[best]
        p_values = p_behind if rival.accuracy > own.accuracy else p_ahead
        found = replace(
            found,
            rival=rival.title,
            rival_accuracy=rival.metrics["accuracy"],
            rival_beats_chance=bool(is_above[1 + best]),
            difference=rival.difference,
            p_value=float(p_values[best]),
        )
    if is_named.any():
        return replace(found, kind="rival")
    if not is_above[0]:
        needed = _labels_against_chance(own, len(p_chance))
        return replace(found, kind="chance", n_labels_needed=needed)
    # "clearly better" also needs the interval that is shown beside it to exclude zero
    leads = [rival.difference.low > 0 for rival in rivals if rival.difference is not None]
    if best is None or ((p_ahead < RIVAL_LEVEL).all() and all(leads)):
        return replace(found, kind="good")
    needed = _labels_against_rival(own, rivals[best], len(rivals))
    return replace(found, kind="level", n_labels_needed=needed)


def _labels_against_chance(own: Score, n_tests: int) -> int | None:
    """Return at how many labels the accuracy would be clearly above the largest share."""
    share = largest_share(own.predictions)
    lead, z = own.accuracy - share, float(norm.isf(CHANCE_LEVEL / 2 / n_tests))
    return None if lead <= 0 else math.ceil(z**2 * share * (1 - share) / lead**2)


def _labels_against_rival(own: Score, rival: Score, n_rivals: int) -> int | None:
    """Return at how many labels the difference to a rival would be clear."""
    discordant = float((own.predictions.is_right != rival.predictions.is_right).mean())
    lead = own.accuracy - rival.accuracy
    z = float(norm.isf(RIVAL_LEVEL / n_rivals))
    return None if lead == 0 else math.ceil(z**2 * discordant / lead**2)
