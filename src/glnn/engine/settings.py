"""Settings of a fit: the graph step, the classifier step, their rounds, and the presets."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np

from glnn._utils import check_choice, check_integer, check_number, did_you_mean
from glnn.engine.inputs import SCALINGS, ScalingName
from glnn.exceptions import InputError
from glnn.graph.prior import PRIORS, PriorKind
from glnn.nn.features import NetworkSettings
from glnn.objective import READINGS, Reading, Weights
from glnn.solver import SUPPORTS, Support
from glnn.solver.signals import SignalKind

Preset = Literal["default", "paper", "literal"]
Head = Literal["gcn", "propagation", "linear", "hops"]
Metric = Literal["fixed", "learned"]
Signal = Literal[SignalKind, "structure"]
ROW_HEADS = ("linear", "hops")
HEADS, METRIC_KINDS = get_args(Head), get_args(Metric)
SIGNALS = get_args(Signal)
CHOICES: dict[str, Iterable[str]] = {
    "reading": READINGS,
    "signal": SIGNALS,
    "prior": PRIORS,
    "support": SUPPORTS,
    "metric": METRIC_KINDS,
    "head": HEADS,
    "scaling": SCALINGS,
}  # allowed values by the name of the setting


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """Settings of the graph step: the problem, its signals and candidate pairs, and the rounds.

    ``weights``, ``reading``, ``prior``, ``support``, ``n_candidates`` and ``n_neighbors`` are those
    of :func:`glnn.learn_graph`.
    """

    weights: Weights = field(default_factory=Weights)
    reading: Reading = "trace"
    # as in :func:`glnn.learn_graph`; or ``structure``: spectral features of the given graph are
    # appended to the features, and rows are scaled to length one
    signal: Signal = "l2"
    prior: PriorKind = "renormalized"
    support: Support = "candidates"
    n_candidates: int = 20
    n_neighbors: int | None = None
    prediction_weight: float = 3.0  # of the predictions among the signals, from the second round on
    task_weight: float = 0.0  # of the gradient of the classification loss, from the second round on
    # ``learned``: columns are weighted by how well they separate the classes, from the second
    # round on
    metric: Metric = "fixed"
    n_rounds: int = 2  # number of graph steps, each with a classifier step

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Weights):
            raise InputError(f"weights must be glnn.Weights, got {type(self.weights).__name__}.")
        _check_settings(self)


@dataclass(frozen=True, kw_only=True)
class HeadSettings(NetworkSettings):
    """Settings of the classifier step: the network, its losses and its optimiser.

    Heads: ``gcn`` is the paper's network. ``propagation`` is a perceptron on features propagated
    over the graph, with random views. ``linear`` is one layer on propagated features. ``hops`` is a
    perceptron on a node's features and those of each hop, side by side. The last two train on
    mini-batches of rows.
    """

    head: Head = "gcn"
    n_views: int = 1  # views per epoch
    consistency_weight: float = 0.0  # agreement of the views
    consistency_temperature: float = 0.5  # sharpens its target
    smoothness_weight: float = 0.0  # graph Laplacian regulariser on the predictions
    smoothness_temperature: float = 0.3  # sharpens its target
    # how far above chance, on the way to certainty, a prediction must be to count in these two
    # losses; ``None``: a default by the number of classes
    gate: float | None = None
    # labels a class from which on the targets of these two losses are no longer aligned with the
    # shares of the known labels; 0: they never are
    alignment: float = 0.0
    ramp_epochs: int = 100  # over which these two losses grow to their full weight
    learning_rate: float = 0.01
    weight_decay: float = 5e-4  # on the first layer; for row heads on all parameters
    n_epochs: int = 200
    # epochs without a lower validation loss, counted from the end of the ramp, after which
    # training stops; ``None``: never
    patience: int | None = None
    # without validation nodes: share of the epochs, the last ones, over which the parameters are
    # averaged; 0: those of the last epoch
    averaged_share: float = 0.0
    batch_labels: int | None = None  # row heads: labelled rows per step; ``None``: all
    batch_nodes: int = 0  # row heads: other rows per step
    # row heads: most other rows to draw from; columns are standardised on the pool
    pool_size: int = 20_000
    # row heads: gradients are clipped to this norm; ``None``: no clipping
    max_gradient: float | None = None

    @property
    def is_on_rows(self) -> bool:
        """Whether the head trains on rows of features propagated beforehand."""
        return self.head in ROW_HEADS

    @property
    def uses_labels_alone(self) -> bool:
        """Whether the cross-entropy of the labelled nodes is the only loss."""
        return self.consistency_weight == 0 and self.smoothness_weight == 0

    def __post_init__(self) -> None:
        _check_settings(self)


@dataclass(frozen=True, kw_only=True)
class Track:
    """One way to classify: a source of the graph, a head, and the rounds of both steps."""

    name: str
    head: HeadSettings
    graph: GraphSettings  # its rounds are taken unless the head is on rows
    sees_graph: bool = True  # whether the given graph takes part
    # whether it sees nothing but leading eigenvectors of the given graph; takes part where the
    # signal is ``structure``
    is_spectral: bool = False

    @property
    def learns(self) -> bool:
        """Whether it learns a graph; heads on rows see the given one as it is."""
        return not self.head.is_on_rows


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """A whole fit: tracks whose predictions are mixed."""

    preset: Preset
    tracks: tuple[Track, ...]  # with a given graph
    no_graph: tuple[Track, ...]  # without one
    scaling: ScalingName = "auto"  # of the features
    trims: bool = False  # whether "auto" trims columns of their own units
    seeks_structure: bool = False  # signal "structure" where features say nothing
    # with validation nodes: prior variance of the correction of the classes; 0: none is made
    correction: float = 0.0

    def __post_init__(self) -> None:
        check_choice("scaling", self.scaling, SCALINGS)

    @property
    def is_literal(self) -> bool:
        """Whether the paper's dense optimiser is used instead of rounds."""
        return self.preset == "literal"

    @property
    def head(self) -> HeadSettings:
        """The head of the first track."""
        return (self.tracks or self.no_graph)[0].head

    @property
    def graph(self) -> GraphSettings:
        """The graph step of the first track."""
        return (self.tracks or self.no_graph)[0].graph

    def tracks_for(self, has_graph: bool) -> tuple[Track, ...]:
        """Return the tracks for data with or without a given graph."""
        tracks = tuple(
            track
            for track in (self.tracks if has_graph else self.no_graph)
            if not track.is_spectral or track.graph.signal == "structure"
        )
        if not tracks:
            names = ", ".join(repr(track.name) for track in (*self.tracks, *self.no_graph))
            word = "with" if has_graph else "without"
            raise InputError(f"tracks must have one for data {word} a graph, got {names} alone.")
        return tracks

    def count_epochs(self, has_graph: bool) -> int:
        """Return the most epochs that one training can take."""
        n_epochs = 0
        for track in self.tracks_for(has_graph):
            has_rounds = track.learns and not self.is_literal
            n_epochs += track.head.n_epochs * (track.graph.n_rounds if has_rounds else 1)
        return n_epochs

    def map_tracks(self, change: Callable[[Track], Track]) -> "FitSettings":
        """Return the settings with every track changed."""
        tracks, no_graph = tuple(map(change, self.tracks)), tuple(map(change, self.no_graph))
        return dataclasses.replace(self, tracks=tracks, no_graph=no_graph)

    def select(self, names: Sequence[str]) -> "FitSettings":
        """Return the settings with some of the tracks alone."""
        known = list(dict.fromkeys(track.name for track in (*self.tracks, *self.no_graph)))
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, Sequence) or not names:
            raise InputError(f"tracks must be a list of names, got {names!r}.")
        for name in names:
            check_choice("tracks", name, known)
        tracks = tuple(track for track in self.tracks if track.name in names)
        no_graph = tuple(track for track in self.no_graph if track.name in names)
        return dataclasses.replace(self, tracks=tracks, no_graph=no_graph)

    def replace_setting(self, name: str, value: Any) -> "FitSettings":
        """Return the settings with one of them changed, wherever it is.

        A setting of the network changes the tracks that learn a graph, or all if none does; a
        number of epochs also shortens the others. Given weights replace a target number of
        neighbours; with a given graph they apply to the tracks that see it, or to all if none
        does: most have no ridge, which a graph of features alone needs.
        """
        if name == "head":
            return _with_head(self, value)
        if name == "tracks":
            return self.select(value)
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        if name == "scaling":
            return dataclasses.replace(self, scaling=value)
        if name == "correction":
            return dataclasses.replace(self, correction=check_number(name, value, low=0, high=1e6))
        if name in field_names(HeadSettings):
            learning = any(track.learns for track in (*self.tracks, *self.no_graph))
            return self.map_tracks(
                lambda track: _with_head_setting(track, name, value, is_other=learning)
            )
        changes = {name: value} | ({"n_neighbors": None} if name == "weights" else {})
        seeks = self.seeks_structure and name != "signal"
        changed = dataclasses.replace(self, seeks_structure=seeks).map_tracks(
            lambda track: dataclasses.replace(
                track, graph=dataclasses.replace(track.graph, **changes)
            )
        )
        if name != "weights" or not any(track.sees_graph for track in self.tracks):
            return changed
        pairs = zip(self.tracks, changed.tracks)
        tracks = tuple(new if new.sees_graph else old for old, new in pairs)
        return dataclasses.replace(changed, tracks=tracks)


