import io

import numpy as np
from rich.console import Console

from glnn.engine.folds import make_folds
from glnn.quality.estimate import estimate
from glnn.quality.folds import hold_out
from glnn.quality.metrics import Interval
from glnn.quality.rivals import NodeProblem, choose_rivals
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


def test_a_method_that_was_not_run_has_no_line(results):
    assert cells(score_table(results.holdout))[0] == ["GLNN"]


def test_test_labels_and_folds_give_the_same_table_of_the_same_answers():
    labels = np.arange(60) % 3
    own = 0.1 + 0.7 * np.eye(3)[(labels + (np.arange(60) < 9)) % 3]  # nine mistakes
    plain = Score("SVM", None, 1.0, probabilities=np.eye(3)[labels], name="svm")
    holdout = HoldoutScores.of(labels, own, np.arange(3), 3, [plain])
    table = score_table(holdout)
    assert table.title == "On 60 test labels, in %"
    found = holdout.own.metrics["accuracy"]
    shown = f"{100 * found.value:.1f} [{100 * found.low:.0f}, {100 * found.high:.0f}]"
    assert cells(table)[1][0] == shown
    assert cells(table)[3][0] == ""
    assert cells(table)[3][1].startswith("-15.0 [")
    assert cells(table)[4] == ["0.0", "1.0"]  # seconds
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


def test_an_estimate_is_shown_beside_rivals_in_eighty_columns():
    classes = np.arange(60) % 3
    problem = NodeProblem(np.eye(60), None, classes, np.arange(60))
    folds = make_folds(classes, 5, 0)
    judged = estimate(
        problem,
        hold_out(lambda hidden: 0.1 + 0.7 * np.eye(3)[classes], classes, folds),
        folds,
        np.array(["a", "b", "c"]),
        rivals=choose_rivals(["majority", "logistic_regression"], has_graph=False),
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(estimate_table(judged))
    lines = console.file.getvalue().splitlines()
    assert "On 60 hidden labels, 5 folds" in lines[0]
    (own,) = [line for line in lines if "GLNN" in line]
    assert "100.0 [" in own
    assert [row.style for row in estimate_table(judged).rows] == ["bold", None, None]
