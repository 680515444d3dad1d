"""Whether a number of ours is where it should be, and how far from there."""

from dataclasses import dataclass

from glnn_lab.experiments.aggregate import Summary
from glnn_lab.experiments.blocks import Goal
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.records import BlockResults

# --- goals: Whether a number of ours is where it should be, and how far from there


@dataclass(frozen=True)
class Bar:
    """One thing to reach: at least this many percent, or more than that."""

    height: float
    words: str
    is_strict: bool

    def is_passed_by(self, mean: float) -> bool:
        """Return whether a mean in percent is high enough.

        Examples
        --------
        >>> Bar(80.0, "", False).is_passed_by(80.0), Bar(80.0, "", True).is_passed_by(80.0)
        (True, False)
        """
        gap = mean - self.height
        return gap > 1e-9 if self.is_strict else gap >= -1e-9


@dataclass(frozen=True)
class Verdict:
    """What came out against all that was to be reached; ``gap`` is to the highest bar."""

    goal: Goal
    ours: Summary | None
    bars: tuple[Bar, ...]
    is_complete: bool

    @property
    def is_met(self) -> bool | None:
        """Whether every bar is passed; ``None`` if runs are missing."""
        if self.ours is None or not self.is_complete:
            return None
        return all(bar.is_passed_by(self.ours.mean) for bar in self.bars)

    @property
    def gap(self) -> float | None:
        """Points above the highest bar; negative below it."""
        if self.ours is None or not self.bars:
            return None
        return self.ours.mean - max(bar.height for bar in self.bars)


def verdicts(results: BlockResults) -> list[Verdict]:
    """Return a verdict for each goal of a block whose data set was asked for."""
    return [_verdict(results, goal) for goal in results.block.goals if _is_there(results, goal)]


def _is_there(results: BlockResults, goal: Goal) -> bool:
    places = {(entry.dataset, entry.value) for entry in results.entries}
    return goal.method in results.methods and (goal.dataset, goal.at) in places


def _verdict(results: BlockResults, goal: Goal) -> Verdict:
    bars = []
    if goal.goal is not None:
        bars.append(Bar(goal.goal, f"≥ {goal.goal:.1f}", False))
    elif goal.published:
        source, best = max(goal.published, key=lambda pair: pair[1])
        bars.append(Bar(best, f"> {best:.1f} ({source})", True))
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
        bars.append(Bar(theirs.mean + margin, words, not margin))
    ours = results.summary(goal.method, goal.dataset, goal.at)
    return Verdict(goal, ours, tuple(bars), n_missing == 0)