def _with_head_setting(track: Track, name: str, value: Any, *, is_other: bool) -> Track:
    if is_other and not track.learns:
        if name != "n_epochs":
            return track
        value = min(track.head.n_epochs, check_integer("n_epochs", value, low=1))
    return dataclasses.replace(track, head=dataclasses.replace(track.head, **{name: value}))


_COUNTS = "n_candidates n_rounds n_hidden n_views ramp_epochs n_epochs patience batch_labels"
_WHOLE = dict.fromkeys(_COUNTS.split(), 1) | {"n_steps": 0, "batch_nodes": 0, "pool_size": 0}
_SHARES = ("dropout", "drop_node", "gate", "averaged_share")  # from 0 to 0.99
_TEMPERATURES = ("consistency_temperature", "smoothness_temperature")
_POSITIVE = (*_TEMPERATURES, "n_neighbors", "max_gradient", "learning_rate")


def _check_settings(settings: Any) -> None:
    """Raise InputError for a setting out of its range; ``None`` is allowed where it is declared."""
    for part in dataclasses.fields(settings):
        name, value = part.name, getattr(settings, part.name)
        if value is None and "None" in str(part.type):
            continue
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        elif name in _WHOLE:
            check_integer(name, value, low=_WHOLE[name])
        elif name in _SHARES:
            check_number(name, value, low=0, high=0.99)
        elif name in _POSITIVE:
            check_number(name, value, low=0, open_low=True)
        elif name != "weights":
            check_number(name, value, low=0)


