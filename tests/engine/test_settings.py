import inspect
import math

import pytest

from glnn.engine.settings import (
    PRESETS,
    FitSettings,
    GraphSettings,
    HeadSettings,
    resolve_settings,
)
from glnn.exceptions import InputError
from glnn.objective import Weights

# Settings


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (GraphSettings, "reading", "norm"),
        (GraphSettings, "n_neighbors", 0),
        (GraphSettings, "task_weight", math.nan),
        (GraphSettings, "weights", 3),
        (HeadSettings, "head", "gat"),
        (HeadSettings, "n_steps", -1),
        (HeadSettings, "dropout", 1.0),
        (HeadSettings, "smoothness_weight", math.inf),
        (HeadSettings, "patience", 0),
    ],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_a_setting_that_cannot_be_is_refused_in_one_line_that_names_it(kind, name, value):
    unchecked = inspect.unwrap(kind.__init__)  # types are checked in tests alone
    with pytest.raises(InputError, match=rf"^{name} must be") as caught:
        unchecked(object.__new__(kind), **{name: value})
    assert "\n" not in str(caught.value)


# Presets


def all_tracks(settings):
    return (*settings.tracks, *settings.no_graph)


# Another head, other tracks


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("head", ["propagation", "linear", "hops", "gcn"])
@pytest.mark.parametrize("has_graph", [True, False])
def test_a_head_that_is_named_is_the_only_track(preset, head, has_graph):
    (track,) = resolve_settings(preset, {"head": head}).tracks_for(has_graph)
    assert track.head.head == head
    assert track.sees_graph == has_graph


def test_tracks_that_are_named_are_the_only_ones_in_their_own_order():
    settings = resolve_settings("default", changes={"tracks": ["hops", "linear", "learned"]})
    assert [track.name for track in settings.tracks] == ["learned", "linear", "hops"]
    assert resolve_settings("default", {"tracks": "hops"}).select(["hops"]).tracks[0].name == "hops"
    assert [track.name for track in settings.no_graph] == ["linear", "hops"]
    assert settings.tracks[0] == PRESETS["default"].tracks[0]


def test_changes_reach_the_part_they_belong_to_on_both_sides():
    changed = resolve_settings(
        "default", changes={"n_epochs": 7, "n_candidates": 3, "gate": 0.3, "n_rounds": 5}
    )
    tracks = all_tracks(changed)
    assert len(tracks) == 8
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
