import dataclasses

import numpy as np

from glnn.report.page.data import Learning
from glnn.report.page.frames import error_frames, learning_frames


def test_every_chart_has_its_numbers_as_a_table(make_page):
    page = make_page()
    frames = error_frames(page) + learning_frames(page)
    assert len({frame.target for frame in frames}) == len(frames) == 7
    for frame in frames:
        assert frame.lines
        assert {len(line) for line in frame.lines} == {len(frame.head)}


def test_shares_of_predictions_count_every_node(make_page):
    page = make_page(90)
    balance = next(frame for frame in error_frames(page) if frame.target == "chart-balance")
    counts = [int(line[2].split()[0]) for line in balance.lines]
    np.testing.assert_array_equal(counts, np.bincount(page.nodes.predicted))


def test_an_undone_round_is_named_so_in_every_table(make_page):
    for frame in learning_frames(make_page()):
        if frame.target != "chart-metric":
            words = [*frame.head, *(line[0] for line in frame.lines)]
            assert "round 3 (undone)" in words


def test_nothing_is_drawn_of_what_is_not_known(make_page):
    page = dataclasses.replace(make_page(), learning=Learning(), evaluation=None)
    assert learning_frames(page) == []
    assert [frame.target for frame in error_frames(page)] == ["chart-balance"]
