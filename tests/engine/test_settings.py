import dataclasses
import inspect
import json
import math
import typing
from pathlib import Path

import pytest

from glnn.engine.settings import (
    CHOICES,
    PRESETS,
    FitSettings,
    GraphSettings,
    HeadSettings,
    resolve_settings,
)
from glnn.exceptions import InputError
from glnn.objective import Weights

# Settings


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
        PRESETS["paper"].replace_setting(name, "something else")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("settings", [GraphSettings(), HeadSettings(), PRESETS["paper"]])
def test_settings_cannot_be_changed_in_place(settings):
    name = dataclasses.fields(settings)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings, name, None)


# Presets


def test_the_paper_has_the_papers_weights_and_network_and_no_loss_on_predictions():
    paper = resolve_settings("paper")
    assert paper.graph.weights == Weights(
        smoothness=1.0, sparsity=0.1, row_sums=0.1, loops=0.001, closeness=10.0
    )
    head = paper.head
    assert (head.head, head.n_hidden, head.dropout) == ("gcn", 16, 0.5)
    assert (head.learning_rate, head.weight_decay) == (0.01, 5e-4)
    assert head.consistency_weight == head.smoothness_weight == 0
    assert paper.graph.task_weight == 1
    assert paper.cautious == ()


def test_a_head_without_settings_in_a_preset_is_refused(monkeypatch):
    monkeypatch.setattr("glnn.engine.settings.HEADS", ("gcn", "propagation", "attention"))
    with pytest.raises(InputError, match="no settings for the head 'attention'"):
        resolve_settings("default", "attention")


def test_another_head_is_one_argument_away():
    assert resolve_settings("default", "gcn").head.n_hidden == 16
    assert resolve_settings("paper", "propagation").head.head == "propagation"


def test_changes_reach_the_part_they_belong_to_on_both_sides():
    replace_setting = resolve_settings(
        "default", changes={"n_epochs": 7, "n_candidates": 3, "gate": 0.3}
    )
    assert {
        head.n_epochs
        for head in (replace_setting.head, *replace_setting.cautious, *replace_setting.unwatched)
    } == {7}
    assert {
        head.gate
        for head in (replace_setting.head, *replace_setting.cautious, *replace_setting.unwatched)
    } == {0.3}
    assert replace_setting.graph.n_candidates == replace_setting.no_graph.n_candidates == 3


def test_given_weights_leave_no_wanted_degree_unless_it_is_given_too():
    weights = Weights.without_prior()
    assert resolve_settings("default", changes={"weights": weights}).no_graph.n_neighbors is None
    both = resolve_settings("default", changes={"n_neighbors": 4, "weights": weights})
    assert both.no_graph.n_neighbors == 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: resolve_settings("papr"), "Did you mean 'paper'"),
        (lambda: resolve_settings("default", "gnc"), "Did you mean 'gcn'"),
        (lambda: resolve_settings("literal", "propagation"), "must be 'gcn'"),
        (lambda: resolve_settings("paper", changes={"n_epoch": 3}), "Did you mean 'n_epochs'"),
        (lambda: resolve_settings("paper", changes={"n_rounds": 0}), "n_rounds must be at least 1"),
        (lambda: resolve_settings("paper", changes={"scaling": "row"}), "Did you mean 'rows'"),
    ],
)
def test_bad_settings_are_refused_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_every_preset_knows_its_own_name():
    assert all(settings.preset == name for name, settings in PRESETS.items())


@pytest.mark.parametrize("head", ["propagation", "linear", "hops", "gcn"])
def test_a_head_that_is_named_competes_with_none(head):
    assert resolve_settings("default").competitors
    named = resolve_settings("default", head)
    assert named.head.head == head
    assert named.competitors == ()


@pytest.mark.parametrize("preset", PRESETS)
def test_recorded_results_were_made_with_these_settings(preset):
    """Whoever changes a preset must record the results again, and then this file."""
    known = json.loads(Path(__file__).with_name("presets.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(dataclasses.asdict(PRESETS[preset]))) == known[preset]
