import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from glnn.report.text import (
    UNCALIBRATED,
    describe_graph,
    evaluation_advice,
    final_notes,
    score_table,
    suspect_lines,
    verdict_line,
    warning_lines,
)

NONE = np.empty(0, np.int64)

# Sentences


def unjudged(results, train):
    split = dataclasses.replace(results.split, train=np.array(train), test=NONE)
    return dataclasses.replace(results, split=split, evaluation=None)


def test_the_line_on_the_graph_counts_links_and_shares(results):
    facts = results.graph_facts
    share = f"{100 * facts.equal_labels:.1f} % (by chance {100 * facts.equal_by_chance:.1f} %) of "
    line = describe_graph(results)
    assert line.startswith("graph: 91 links, 9.1 a node;") and share in line
    given = describe_graph(dataclasses.replace(results, given=results.adjacency))
    assert "91 of 91 given links kept, 0 added" in given
    assert "labels" not in describe_graph(unjudged(results, [0, 1]))


@pytest.mark.parametrize(
    ("train", "verdict", "advice"),
    [
        ([0, 10], "too few labels to tell: 2", "label more nodes, 20 or more"),
        (range(20), "not evaluated: all labels were used for training, and no ", "--folds 0"),
    ],
)
def test_without_a_hidden_label_nothing_is_claimed(results, train, verdict, advice):
    few = unjudged(results, train)
    assert verdict_line(few).startswith(verdict)
    assert advice in evaluation_advice(few)
    assert verdict_line(results) == results.evaluation.verdict.sentence


# Notes and warnings


def test_doubtful_labels_are_named_and_the_rest_counted(judged_run, results):
    run, _, wrong = judged_run
    doubted = dataclasses.replace(run.results, suspects=tuple(wrong.tolist()))
    lines = suspect_lines(doubted, most=1)
    assert lines[0].startswith("4 given labels disagree with the model")
    assert f"  {doubted.ids[wrong[0]]}: given" in lines[1]
    assert lines[2].startswith("  and 3 more")
    assert lines[0] in final_notes(doubted, verbose=False)
    assert suspect_lines(results) == []  # nothing was judged


def test_missing_classes_and_raw_probabilities_are_warned_of(results):
    assert warning_lines(results) == []
    one = dataclasses.replace(results, probabilities=np.tile([0.9, 0.1], (20, 1)))
    assert warning_lines(one)[0].endswith("birch & $x$")
    assert warning_lines(dataclasses.replace(one, classes=np.array([0]))) == []
    assert warning_lines(dataclasses.replace(results, calibration=None)) == [UNCALIBRATED]


# Tables


def printed(table, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()


def cells(table):
    return [list(column.cells) for column in table.columns]


@pytest.mark.parametrize(
    ("n_folds", "title"),
    [(1, "On 60 test labels, in %"), (5, "On 60 hidden labels, 5 folds, in %")],
)
def test_scores_stand_beside_those_of_rivals_in_eighty_columns(make_evaluation, n_folds, title):
    labels = np.arange(60) % 3
    own = 0.1 + 0.7 * np.eye(3)[(labels + (np.arange(60) < 9)) % 3]  # nine mistakes
    rivals = {"SVM": np.eye(3)[labels]}
    found = make_evaluation("abc", labels, own, np.arange(60), rivals, n_folds)
    table = score_table(found)
    assert table.title == title
    one = found.own.metrics["accuracy"]
    shown = f"{100 * one.value:.1f} [{100 * one.low:.0f}, {100 * one.high:.0f}]"
    assert cells(table)[1][0] == shown
    assert cells(table)[3][0] == "" and cells(table)[3][1].startswith("-15.0 [")
    assert cells(table)[4] == ["1.5", "1.0"]  # seconds
    assert [row.style for row in table.rows] == [None, "bold"]
    assert any(shown in line for line in printed(table, 80).splitlines())
