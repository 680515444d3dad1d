import dataclasses

import numpy as np

from glnn.report.predictions import shown_probabilities
from glnn.report.remarks import closing_lines, never_predicted, suspect_lines, unjudged_lines
from glnn.report.words import RAW


def test_doubtful_labels_are_named_and_the_rest_counted(judged_run, results):
    _, after, _, _, wrong = judged_run
    doubted = dataclasses.replace(after, suspects=tuple(wrong.tolist()))
    lines = suspect_lines(doubted, most=1)
    assert lines[0].startswith("4 given labels may be wrong")
    assert f"  {after.data.node_ids[wrong[0]]}: given" in lines[1]
    assert lines[2].startswith("  and 3 more")
    assert lines[0] in closing_lines(doubted)
    assert suspect_lines(results) == []  # nothing was judged


def test_the_graph_problem_and_a_graph_that_was_left_out_are_spoken_of(results):
    assert closing_lines(results) == ["a note"]
    without = dataclasses.replace(results, settings={"chosen": {"source": "features"}})
    assert closing_lines(without)[1].startswith("the given graph was left out")


def test_what_is_neither_judged_nor_compared_is_said_with_a_way_out(results, judged_run):
    assert unjudged_lines(results, compare=True, n_processes=2) == []
    assert unjudged_lines(judged_run[1], compare=True, n_processes=1) == []
    before = judged_run[0]
    assert unjudged_lines(before, compare=False, n_processes=1) == []
    compared, several = (
        unjudged_lines(before, compare=compare, n_processes=n_processes)
        for compare, n_processes in ((True, 1), (False, 2))
    )
    assert len(compared) == len(several) == 1
    assert compared[0].startswith("nothing to compare on")
    assert "without --no-estimate" in compared[0]
    assert several[0].startswith("no estimate: a fit over several processes")
    assert all("--labels-per-class" in line for line in (*compared, *several))


def test_no_option_is_named_where_none_helps(results):
    split = dataclasses.replace(results.split, train=np.array([0, 10]), test=np.empty(0, np.int64))
    single = dataclasses.replace(results, split=split)
    (line,) = unjudged_lines(single, compare=True, n_processes=1)
    assert "--" not in line
    assert "label more nodes" in line


def test_a_class_that_no_node_gets_is_said(results):
    assert never_predicted(results) is None
    one = dataclasses.replace(results, probabilities=np.tile([0.9, 0.1], (20, 1)))
    assert never_predicted(one).endswith("birch & $x$")
    assert never_predicted(one) in closing_lines(one)


def test_a_class_counts_as_predicted_where_the_shown_answers_have_it(judged_run):
    after = judged_run[1]
    first = np.tile(np.eye(3)[0], (after.data.n_nodes, 1))
    fitted = dataclasses.replace(after, probabilities=first)  # shown: what the folds say
    shown, _ = shown_probabilities(fitted)
    assert len(set(shown.argmax(1).tolist())) == 3
    assert never_predicted(fitted) is None
    told = dataclasses.replace(after.estimate, probabilities=first)
    assert never_predicted(dataclasses.replace(fitted, estimate=told)) is not None


def test_raw_probabilities_are_said_before_the_estimate_and_not_after(judged_run):
    before, after = judged_run[:2]
    assert RAW in closing_lines(before)
    assert RAW not in closing_lines(after)
