import dataclasses

import numpy as np
import pandas as pd
import pytest

from glnn.report.page import charts
from glnn.report.page.charts import column_frames, error_frames, learning_frames, search_frames
from glnn.report.results import Search


def drawn_values(figure, column):
    return [
        list(r.data_source.data[column]) for r in figure.renderers if column in r.data_source.data
    ]


@pytest.mark.parametrize("log", [True, False])
def test_stages_are_named_and_follow_each_other(log):
    curves = [
        ("round 1", pd.DataFrame({"loss": [2.0, 1.0, np.nan]})),
        ("far, round 2", pd.DataFrame({"loss": [1.0, 0.0]})),
    ]
    figure = charts.curves_chart(curves, ("loss",), "loss", log)
    assert drawn_values(figure, "epoch") == [[0, 1, 2], [3, 4]]
    labels = [part.text for part in figure.center if type(part).__name__ == "Label"]
    assert labels == ["round 1", "far, round 2"]
    assert type(figure.yaxis[0]).__name__ == ("LogAxis" if log else "LinearAxis")


def test_trials_are_drawn_beside_the_best_so_far_and_the_preset():
    search = Search("log_loss", (0.7, 0.9, 0.6), {"n_steps": (None, 5, 2)})
    best, trials, preset = (r.data_source.data for r in charts.trials_chart(search).renderers)
    assert list(trials["value"]) == [0.7, 0.9, 0.6]
    assert list(best["y"]) == [0.7, 0.7, 0.6] and list(preset["y"]) == [0.7] * 3


# Frames


def test_every_chart_has_its_numbers_as_a_table(make_page):
    page = make_page()
    frames = error_frames(page) + learning_frames(page) + search_frames(page) + column_frames(page)
    assert len({frame.target for frame in frames}) == len(frames) == 8
    for frame in frames:
        assert frame.lines
        assert {len(line) for line in frame.lines} == {len(frame.head)}


def test_shares_of_predictions_count_every_node(make_page):
    page = make_page(90)
    balance = next(frame for frame in error_frames(page) if frame.target == "chart-balance")
    counts = [int(line[2].split()[0]) for line in balance.lines]
    np.testing.assert_array_equal(counts, np.bincount(page.predictions))


def test_nothing_is_drawn_of_what_is_not_known(make_page):
    page = dataclasses.replace(
        make_page(), rounds=(), metric=(), history=(), given=None, evaluation=None
    )
    assert learning_frames(page) == []
    assert [frame.target for frame in error_frames(page)] == ["chart-balance"]
