import dataclasses

import numpy as np
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
        ("round 1", {"loss": [2.0, 1.0, np.nan]}),
        ("far, round 2", {"loss": [1.0, 0.0]}),
    ]
    figure = charts.curves_chart(curves, ("loss",), "loss", log)
    assert drawn_values(figure, "epoch") == [[0, 1, 2], [3, 4]]
    labels = [part.text for part in figure.center if type(part).__name__ == "Label"]
    assert labels == ["round 1", "far, round 2"]
    assert type(figure.yaxis[0]).__name__ == ("LogAxis" if log else "LinearAxis")


def test_bars_have_one_series_each():
    figure = charts.bar_chart(["a", "b"], {"x": [0.5, 0.5], "y": [0.2, 0.8]}, "share", percent=True)
    source = figure.renderers[0].data_source.data
    assert (source["s0"], source["s1"]) == ([0.5, 0.5], [0.2, 0.8])
    assert len(charts.bar_chart(["t"], {f"r{k}": [k] for k in range(3)}, "value").renderers) == 3


def test_trials_are_drawn_beside_the_best_so_far_and_the_preset():
    search = Search("log_loss", (0.7, 0.9, 0.6), {"n_steps": (None, 5, 2)}, is_low_best=True)
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


def test_changes_of_rounds_are_counted(make_page):
    edges = next(f for f in learning_frames(make_page()) if f.target == "chart-edges")
    assert edges.lines[-1] == ("round 3", "0", "0")  # the same graph again


def test_nothing_is_drawn_of_what_is_not_known(make_page):
    page = dataclasses.replace(
        make_page(), rounds=(), metric=(), history=(), given=None, evaluation=None
    )
    assert learning_frames(page) == []
    assert [frame.target for frame in error_frames(page)] == ["chart-balance"]


def test_a_search_shows_its_trials_and_each_parameter_that_one_of_them_set(make_page):
    params = {"n_steps": (None, 5, 2), "dropout": (None, 0.1, 0.3), "head": (None, None, None)}
    page = dataclasses.replace(make_page(), search=Search("macro_f1", (0.7, 0.8, 0.6), params))
    (trials,) = search_frames(page)
    assert trials.lines[0] == ("1", "0.7000", "preset", "preset", "preset")
    assert trials.lines[2] == ("3", "0.6000", "2", "0.3", "preset")
    assert search_frames(dataclasses.replace(page, search=None)) == []
