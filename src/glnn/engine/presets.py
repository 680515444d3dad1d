"""The presets by name, and how a user's own settings change them."""

import dataclasses
from typing import Any, cast

from glnn._validation import check_choice, did_you_mean
from glnn.engine.settings import HEADS, FitSettings, GraphSettings, Head, HeadSettings, field_names
from glnn.exceptions import InputError
from glnn.objective import Weights

_WITHOUT_PRIOR = GraphSettings(weights=Weights.without_prior(), n_neighbors=20, n_candidates=40)

_PROPAGATION = HeadSettings(
    head="propagation",
    n_hidden=32,
    drop_node=0.5,
    n_steps=4,
    n_views=2,
    consistency_weight=1.0,
    smoothness_weight=1.0,
    ramp_epochs=50,
    learning_rate=0.05,
    weight_decay=1e-3,
    n_epochs=200,
    patience=30,
)
_UNWATCHED = dataclasses.replace(
    _PROPAGATION, ramp_epochs=100, learning_rate=0.02, weight_decay=5e-4, n_epochs=300
)
"""Where no validation node can end a training, it takes smaller steps."""

_PLAIN = HeadSettings(head="gcn", n_hidden=64, patience=30)
"""Many labels need no losses on predictions, and fill a wider network."""

_LINEAR = HeadSettings(
    head="linear",
    dropout=0.2,
    n_steps=4,
    n_views=2,
    consistency_weight=1.0,
    consistency_temperature=0.1,
    learning_rate=0.01,
    weight_decay=1e-2,
    n_epochs=1000,
    patience=300,
    batch_labels=5,
    batch_nodes=100,
    max_gradient=0.1,
)
"""Small steps, which visit many solutions: good where features are dense."""

_HOPS = HeadSettings(
    head="hops",
    n_hidden=64,
    n_steps=5,
    ramp_epochs=20,
    n_epochs=300,
    patience=50,
    batch_labels=1024,
    pool_size=2000,
)
"""A node and its neighbourhood apart: good where neighbours differ, or labels are many."""

_FAR = HeadSettings(
    head="linear",
    powers="last",
    dropout=0.5,
    n_steps=2,
    ramp_epochs=20,
    learning_rate=0.01,
    weight_decay=1e-2,
    n_epochs=200,
    patience=50,
    batch_labels=1024,
)
"""Neighbours of neighbours alone, and no loss on predictions: good where features are weak."""

_COMPETITORS = (_LINEAR, _HOPS, dataclasses.replace(_HOPS, n_steps=0), _FAR)
_UNWATCHED_EPOCHS = {"linear": 300, "hops": 100}
"""Where no validation node can end a training."""

_ROW_HEADS = {"linear": _LINEAR, "hops": _HOPS}

_SMALL = HeadSettings(head="gcn", smoothness_weight=2.0, n_epochs=400)
_CAUTION: tuple[dict[str, Any], ...] = ({"gate": 0.5, "n_steps": 8}, {"gate": 0.7, "n_steps": 8})
"""With few labels, predictions are believed later, and labels must reach further."""


def _cautious(head: HeadSettings) -> tuple[HeadSettings, ...]:
    return tuple(dataclasses.replace(head, **changes) for changes in _CAUTION)


_DEFAULT = FitSettings(
    preset="default",
    graph=GraphSettings(
        weights=Weights(smoothness=0.3, closeness=1.0),
        trusted_closeness=10.0,
        dial=(1.0, 0.3, 0.1, 0.03),
        metric="learned",
        n_rounds=3,
    ),
    no_graph=dataclasses.replace(
        _WITHOUT_PRIOR,
        signals=("l2", "idf"),
        metric="learned",
        prediction_weight=0.5,
        n_rounds=3,
    ),
    head=_PROPAGATION,
    cautious=_cautious(_PROPAGATION),
    unwatched=(_UNWATCHED, *_cautious(_UNWATCHED)),
    plain=_PLAIN,
    competitors=_COMPETITORS,
    unwatched_competitors=tuple(
        dataclasses.replace(rival, n_epochs=min(rival.n_epochs, _UNWATCHED_EPOCHS[rival.head]))
        for rival in _COMPETITORS
    ),
    trims=True,
    doubts_graph=True,
    seeks_structure=True,
)
_PAPER = FitSettings(
    preset="paper",
    graph=GraphSettings(weights=Weights.paper(1.0), signal="idf", task_weight=1.0, n_rounds=3),
    no_graph=dataclasses.replace(_WITHOUT_PRIOR, signal="idf", task_weight=1.0),
    head=HeadSettings(),
)
_LITERAL = FitSettings(
    preset="literal",
    graph=GraphSettings(weights=Weights.paper(0.01), prior="binary", reading="frobenius"),
    no_graph=GraphSettings(weights=Weights.paper(0.01), reading="frobenius"),
    head=HeadSettings(),
)

PRESETS = {"default": _DEFAULT, "paper": _PAPER, "literal": _LITERAL}
"""``default``: the best recipe we measured. ``paper``: the paper's terms, weights and network,
solved exactly. ``literal``: the paper's optimiser as printed, for the record."""


def resolve_settings(
    preset: str, head: str | None = None, changes: dict[str, Any] | None = None
) -> FitSettings:
    """Return a preset with another head, or with some of its settings changed by name.

    Examples
    --------
    >>> resolve_settings("paper", changes={"n_epochs": 50}).head.n_epochs
    50
    """
    settings = PRESETS[check_choice("preset", preset, PRESETS)]
    if head is not None:
        settings = _with_head(settings, head)
    known = [*field_names(GraphSettings), *field_names(HeadSettings)]
    known += ["scaling", "doubts_graph", "competes", "selection"]
    # weights first: a wanted number of neighbours that is given beside them has the last word
    for name, value in sorted((changes or {}).items(), key=lambda item: item[0] != "weights"):
        if name not in known:
            raise InputError(f"{name!r} is not a setting of a fit.{did_you_mean(name, known)}")
        settings = settings.changed(name, value)
    return settings


def _with_head(settings: FitSettings, name: str) -> FitSettings:
    check_choice("head", name, HEADS)
    if name == settings.head.head:
        return settings.alone()  # whoever names a head wants that one
    if settings.is_literal:
        raise InputError("head must be 'gcn' in the preset 'literal', which has the paper's only.")
    if name in _ROW_HEADS:
        return settings.with_head(_ROW_HEADS[name])
    if settings.preset == "default" and name == _SMALL.head:
        return dataclasses.replace(settings.with_head(_SMALL), cautious=_cautious(_SMALL))
    if settings.preset == "default":
        raise InputError(f"the preset 'default' has no settings for the head {name!r}, got it.")
    head = dataclasses.replace(settings.head, head=cast(Head, name))
    return dataclasses.replace(settings, head=head)