def field_names(settings: type[GraphSettings] | type[HeadSettings]) -> list[str]:
    """Return the names of the fields."""
    return [f.name for f in dataclasses.fields(settings)]


# Presets

_WITHOUT_PRIOR = GraphSettings(weights=Weights.without_prior(), n_neighbors=20, n_candidates=40)

_PROPAGATION = HeadSettings(
    head="propagation",
    n_hidden=32,
    drop_node=0.5,
    n_steps=4,
    n_views=2,
    consistency_weight=1.0,
    smoothness_weight=1.0,
    alignment=20.0,
    ramp_epochs=50,
    learning_rate=0.05,
    weight_decay=1e-3,
    n_epochs=150,
    patience=30,
    averaged_share=0.5,
)

# Small steps; good for dense features.
_LINEAR = HeadSettings(
    head="linear",
    dropout=0.2,
    n_steps=4,
    n_views=2,
    consistency_weight=1.0,
    consistency_temperature=0.1,
    alignment=20.0,
    learning_rate=0.01,
    weight_decay=1e-2,
    n_epochs=1000,
    patience=300,
    averaged_share=0.5,
    batch_labels=20,
    batch_nodes=200,
    max_gradient=0.1,
)

# Hops side by side; good where neighbours differ in class, or labels are many.
_HOPS = HeadSettings(
    head="hops",
    n_hidden=64,
    n_steps=5,
    ramp_epochs=20,
    n_epochs=60,
    patience=50,
    averaged_share=0.5,
    batch_labels=1024,
    pool_size=2000,
)

# On a few eigenvectors of the given graph, where features say nothing.
_SPECTRAL = dataclasses.replace(_LINEAR, n_steps=0)

_SMALL = HeadSettings(head="gcn", smoothness_weight=2.0, n_epochs=400)

_GIVEN = GraphSettings(
    weights=Weights(smoothness=0.3, closeness=10.0), metric="learned", n_rounds=3
)
_ALONE = dataclasses.replace(_WITHOUT_PRIOR, metric="learned", prediction_weight=0.5, n_rounds=1)
_SHORT = dataclasses.replace(_PROPAGATION, n_epochs=100)
_TWICE = dataclasses.replace(_ALONE, n_rounds=2)


