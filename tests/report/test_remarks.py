import dataclasses

import numpy as np

from glnn.report.remarks import closing_lines, never_predicted, suspect_lines


def test_doubtful_labels_are_named_and_the_rest_counted(judged_run, results):
    _, after, _, _, wrong = judged_run
    doubted = dataclasses.replace(after, suspects=tuple(wrong.tolist()))
    lines = suspect_lines(doubted, most=1)
    assert lines[0].startswith("4 given labels may be wrong")
    assert f"  {after.data.node_ids[wrong[0]]}: given" in lines[1]
    assert lines[2].startswith("  and 3 more")
    assert lines[0] in closing_lines(doubted)
    assert suspect_lines(results) == []  # nothing was judged


def test_a_class_that_no_node_gets_is_said(results):
    assert never_predicted(results) is None
    one = dataclasses.replace(results, probabilities=np.tile([0.9, 0.1], (20, 1)))
    assert never_predicted(one).endswith("birch & $x$")
    assert never_predicted(one) in closing_lines(one)
