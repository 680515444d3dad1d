import dataclasses
import math

import pytest

from glnn.engine.settings import (
    HEADS,
    PRESETS,
    FitSettings,
    GraphSettings,
    HeadSettings,
    resolve_settings,
)
from glnn.exceptions import InputError
from glnn.objective import Weights


def test_there_are_the_three_presets_under_their_own_names():
    assert {name: settings.preset for name, settings in PRESETS.items()} == {
        "default": "default",
        "paper": "paper",
        "literal": "literal",
    }


def test_the_preset_paper_has_the_papers_terms_and_nothing_else():
    settings = PRESETS["paper"]
    assert settings.graph.weights == Weights.paper()
    assert settings.graph.task_weight > 0  # what makes the paper's learning joint
    assert settings.graph.weights.ridge == 0
    head = settings.head
    assert (head.head, head.n_hidden, head.dropout) == ("gcn", 16, 0.5)
    assert (head.learning_rate, head.weight_decay) == (0.01, 5e-4)
    assert head.consistency_weight == head.smoothness_weight == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_alone_is_what_is_written_down(preset):
    assert resolve_settings(preset) is PRESETS[preset]


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("head", HEADS)
def test_the_head_is_a_choice_of_its_own(preset, head):
    settings = resolve_settings(preset, head)
    assert settings.head.head == head
    assert settings.graph == PRESETS[preset].graph


def test_the_preset_literal_has_the_papers_head_only():
    with pytest.raises(InputError, match=r"^head must be 'gcn' in the preset 'literal'"):
        resolve_settings("literal", "propagation")
    assert resolve_settings("literal", "gcn") == PRESETS["literal"]


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("n_epochs", 7, lambda s: s.head.n_epochs),
        ("reading", "channel", lambda s: s.graph.reading),
        ("weights", Weights(sparsity=3.0), lambda s: s.graph.weights),
        ("n_rounds", 5, lambda s: s.n_rounds),
    ],
)
def test_a_setting_is_changed_by_its_name_wherever_it_lives(name, value, read):
    changed = resolve_settings("paper", changes={name: value})
    assert read(changed) == value
    back = resolve_settings("paper", changes={name: read(PRESETS["paper"])})
    assert back == PRESETS["paper"]


def test_no_name_of_a_setting_means_two_things():
    graph, head, own = (
        {field.name for field in dataclasses.fields(part)}
        for part in (GraphSettings, HeadSettings, FitSettings)
    )
    own -= {"preset", "graph", "head"}  # the parts themselves
    assert not graph & head
    assert not own & (graph | head)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"n_epoch": 5}, "'n_epoch' is not a setting of a fit. Did you mean 'n_epochs'"),
        ({"graph": GraphSettings()}, "'graph' is not a setting of a fit"),
        ({"preset": "paper"}, "'preset' is not a setting of a fit"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_one_probably_meant(changes, match):
    with pytest.raises(InputError, match=match):
        resolve_settings("paper", changes=changes)


def test_an_unknown_preset_or_head_is_refused_with_the_one_probably_meant():
    with pytest.raises(InputError, match="Did you mean 'paper'"):
        resolve_settings("papers")
    with pytest.raises(InputError, match="Did you mean 'propagation'"):
        resolve_settings("default", "propagate")


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
        (FitSettings, "n_rounds", 0),
        (FitSettings, "first_graph", "random"),
    ],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_a_setting_that_cannot_be_is_refused_in_one_line_that_names_it(kind, name, value):
    with pytest.raises(InputError, match=rf"^{name} must be") as caught:
        kind(**{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [GraphSettings(), HeadSettings(), FitSettings()])
def test_settings_cannot_be_changed_in_place(settings):
    name = dataclasses.fields(settings)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, name, None)
