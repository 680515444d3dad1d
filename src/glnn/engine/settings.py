"""Everything a fit can be told, with the presets by name."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from glnn._validation import check_choice, check_integer, check_number, did_you_mean
from glnn.exceptions import InputError
from glnn.graph.prior import PRIORS
from glnn.objective import READINGS, Weights

HEADS = ("gcn", "propagation")
SUPPORTS = ("all", "candidates")
FIRST_GRAPHS = ("prior", "features")


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """The graph step: which problem is solved, on which signals and pairs."""

    weights: Weights = field(default_factory=Weights)
    reading: str = "trace"
    signal: str = "l2"
    prior: str = "renormalized"
    support: str = "candidates"
    n_candidates: int = 20
    n_neighbors: int | None = None
    prediction_weight: float = 3.0
    task_weight: float = 0.0

    def __post_init__(self) -> None:
        check_choice("reading", self.reading, READINGS)
        check_choice("prior", self.prior, PRIORS)
        check_choice("support", self.support, SUPPORTS)
        check_integer("n_candidates", self.n_candidates, low=1)
        if self.n_neighbors is not None:
            check_integer("n_neighbors", self.n_neighbors, low=1)
        check_number("prediction_weight", self.prediction_weight, low=0)
        check_number("task_weight", self.task_weight, low=0)


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """The classifier step: the network, its losses and its optimiser."""

    head: str = "gcn"
    n_hidden: int = 16
    dropout: float = 0.5
    drop_node: float = 0.0
    n_steps: int = 2
    n_views: int = 1
    consistency_weight: float = 0.0
    consistency_temperature: float = 0.5
    smoothness_weight: float = 0.0
    smoothness_temperature: float = 0.3
    gate: float = 2.0
    ramp_epochs: int = 100
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    n_epochs: int = 200

    def __post_init__(self) -> None:
        check_choice("head", self.head, HEADS)
        for name in ("n_hidden", "n_views", "ramp_epochs", "n_epochs"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("n_steps", self.n_steps, low=0)
        for name in ("dropout", "drop_node"):
            check_number(name, getattr(self, name), low=0, high=0.99)
        for name in ("consistency_weight", "smoothness_weight", "gate", "weight_decay"):
            check_number(name, getattr(self, name), low=0)
        for name in ("consistency_temperature", "smoothness_temperature", "learning_rate"):
            check_number(name, getattr(self, name), low=0, open_low=True)


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """A whole fit: the graph step, the classifier step, and how often they take turns."""

    preset: str = "default"
    graph: GraphSettings = field(default_factory=GraphSettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    n_rounds: int = 2
    first_graph: str = "prior"
    scaling: str = "auto"

    def __post_init__(self) -> None:
        check_integer("n_rounds", self.n_rounds, low=1)
        check_choice("first_graph", self.first_graph, FIRST_GRAPHS)

    @property
    def is_literal(self) -> bool:
        """Whether the paper's dense optimiser is used instead of rounds."""
        return self.preset == "literal"


_GCN_DEFAULT = HeadSettings(head="gcn", smoothness_weight=2.0)
_PROPAGATION_DEFAULT = HeadSettings(
    head="propagation",
    n_hidden=32,
    drop_node=0.5,
    n_steps=4,
    n_views=2,
    consistency_weight=1.0,
    smoothness_weight=1.0,
    n_epochs=600,
)
_PAPER_GRAPH = GraphSettings(weights=Weights.paper(1.0), task_weight=1.0)

PRESETS = {
    "default": FitSettings(
        graph=GraphSettings(weights=Weights.paper(0.3)), head=_PROPAGATION_DEFAULT
    ),
    "paper": FitSettings(preset="paper", graph=_PAPER_GRAPH),
    "literal": FitSettings(
        preset="literal",
        graph=GraphSettings(weights=Weights.paper(0.01), prior="binary", reading="frobenius"),
        n_rounds=1,
    ),
}
"""``default``: the best recipe we measured. ``paper``: the paper's terms, weights and network,
solved exactly. ``literal``: the paper's optimiser as printed, for the record."""


_OWN = ("n_rounds", "first_graph", "scaling")


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
    if head is not None and head != settings.head.head:
        settings = dataclasses.replace(settings, head=_other_head(settings, head))
    for name, value in (changes or {}).items():
        settings = _changed(settings, name, value)
    return settings


def _other_head(settings: FitSettings, head: str) -> HeadSettings:
    check_choice("head", head, HEADS)
    if settings.preset == "default":
        return _GCN_DEFAULT if head == "gcn" else _PROPAGATION_DEFAULT
    if settings.is_literal:
        raise InputError("head must be 'gcn' in the preset 'literal', which has the paper's only.")
    return dataclasses.replace(settings.head, head=head)


def _changed(settings: FitSettings, name: str, value: Any) -> FitSettings:
    """Change one setting, wherever it lives."""
    for part in ("graph", "head"):
        if name in _names(getattr(settings, part)):
            changed = dataclasses.replace(getattr(settings, part), **{name: value})
            return dataclasses.replace(settings, **{part: changed})
    if name in _OWN:
        return dataclasses.replace(settings, **{name: value})
    known = [*_names(settings.graph), *_names(settings.head), *_OWN]
    raise InputError(f"{name!r} is not a setting of a fit.{did_you_mean(name, known)}")


def _names(settings: GraphSettings | HeadSettings) -> list[str]:
    return [f.name for f in dataclasses.fields(settings)]
