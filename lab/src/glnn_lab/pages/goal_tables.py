"""Tables that gather many blocks: goals and whether they are met, what each part is worth."""

import math
from collections.abc import Sequence

from glnn_lab.experiments.aggregate import Summary
from glnn_lab.experiments.blocks import Goal
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.datasets import title_of
from glnn_lab.experiments.goals import Verdict, verdicts
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.records import REFERENCE, BlockResults, Value
from glnn_lab.pages.paper_tables import NOTHING, PlainTable, number_words

_HEADLINE = ("glnn", "glnn-paper", "gcn", "knn_gcn", "label_spreading", "logistic_regression")


def goals_table(blocks: Sequence[BlockResults]) -> PlainTable | None:
    """Tabulate every goal: our number, its cost, what was to be reached, met or the gap."""
    rows = [
        _goal_row(block, verdict)
        for block in blocks
        for verdict in verdicts(block)
        if verdict.ours is not None
    ]
    header = ["setting", "GLNN, default", "runs", "s a fit", "published", "goal", "met?"]
    title = "Every goal: accuracy in %, mean ± standard deviation, and what it is held against"
    return PlainTable(title, header, rows) if rows else None


def ablation_table(blocks: Sequence[BlockResults]) -> PlainTable | None:
    """Tabulate what is lost or won without each part, in points on the same seeds."""
    parts = [block for block in blocks if block.block.is_ablation]
    known = {name for block in parts for name in block.methods if name != REFERENCE}
    methods = [name for name in METHODS if name in known]
    rows = [
        [
            _place(block, dataset, value),
            number_words(block.summary(REFERENCE, dataset, value)),
            *(_difference(block, name, dataset, value) for name in methods),
        ]
        for block in parts
        for dataset in block.datasets
        for value in block.values
    ]
    header = ["setting", METHODS[REFERENCE].title, *(METHODS[name].title for name in methods)]
    title = "What each part is worth: the default, and points won or lost without the part"
    return PlainTable(title, header, rows) if rows and methods else None


def headline_words(blocks: Sequence[BlockResults]) -> str | None:
    """Return the headline with its caption as Markdown, or ``None`` if there are no goals."""
    table = headline_table(blocks)
    if table is None:
        return None
    found = [verdict.ours.n for b in blocks for verdict in verdicts(b) if verdict.ours is not None]
    low, high = min(found), max(found)
    runs = f"{low}" if low == high else f"{low} to {high}"
    caption = (
        f"Test accuracy in %, mean ± standard deviation of {runs} runs of the default (seeds from "
        f"{FIRST_SEED} to {FIRST_SEED + high - 1}), the best of\na row in bold; in the last column "
        "the best number of a graph learner that others have published, from\ntheir own program "
        "and draws. [All of it](docs/results/accuracy.md) is made by `glnn reproduce accuracy`."
    )
    return f"{caption}\n\n{table.markdown(with_title=False)}\n"


def headline_table(blocks: Sequence[BlockResults]) -> PlainTable | None:
    """Tabulate for the front page: each setting, ours, the others, the best published number.

    Blocks that are closed have methods of their own, and stay on the page of the target.
    """
    rows = []
    for block in blocks:
        for verdict in verdicts(block):
            goal = verdict.goal
            found = [block.summary(name, goal.dataset, goal.at) for name in _HEADLINE]
            is_default = goal.method == REFERENCE
            if verdict.ours is not None and is_default and block.block.is_open:
                rows.append([goal.setting, *_best_in_bold(found, goal)])
    header = ["setting", *(METHODS[name].title for name in _HEADLINE), "best published"]
    return PlainTable("Test accuracy in %", header, rows) if rows else None


def _goal_row(block: BlockResults, verdict: Verdict) -> list[str]:
    goal, ours = verdict.goal, verdict.ours
    assert ours is not None
    seconds = block.summary(goal.method, goal.dataset, goal.at, key="seconds")
    sources = ", ".join(f"{value:.1f} {source}" for source, value in goal.published)
    return [
        goal.setting,
        number_words(ours),
        str(ours.n),
        NOTHING if seconds is None else f"{seconds.mean:.1f}",
        sources or NOTHING,
        ", ".join(bar.words for bar in verdict.bars) or NOTHING,
        _met_words(verdict),
    ]


def _met_words(verdict: Verdict) -> str:
    if verdict.is_met is None or verdict.gap is None:
        return NOTHING
    return f"{'yes' if verdict.is_met else 'no'} ({verdict.gap:+.2f})"


def _best_in_bold(found: Sequence[Summary | None], goal: Goal) -> list[str]:
    """Return the measured numbers and the best published one, the highest of all in bold."""
    source, published = max(goal.published, key=lambda pair: pair[1], default=("", -math.inf))
    means = [-math.inf if summary is None else summary.mean for summary in found]
    words = [number_words(summary) for summary in found]
    words.append(f"{published:.1f} ({source})" if source else NOTHING)
    means.append(published)
    highest = max(means)
    return [f"**{text}**" if mean == highest else text for text, mean in zip(words, means)]


def _difference(block: BlockResults, method: str, dataset: str, value: Value) -> str:
    found = block.against(method, dataset, value)
    if found is None:
        return NOTHING
    mean = found.difference
    worth, low, high = (round(-x, 1) + 0.0 for x in (mean.mean, mean.high, mean.low))  # no -0.0
    return f"{worth:+.1f} [{low:+.1f}, {high:+.1f}]"


def _place(block: BlockResults, dataset: str, value: Value) -> str:
    words = block.block.short or block.block.name
    return f"{title_of(dataset)}, {words}" + ("" if value is None else f" {value:g}")
