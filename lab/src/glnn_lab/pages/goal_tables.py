"""Tables over several blocks: goals, ablation, and the headline of the README."""

import math
from collections.abc import Sequence

from glnn_lab.experiments.aggregate import Summary
from glnn_lab.experiments.blocks import Goal
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.datasets import dataset_title
from glnn_lab.experiments.goals import GoalResult, check_goals
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.records import REFERENCE, BlockResults, Value
from glnn_lab.pages.paper_tables import MISSING, PlainTable, format_mean

_HEADLINE = ("glnn", "glnn-paper", "gcn", "knn_gcn", "label_spreading", "logistic_regression")


def goals_table(blocks: Sequence[BlockResults]) -> PlainTable | None:
    """Tabulate every goal: our number, its cost, the thresholds, met or not, and the gap."""
    rows = [
        _goal_row(block, verdict)
        for block in blocks
        for verdict in check_goals(block)
        if verdict.ours is not None
    ]
    header = ["setting", "GLNN, default", "runs", "s a fit", "published", "goal", "met?"]
    title = "All goals: accuracy in %, mean ± standard deviation, and what it is compared with"
    return PlainTable(title, header, rows) if rows else None


def ablation_table(blocks: Sequence[BlockResults]) -> PlainTable | None:
    """Tabulate the ablation: points lost or gained without each part, on the same seeds."""
    parts = [block for block in blocks if block.block.is_ablation]
    known = {name for block in parts for name in block.methods if name != REFERENCE}
    methods = [name for name in METHODS if name in known]
    rows = [
        [
            _row_title(block, dataset, value),
            format_mean(block.summary(REFERENCE, dataset, value)),
            *(_difference(block, name, dataset, value) for name in methods),
        ]
        for block in parts
        for dataset in block.datasets
        for value in block.values
    ]
    header = ["setting", METHODS[REFERENCE].title, *(METHODS[name].title for name in methods)]
    title = "Contribution of each part: the default, and points gained or lost without the part"
    return PlainTable(title, header, rows) if rows and methods else None


def render_headline(blocks: Sequence[BlockResults]) -> str | None:
    """Return the headline table with its caption as Markdown; ``None`` without goals."""
    table = headline_table(blocks)
    if table is None:
        return None
    found = [
        verdict.ours.n for b in blocks for verdict in check_goals(b) if verdict.ours is not None
    ]
    low, high = min(found), max(found)
    runs = f"{low}" if low == high else f"{low} to {high}"
    caption = (
        f"Test accuracy in %, mean ± standard deviation of {runs} runs of the default (seeds "
        f"{FIRST_SEED} to {FIRST_SEED + high - 1}). The best of each\nrow is bold. The last column "
        "has the best number that others have published for a graph learner, from\ntheir own "
        "program and draws. `glnn reproduce accuracy` makes the "
        "[whole page](docs/results/accuracy.md)."
    )
    return f"{caption}\n\n{table.markdown(with_title=False)}\n"


def headline_table(blocks: Sequence[BlockResults]) -> PlainTable | None:
    """Tabulate each setting for the README: our number, the baselines, the best published one.

    Blocks that are not open have other methods and are left out.
    """
    rows = []
    for block in blocks:
        for verdict in check_goals(block):
            goal = verdict.goal
            found = [block.summary(name, goal.dataset, goal.at) for name in _HEADLINE]
            is_default = goal.method == REFERENCE
            if verdict.ours is not None and is_default and block.block.is_open:
                rows.append([goal.setting, *_best_in_bold(found, goal)])
    header = ["setting", *(METHODS[name].title for name in _HEADLINE), "best published"]
    return PlainTable("Test accuracy in %", header, rows) if rows else None


def _goal_row(block: BlockResults, verdict: GoalResult) -> list[str]:
    goal, ours = verdict.goal, verdict.ours
    assert ours is not None
    seconds = block.summary(goal.method, goal.dataset, goal.at, key="seconds")
    sources = ", ".join(f"{value:.1f} {source}" for source, value in goal.published)
    return [
        goal.setting,
        format_mean(ours),
        str(ours.n),
        MISSING if seconds is None else f"{seconds.mean:.1f}",
        sources or MISSING,
        ", ".join(one.words for one in verdict.thresholds) or MISSING,
        _format_gap(verdict),
    ]


def _format_gap(verdict: GoalResult) -> str:
    if verdict.is_met is None or verdict.gap is None:
        return MISSING
    return f"{'yes' if verdict.is_met else 'no'} ({verdict.gap:+.2f})"


def _best_in_bold(found: Sequence[Summary | None], goal: Goal) -> list[str]:
    """Return the measured numbers and the best published one, the highest in bold."""
    source, published = max(goal.published, key=lambda pair: pair[1], default=("", -math.inf))
    means = [-math.inf if summary is None else summary.mean for summary in found]
    words = [format_mean(summary) for summary in found]
    words.append(f"{published:.1f} ({source})" if source else MISSING)
    means.append(published)
    highest = max(means)
    return [f"**{text}**" if mean == highest else text for text, mean in zip(words, means)]


def _difference(block: BlockResults, method: str, dataset: str, value: Value) -> str:
    found = block.compare_with(method, dataset, value)
    if found is None:
        return MISSING
    mean = found.difference
    worth, low, high = (round(-x, 1) + 0.0 for x in (mean.mean, mean.high, mean.low))  # no -0.0
    return f"{worth:+.1f} [{low:+.1f}, {high:+.1f}]"


def _row_title(block: BlockResults, dataset: str, value: Value) -> str:
    words = block.block.short or block.block.name
    return f"{dataset_title(dataset)}, {words}" + ("" if value is None else f" {value:g}")
