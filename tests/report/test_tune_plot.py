import numpy as np
import pytest

from glnn.report.tune_plot import tuning_figure
from glnn.tuning import Trials

TABLE = [
    {"trial": 0, "accuracy": 0.7},
    {"trial": 1, "n_steps": 2, "n_neighbors": 5, "accuracy": 0.6},
    {"trial": 2, "n_steps": 4, "n_neighbors": 20, "accuracy": 0.8},
]


@pytest.mark.parametrize(
    ("goal", "best"), [("accuracy", [0.7, 0.7, 0.8]), ("log_loss", [0.7, 0.6, 0.6])]
)
def test_the_line_is_the_best_so_far(goal, best):
    table = [{**{k: v for k, v in row.items() if k != "accuracy"}} for row in TABLE]
    for row, old in zip(table, TABLE):
        row[goal] = old["accuracy"]
    first = tuning_figure(Trials({}, 0.0, table), goal).axes[0]
    np.testing.assert_array_equal(first.get_lines()[0].get_ydata(), best)


def test_every_parameter_has_its_panel_without_the_trial_that_lacks_it():
    _, steps, neighbours = tuning_figure(Trials({}, 0.8, TABLE), "accuracy").axes
    assert steps.get_xlabel() == "n_steps" and steps.get_xscale() == "linear"
    assert neighbours.get_xscale() == "log"
    np.testing.assert_array_equal(steps.get_lines()[0].get_xdata(), [2, 4])
    np.testing.assert_array_equal(neighbours.get_lines()[0].get_ydata(), [0.6, 0.8])


def test_a_search_of_one_trial_has_one_panel():
    assert len(tuning_figure(Trials({}, 0.7, TABLE[:1]), "accuracy").axes) == 1
