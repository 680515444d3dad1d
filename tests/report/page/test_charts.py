import pytest

from glnn.report.page import charts
from glnn.report.page.data import Curve, Search


def drawn_values(figure, column):
    return [
        list(r.data_source.data[column]) for r in figure.renderers if column in r.data_source.data
    ]


def test_the_reliability_curve_passes_through_its_bins():
    figure = charts.reliability_chart([(0.2, 0.1, 5), (0.8, 0.9, 20)])
    assert drawn_values(figure, "right")[0] == [0.1, 0.9]


def test_the_heaviest_column_is_on_top():
    figure = charts.metric_chart([("heavy", 2.0), ("light", 1.0)])
    assert figure.y_range.factors == ["light", "heavy"]


@pytest.mark.parametrize("log", [True, False])
def test_an_undone_stage_is_said_to_be_undone_and_stages_follow_each_other(log):
    curves = [
        Curve("round 1", {"loss": [2.0, 1.0, None]}),
        Curve("round 2", {"loss": [1.0, 0.0]}, undone=True),
    ]
    figure = charts.curves_chart(curves, ("loss",), "loss", log)
    assert drawn_values(figure, "epoch") == [[0, 1, 2], [3, 4]]
    labels = [part.text for part in figure.center if type(part).__name__ == "Label"]
    assert labels == ["round 1", "round 2 (undone)"]
    assert type(figure.yaxis[0]).__name__ == ("LogAxis" if log else "LinearAxis")


def test_bars_have_one_series_each(make_page):
    figure = charts.balance_chart(["a", "b"], [0.5, 0.5], [0.2, 0.8])
    source = figure.renderers[0].data_source.data
    assert (source["s0"], source["s1"]) == ([0.5, 0.5], [0.2, 0.8])
    assert charts.edges_chart(["r"], [3], [1]).renderers[1].data_source.data["s1"] == [1]
    assert len(charts.terms_chart(["t"], {"r1": [1.0], "r2": [2.0], "r3": [3.0]}).renderers) == 3


def test_a_chart_is_plain_values_and_bokehs_script_comes_from_its_package():
    text = charts.chart_text(charts.metric_chart([("a", 1.0)]), "place")
    assert text["target_id"] == "place"
    assert "Bokeh" in charts.bokeh_script()
    assert charts.has_bokeh()


def test_trials_are_drawn_beside_the_best_so_far_and_the_preset():
    search = Search("log_loss", (0.7, 0.9, 0.6), {"n_steps": (None, 5, 2)}, is_low_best=True)
    best, trials, preset = (r.data_source.data for r in charts.trials_chart(search).renderers)
    assert list(trials["value"]) == [0.7, 0.9, 0.6]
    assert list(best["y"]) == [0.7, 0.7, 0.6] and list(preset["y"]) == [0.7] * 3


@pytest.mark.parametrize(("log", "axis"), [((), "LinearAxis"), (("n_steps",), "LogAxis")])
def test_a_parameter_is_drawn_where_a_trial_set_it(log, axis):
    search = Search("accuracy", (0.7, 0.9, 0.6), {"n_steps": (None, 5, 2)}, log)
    figure = charts.parameter_chart(search, "n_steps")
    assert drawn_values(figure, "part") == [[5, 2]] and drawn_values(figure, "value") == [
        [0.9, 0.6]
    ]
    assert type(figure.xaxis[0]).__name__ == axis
