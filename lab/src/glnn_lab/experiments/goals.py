"""Compare our numbers with the goals of a block."""

from dataclasses import dataclass

from glnn_lab.experiments.aggregate import Summary
from glnn_lab.experiments.blocks import Goal
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.records import BlockResults


@dataclass(frozen=True)
class Threshold:
    """A value in percent to reach, or to exceed if ``is_strict``."""

    value: float
    words: str
    is_strict: bool

    def is_reached_by(self, mean: float) -> bool:
        """Return whether a mean in percent reaches the threshold.

        Examples
        --------
        >>> Threshold(80.0, "", is_strict=False).is_reached_by(80.0)
        True
        """
        gap = mean - self.value
        return gap > 1e-9 if self.is_strict else gap >= -1e-9


@dataclass(frozen=True)
class GoalResult:
    """Our number and the thresholds of a goal."""

    goal: Goal
    ours: Summary | None
    thresholds: tuple[Threshold, ...]
    is_complete: bool

    @property
    def is_met(self) -> bool | None:
        """Whether every threshold is reached; ``None`` if runs are missing."""
        if self.ours is None or not self.is_complete:
            return None
        return all(threshold.is_reached_by(self.ours.mean) for threshold in self.thresholds)

    @property
    def gap(self) -> float | None:
        """Points above the highest threshold, negative below it."""
        if self.ours is None or not self.thresholds:
            return None
        return self.ours.mean - max(threshold.value for threshold in self.thresholds)


def check_goals(results: BlockResults) -> list[GoalResult]:
    """Return the result of each goal whose method and data set are part of the block."""
    return [_check_goal(results, goal) for goal in results.block.goals if _has_entry(results, goal)]


def _has_entry(results: BlockResults, goal: Goal) -> bool:
    places = {(entry.dataset, entry.value) for entry in results.entries}
    return goal.method in results.methods and (goal.dataset, goal.at) in places


def _check_goal(results: BlockResults, goal: Goal) -> GoalResult:
    thresholds = []
    if goal.goal is not None:
        thresholds.append(Threshold(goal.goal, f"≥ {goal.goal:.1f}", False))
    elif goal.published:
        source, best = max(goal.published, key=lambda pair: pair[1])
        thresholds.append(Threshold(best, f"> {best:.1f} ({source})", True))
    wanted = {**dict.fromkeys(goal.above, 0.0), **goal.margins}
    n_missing = 0
    for name, margin in wanted.items():
        theirs = results.summary(name, goal.dataset, goal.at)
        if theirs is None:
            n_missing += 1
            continue
        title = METHODS[name].title
        words = (
            f"≥ {title} {'+' if margin > 0 else '−'} {abs(margin):g}" if margin else f"> {title}"
        )
        thresholds.append(Threshold(theirs.mean + margin, words, not margin))
    ours = results.summary(goal.method, goal.dataset, goal.at)
    return GoalResult(goal, ours, tuple(thresholds), n_missing == 0)
