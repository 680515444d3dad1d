import dataclasses

import numpy as np

from glnn.report.page.data import Learning, Search
from glnn.report.page.frames import error_frames, learning_frames, search_frames


def test_every_chart_has_its_numbers_as_a_table(make_page):
    page = make_page()
    frames = error_frames(page) + learning_frames(page) + search_frames(page)
    assert len({frame.target for frame in frames}) == len(frames) == 10
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


def test_a_search_shows_its_trials_and_each_parameter_that_one_of_them_set(make_page):
    params = {"n_steps": (None, 5, 2), "dropout": (None, 0.1, 0.3), "head": (None, None, None)}
    page = dataclasses.replace(make_page(), search=Search("macro_f1", (0.7, 0.8, 0.6), params))
    trials, *parts = search_frames(page)
    assert trials.lines[0] == ("1", "0.7000", "preset", "preset", "preset")
    assert trials.lines[2] == ("3", "0.6000", "2", "0.3", "preset")
    assert [part.title for part in parts] == ["n_steps", "dropout"]
    assert parts[0].lines == (("2", "0.6000"), ("5", "0.8000"))
    assert search_frames(dataclasses.replace(page, search=None)) == []
