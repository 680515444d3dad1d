import dataclasses
import inspect
import math
import typing

import pytest

from glnn.engine.settings import (
    CHOICES,
    PRESETS,
    FitSettings,
    GraphSettings,
    HeadSettings,
    Track,
    resolve_settings,
)
from glnn.exceptions import InputError
from glnn.objective import Weights

# Settings


def test_no_name_of_a_setting_means_two_things():
    graph, head, track, own = (
        {field.name for field in dataclasses.fields(part)}
        for part in (GraphSettings, HeadSettings, Track, FitSettings)
    )
    track -= {"graph", "head"}  # the parts themselves
    assert not graph & head
    assert not own & (graph | head)
    assert not track & (graph | head | own)


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
    part = FitSettings if name == "scaling" else GraphSettings
    part = HeadSettings if name in ("head", "powers") else part
    assert set(typing.get_args(typing.get_type_hints(part)[name])) == set(CHOICES[name])


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_that_is_changed_to_something_else_is_refused_in_one_line(name):
    with pytest.raises(InputError, match=rf"^{name} must be one of") as caught:
        PRESETS["paper"].replace_setting(name, "something else")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings", [GraphSettings(), HeadSettings(), PRESETS["paper"].tracks[0], PRESETS["paper"]]
)
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


@pytest.mark.parametrize("preset", ["paper", "literal"])
@pytest.mark.parametrize("has_graph", [True, False])
def test_the_methods_of_the_paper_are_single_tracks(preset, has_graph):
    (track,) = PRESETS[preset].tracks_for(has_graph)
    assert track.learns
    assert track.sees_graph == has_graph


def all_tracks(settings):
    return (*settings.tracks, *settings.no_graph)


def test_names_of_tracks_are_unique_and_without_a_graph_none_sees_it():
    for settings in PRESETS.values():
        for tracks in (settings.tracks, settings.no_graph):
            assert len({track.name for track in tracks}) == len(tracks)
        assert not any(track.sees_graph for track in settings.no_graph)
    default = PRESETS["default"]
    assert [track.name for track in default.tracks if not track.sees_graph] == ["features"]
    assert [track.name for track in all_tracks(default) if not track.learns] == 2 * [
        "linear",
        "hops",
    ]


# Another head, other tracks


def test_another_head_is_one_argument_away():
    assert resolve_settings("default", {"head": "gcn"}).head.n_hidden == 16
    assert resolve_settings("paper", {"head": "propagation"}).head.head == "propagation"
    paper = resolve_settings("paper", {"head": "linear"})
    assert paper.head == resolve_settings("default", {"head": "linear"}).head
    assert paper.graph == PRESETS["paper"].graph


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("head", ["propagation", "linear", "hops", "gcn"])
@pytest.mark.parametrize("has_graph", [True, False])
def test_a_head_that_is_named_is_the_only_track(preset, head, has_graph):
    (track,) = resolve_settings(preset, {"head": head}).tracks_for(has_graph)
    assert track.head.head == head
    assert track.sees_graph == has_graph


def test_the_head_of_a_preset_by_its_name_is_its_first_track():
    default = PRESETS["default"]
    named = resolve_settings("default", {"head": "propagation"})
    assert (*named.tracks, *named.no_graph) == (default.tracks[0], default.no_graph[0])
    assert resolve_settings("literal", {"head": "gcn"}) == PRESETS["literal"]


def test_tracks_that_are_named_are_the_only_ones_in_their_own_order():
    settings = resolve_settings("default", changes={"tracks": ["hops", "far", "learned"]})
    assert [track.name for track in settings.tracks] == ["learned", "far", "hops"]
    assert [track.name for track in settings.no_graph] == ["far", "hops"]
    assert settings.tracks[0] == PRESETS["default"].tracks[0]


def test_tracks_that_need_other_data_are_refused():
    settings = resolve_settings("default", changes={"tracks": ["learned"]})
    assert settings.tracks_for(True)
    with pytest.raises(InputError, match="data without a graph, got 'learned' alone") as caught:
        settings.tracks_for(False)
    assert "\n" not in str(caught.value)


