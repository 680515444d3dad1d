import numpy as np
import pytest

from glnn.report.page.data import Search
from glnn.report.tune_plot import tuning_figure

PARAMS = {"n_steps": (None, 2, 4), "n_neighbors": (None, 5, 20)}
SEARCH = Search("accuracy", (0.7, 0.6, 0.8), PARAMS, ("n_neighbors",))


@pytest.mark.parametrize(
    ("is_low_best", "best"), [(False, [0.7, 0.7, 0.8]), (True, [0.7, 0.6, 0.6])]
)
def test_the_line_is_the_best_so_far(is_low_best, best):
    search = Search("log_loss", SEARCH.values, PARAMS, is_low_best=is_low_best)
    first = tuning_figure(search).axes[0]
    np.testing.assert_array_equal(first.get_lines()[0].get_ydata(), best)


def test_every_parameter_has_its_panel_without_the_trial_that_lacks_it():
    _, steps, neighbours = tuning_figure(SEARCH).axes
    assert steps.get_xlabel() == "n_steps" and steps.get_xscale() == "linear"
    assert neighbours.get_xscale() == "log"
    np.testing.assert_array_equal(steps.get_lines()[0].get_xdata(), [2, 4])
    np.testing.assert_array_equal(neighbours.get_lines()[0].get_ydata(), [0.6, 0.8])


def test_a_search_of_one_trial_has_one_panel():
    assert len(tuning_figure(Search("accuracy", (0.7,))).axes) == 1