_DEFAULT = FitSettings(
    preset="default",
    tracks=(
        Track(name="learned", head=_PROPAGATION, graph=_GIVEN),
        Track(name="features", head=_SHORT, graph=_TWICE, sees_graph=False),
        Track(name="linear", head=_LINEAR, graph=_GIVEN),
        Track(name="hops", head=_HOPS, graph=_GIVEN),
        Track(name="spectral", head=_SPECTRAL, graph=_GIVEN, is_spectral=True),
    ),
    no_graph=(
        Track(name="features", head=_SHORT, graph=_TWICE, sees_graph=False),
        Track(name="linear", head=_LINEAR, graph=_ALONE, sees_graph=False),
        Track(name="hops", head=_HOPS, graph=_ALONE, sees_graph=False),
    ),
    trims=True,
    seeks_structure=True,
    correction=0.25,
)
_PAPER_GRAPH = GraphSettings(weights=Weights(), signal="idf", task_weight=1.0, n_rounds=3)
_PAPER_ALONE = dataclasses.replace(_WITHOUT_PRIOR, signal="idf", task_weight=1.0)
_PAPER = FitSettings(
    preset="paper",
    tracks=(Track(name="learned", head=HeadSettings(), graph=_PAPER_GRAPH),),
    no_graph=(Track(name="features", head=HeadSettings(), graph=_PAPER_ALONE, sees_graph=False),),
)
_LITERAL_GRAPH = GraphSettings(weights=Weights(smoothness=0.01), reading="frobenius")
_LITERAL_GIVEN = dataclasses.replace(_LITERAL_GRAPH, prior="binary")
_LITERAL = FitSettings(
    preset="literal",
    tracks=(Track(name="learned", head=HeadSettings(), graph=_LITERAL_GIVEN),),
    no_graph=(Track(name="features", head=HeadSettings(), graph=_LITERAL_GRAPH, sees_graph=False),),
)


# ``default``: the best settings we measured. ``paper``: the paper's terms, weights and network,
# with the graph problem solved exactly. ``literal``: the paper's optimiser as printed.
PRESETS = {"default": _DEFAULT, "paper": _PAPER, "literal": _LITERAL}


_OF_TRACKS = (*field_names(GraphSettings), *field_names(HeadSettings))
SETTING_NAMES = ("scaling", "correction", "tracks", *_OF_TRACKS)


def check_setting_name(name: str) -> None:
    """Raise InputError for a name that is no setting, with the nearest one."""
    if name not in SETTING_NAMES:
        hint = did_you_mean(name, SETTING_NAMES)
        raise InputError(f"{name!r} is not a setting of a fit.{hint}")


def resolve_settings(
    preset: str | FitSettings, changes: Mapping[str, Any] | None = None
) -> FitSettings:
    """Return a preset, given by its name or as settings, with some settings changed by name.

    A ``head`` leaves one track, which has this head.

    Examples
    --------
    >>> resolve_settings("paper", {"n_epochs": 50}).head.n_epochs
    50
    """
    if isinstance(preset, FitSettings):
        settings = preset
    else:
        settings = PRESETS[check_choice("preset", preset, PRESETS)]
    # which tracks there are comes first; then weights, so that a target number of neighbours
    # given beside them holds
    order = {"head": 0, "tracks": 1, "weights": 2}
    for name, value in sorted((changes or {}).items(), key=lambda item: order.get(item[0], 3)):
        check_setting_name(name)
        plain = value.item() if isinstance(value, np.generic) else value  # of a grid, say
        settings = settings.replace_setting(name, plain)
    return settings


def _with_head(settings: FitSettings, name: str) -> FitSettings:
    """Return the settings with one track alone, which has the named head."""
    check_choice("head", name, HEADS)
    if settings.is_literal and name != settings.head.head:
        raise InputError("head must be 'gcn' in the preset 'literal', which has the paper's only.")
    if name in ROW_HEADS and settings.preset == "default":
        return settings.select([name])
    first = dataclasses.replace(
        settings, tracks=settings.tracks[:1], no_graph=settings.no_graph[:1]
    )
    if name == settings.head.head:
        return first
    heads = {"gcn": _SMALL, "linear": _LINEAR, "hops": _HOPS}
    if settings.preset == "paper" and name not in ROW_HEADS:
        wanted = dataclasses.replace(settings.head, head=cast(Head, name))
    else:
        wanted = heads[name]
    return first.map_tracks(lambda track: dataclasses.replace(track, head=wanted))
