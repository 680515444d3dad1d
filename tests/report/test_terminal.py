import io

import numpy as np
from rich.console import Console

from glnn.engine.folds import make_folds
from glnn.quality.estimate import estimate
from glnn.quality.folds import hold_out
from glnn.quality.metrics import Interval
from glnn.quality.rivals import NodeProblem
from glnn.report.compare import Comparison, RunPair, RunSummary
from glnn.report.page.page_data import PageMeasure
from glnn.report.results import HoldoutScores, Score
from glnn.report.terminal import estimate_table, fact_table, pair_table, run_table, score_table


def printed(table):
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()


def cells(table):
    return [list(column.cells) for column in table.columns]


def test_a_method_that_was_not_run_has_its_reason_after_those_that_were(results):
    table = score_table(results.holdout, results.scores)
    assert cells(table)[0] == ["GLNN", "other <u>"]
    assert "not installed" in printed(table)
    assert [row.style for row in table.rows] == ["bold", None]


def test_test_labels_and_folds_give_the_same_table_of_the_same_answers():
    labels = np.arange(60) % 3
    own = 0.1 + 0.7 * np.eye(3)[(labels + (np.arange(60) < 9)) % 3]  # nine mistakes
    plain = Score("SVM", None, 1.0, probabilities=np.eye(3)[labels], name="svm")
    holdout = HoldoutScores.of(labels, own, np.arange(3), 3, [plain])
    table = score_table(holdout)
    assert table.title == "On 60 test labels, in %"
    assert [column.header for column in table.columns][1:4] == ["accuracy", "balanced", "macro-F1"]
    metrics = holdout.own.metrics
    for column, name in zip(cells(table)[1:], ("accuracy", "balanced_accuracy", "macro_f1")):
        found = metrics[name]
        assert column[0] == f"{100 * found.value:.1f} ± {100 * found.half_width:.0f}"
    assert cells(table)[-1][0] == ""
    assert cells(table)[-1][1].startswith("-15.0 [")
    assert [row.style for row in table.rows] == [None, "bold"]


def test_the_facts_are_printed(results):
    text = printed(fact_table(results))
    assert "mean degree" in text
    assert "optimal" in text


def test_runs_and_pairs_have_a_line_each():
    run = RunSummary("a[b]", "fine", PageMeasure("accuracy", 0.9, 0.8, 0.95), 10, 1234)
    pair = RunPair("a", "b", 10, Interval(0.02, -0.01, 0.05), 5, 6, 7, None)
    both = Comparison((run,), (pair,))
    assert "a[b]" in printed(run_table(both))
    assert "1,234" in printed(run_table(both))
    assert "+2.0" in printed(pair_table(both))
    assert "5 / 6 / 7" in printed(pair_table(both))


def test_an_estimate_is_shown_beside_plain_methods_in_eighty_columns():
    classes = np.arange(60) % 3
    problem = NodeProblem(np.eye(60), None, classes, np.arange(60))
    folds = make_folds(classes, 5, 0)
    judged = estimate(
        problem,
        hold_out(lambda hidden: 0.1 + 0.7 * np.eye(3)[classes], classes, folds),
        folds,
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
