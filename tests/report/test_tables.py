import io

import numpy as np
from rich.console import Console

from glnn.quality.estimate import estimate
from glnn.quality.intervals import Interval
from glnn.quality.plain import NodeProblem
from glnn.report.compare import Comparison, PairLine, RunLine
from glnn.report.page.data import Measure
from glnn.report.tables import (
    estimate_table,
    fact_table,
    pair_table,
    run_table,
    score_rows,
    score_table,
)


def printed(table):
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()


def test_every_method_has_its_row_and_a_missing_one_its_reason(results):
    assert score_rows(results.scores) == [
        ("GLNN", "95.0 %", "1.5"),
        ("other <u>", "not installed", "0.0"),
    ]
    text = printed(score_table(results))
    assert "95.0 %" in text
    assert "not installed" in text


def test_the_best_is_bold(results):
    styles = [row.style for row in score_table(results).rows]
    assert styles == ["bold", None]


def test_the_facts_are_printed(results):
    text = printed(fact_table(results))
    assert "mean degree" in text
    assert "optimal" in text


def test_runs_and_pairs_have_a_line_each():
    run = RunLine("a[b]", "fine", Measure("accuracy", 0.9, 0.8, 0.95), 10, 1234)
    pair = PairLine("a", "b", 10, Interval(0.02, -0.01, 0.05), 5, 6, 7, None)
    both = Comparison((run,), (pair,))
    assert "a[b]" in printed(run_table(both))
    assert "1,234" in printed(run_table(both))
    assert "+2.0" in printed(pair_table(both))
    assert "5 / 6 / 7" in printed(pair_table(both))


def test_an_estimate_is_shown_beside_plain_methods_in_eighty_columns():
    classes = np.arange(60) % 3
    problem = NodeProblem(np.eye(60), None, classes, np.arange(60))
    judged = estimate(
        problem,
        lambda hidden: 0.1 + 0.7 * np.eye(3)[classes],
        np.array(["a", "b", "c"]),
        compared=("majority", "logistic_regression"),
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(estimate_table(judged))
    lines = console.file.getvalue().splitlines()
    assert "On 60 hidden labels, 5 folds" in lines[0]
    (own,) = [line for line in lines if "GLNN" in line]
    assert "100.0 ±" in own
    assert [row.style for row in estimate_table(judged).rows] == ["bold", None, None]