def test_changes_reach_the_part_they_belong_to_on_both_sides():
    changed = resolve_settings(
        "default", changes={"n_epochs": 7, "n_candidates": 3, "gate": 0.3, "n_rounds": 5}
    )
    tracks = all_tracks(changed)
    assert len(tracks) == 9
    assert {track.head.n_epochs for track in tracks} == {7}
    assert {track.graph.n_candidates for track in tracks} == {3}
    assert {track.graph.n_rounds for track in tracks} == {5}
    learning = [track for track in tracks if track.learns]
    assert {track.head.gate for track in learning} == {0.3}


def test_what_is_said_of_the_network_leaves_heads_on_rows_as_they_are():
    before = [track for track in all_tracks(PRESETS["default"]) if not track.learns]
    changed = resolve_settings("default", changes={"dropout": 0.1, "n_hidden": 5, "n_steps": 1})
    after = [track for track in all_tracks(changed) if not track.learns]
    assert after == before
    more = resolve_settings("default", changes={"n_epochs": 5000})
    assert {track.head.n_epochs for track in all_tracks(more)} == {5000, 1000, 60}


@pytest.mark.parametrize("asked", [{"head": "linear"}, {"tracks": ["linear"]}])
def test_what_is_said_of_the_network_reaches_a_head_on_rows_that_is_alone(asked):
    said = {"dropout": 0.1, "n_epochs": 5000, "n_steps": 1}  # before the tracks, and yet after
    settings = resolve_settings("default", said | asked)
    for track in (*settings.tracks, *settings.no_graph):
        assert {name: getattr(track.head, name) for name in said} == said


def test_given_weights_leave_no_wanted_degree_unless_it_is_given_too():
    weights = Weights.without_prior()
    changed = resolve_settings("default", changes={"weights": weights})
    seeing = [
        track for track in all_tracks(changed) if track.sees_graph or track in changed.no_graph
    ]
    assert {track.graph.n_neighbors for track in seeing} == {None}
    assert {track.graph.weights for track in seeing} == {weights}
    both = resolve_settings("default", changes={"n_neighbors": 4, "weights": weights})
    assert {track.graph.n_neighbors for track in all_tracks(both)} == {4}


def test_a_signal_that_is_named_is_not_changed_by_itself():
    assert PRESETS["default"].seeks_structure
    assert not resolve_settings("default", changes={"signal": "idf"}).seeks_structure
    assert resolve_settings("default", changes={"n_candidates": 3}).seeks_structure


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: resolve_settings("papr"), "Did you mean 'paper'"),
        (lambda: resolve_settings("default", {"head": "gnc"}), "Did you mean 'gcn'"),
        (lambda: resolve_settings("literal", {"head": "propagation"}), "must be 'gcn'"),
        (lambda: resolve_settings("paper", changes={"n_epoch": 3}), "Did you mean 'n_epochs'"),
        (lambda: resolve_settings("paper", changes={"n_rounds": 0}), "n_rounds must be at least 1"),
        (lambda: resolve_settings("paper", changes={"scaling": "row"}), "Did you mean 'rows'"),
        (lambda: resolve_settings("default", changes={"tracks": ["hop"]}), "Did you mean 'hops'"),
        (lambda: resolve_settings("default", changes={"tracks": []}), "must be a list of names"),
        (lambda: resolve_settings("default", changes={"tracks": "hops"}), "a list of names"),
        (lambda: inspect.unwrap(FitSettings.select)(PRESETS["default"], 2), "list of names, got 2"),
        (lambda: resolve_settings("paper", changes={"tracks": ["hops"]}), "tracks must be"),
        (
            lambda: resolve_settings("default", {"head": "linear", "dropout": 2.0}),
            "dropout must be",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(call, words):
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_every_preset_knows_its_own_name():
    assert all(settings.preset == name for name, settings in PRESETS.items())
