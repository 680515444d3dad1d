import dataclasses
import inspect
import math
import typing

import pytest

from glnn.engine.presets import PRESETS
from glnn.engine.settings import CHOICES, FitSettings, GraphSettings, HeadSettings
from glnn.exceptions import InputError


def test_no_name_of_a_setting_means_two_things():
    graph, head, own = (
        {field.name for field in dataclasses.fields(part)}
        for part in (GraphSettings, HeadSettings, FitSettings)
    )
    own -= {
        "preset",
        "graph",
        "no_graph",
        "head",
        "cautious",
        "unwatched",
        "plain",
    }  # the parts themselves
    assert not graph & head
    assert not own & (graph | head)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (GraphSettings, "reading", "norm"),
        (GraphSettings, "prior", "none"),
        (GraphSettings, "support", "some"),
        (GraphSettings, "n_candidates", 0),
        (GraphSettings, "n_neighbors", 0),
        (GraphSettings, "prediction_weight", -1.0),
        (GraphSettings, "task_weight", math.nan),
        (HeadSettings, "head", "gat"),
        (HeadSettings, "n_hidden", 0),
        (HeadSettings, "n_steps", -1),
        (HeadSettings, "n_views", 0),
        (HeadSettings, "dropout", 1.0),
        (HeadSettings, "drop_node", -0.1),
        (HeadSettings, "consistency_weight", -1.0),
        (HeadSettings, "consistency_temperature", 0.0),
        (HeadSettings, "smoothness_weight", math.inf),
        (HeadSettings, "smoothness_temperature", 0.0),
        (HeadSettings, "gate", -1.0),
        (HeadSettings, "ramp_epochs", 0),
        (HeadSettings, "learning_rate", 0.0),
        (HeadSettings, "weight_decay", -1e-4),
        (HeadSettings, "n_epochs", 0),
        (GraphSettings, "n_rounds", 0),
        (GraphSettings, "first_graph", "random"),
        (GraphSettings, "signal", "tf"),
        (GraphSettings, "metric", "free"),
        (HeadSettings, "teleport", 1.0),
    ],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_a_setting_that_cannot_be_is_refused_in_one_line_that_names_it(kind, name, value):
    unchecked = inspect.unwrap(kind.__init__)  # types are checked in tests alone
    with pytest.raises(InputError, match=rf"^{name} must be") as caught:
        unchecked(object.__new__(kind), **{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CHOICES)
def test_the_type_of_a_choice_lists_what_is_accepted(name):
    part = FitSettings if name in ("scaling", "selection") else GraphSettings
    part = HeadSettings if name in ("head", "powers") else part
    assert set(typing.get_args(typing.get_type_hints(part)[name])) == set(CHOICES[name])


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_that_is_changed_to_something_else_is_refused_in_one_line(name):
    with pytest.raises(InputError, match=rf"^{name} must be one of") as caught:
        PRESETS["paper"].changed(name, "something else")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [GraphSettings(), HeadSettings(), PRESETS["paper"]])
def test_settings_cannot_be_changed_in_place(settings):
    name = dataclasses.fields(settings)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, name, None)
