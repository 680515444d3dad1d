"""Settings of a fit: the graph step, the classifier step, their rounds, and the presets."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from glnn._utils import check_choice, check_integer, check_number, did_you_mean
from glnn.engine.inputs import SCALINGS, ScalingName
from glnn.exceptions import InputError
from glnn.graph.prior import PRIORS, PriorKind
from glnn.nn.row_heads import Powers
from glnn.objective import READINGS, Reading, Weights
from glnn.solver import SUPPORTS, Support
from glnn.solver.signals import SignalKind

Preset = Literal["default", "paper", "literal"]
Head = Literal["gcn", "propagation", "linear", "hops"]
Metric = Literal["fixed", "learned"]
FirstGraph = Literal["prior", "features"]
Signal = Literal[SignalKind, "structure"]
Selection = Literal["auto", "schedule", "folds"]
ROW_HEADS = ("linear", "hops")
HEADS, METRIC_KINDS, FIRST_GRAPHS = get_args(Head), get_args(Metric), get_args(FirstGraph)
SIGNALS, SELECTIONS, POWERS = get_args(Signal), get_args(Selection), get_args(Powers)
CHOICES: dict[str, Iterable[str]] = {
    "reading": READINGS,
    "signal": SIGNALS,
    "prior": PRIORS,
    "support": SUPPORTS,
    "metric": METRIC_KINDS,
    "first_graph": FIRST_GRAPHS,
    "head": HEADS,
    "powers": POWERS,
    "scaling": SCALINGS,
    "selection": SELECTIONS,
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
    # tried in the first round, chosen by the validation loss; only with validation nodes and bags
    # of words
    signals: tuple[Signal, ...] = ()
    prior: PriorKind = "renormalized"
    support: Support = "candidates"
    n_candidates: int = 20
    n_neighbors: int | None = None
    prediction_weight: float = 3.0  # of the predictions among the signals, from the second round on
    task_weight: float = 0.0  # of the gradient of the classification loss, from the second round on
    # closeness where a probe shows that the given graph predicts the labels clearly better than
    # the features; ``None``: that of ``weights``
    trusted_closeness: float | None = None
    # lower closeness weights to try in the second round, one by one while validation clearly
    # improves; skipped where the given graph is by far the better source
    dial: tuple[float, ...] = ()
    # ``learned``: columns are weighted by how well they separate the classes, from the second
    # round on
    metric: Metric = "fixed"
    n_rounds: int = 2  # number of graph steps, each with a classifier step
    # of the first classifier with a given graph: ``prior``, the given graph; ``features``, a
    # graph learned from features
    first_graph: FirstGraph = "prior"

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Weights):
            raise InputError(f"weights must be glnn.Weights, got {type(self.weights).__name__}.")
        _check_choices(self, "reading", "prior", "support", "metric", "first_graph")
        for signal in (self.signal, *self.signals):
            check_choice("signal", signal, SIGNALS)
        check_integer("n_candidates", self.n_candidates, low=1)
        check_integer("n_rounds", self.n_rounds, low=1)
        if self.n_neighbors is not None:
            check_number("n_neighbors", self.n_neighbors, low=0, open_low=True)
        check_number("prediction_weight", self.prediction_weight, low=0)
        check_number("task_weight", self.task_weight, low=0)
        for closeness in self.dial:
            check_number("dial", closeness, low=0, open_low=True)
        if self.trusted_closeness is not None:
            check_number("trusted_closeness", self.trusted_closeness, low=0, open_low=True)


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """Settings of the classifier step: the network, its losses and its optimiser.

    Heads: ``gcn`` is the paper's network. ``propagation`` is a perceptron on features propagated
    over the graph, with random views. ``linear`` is one layer on propagated features. ``hops`` is a
    perceptron on a node's features and those of each hop, side by side. The last two train on
    mini-batches of rows.
    """

    head: Head = "gcn"
    n_hidden: int = 16  # hidden units
    dropout: float = 0.5
    drop_node: float = 0.0  # ``propagation``: share of nodes dropped in a view
    n_steps: int = 2  # propagation steps over the graph
    teleport: float = 0.0  # ``propagation``: teleport probability of PageRank; 0: mean of powers
    # ``linear``: ``mean`` of the powers of the graph up to ``n_steps``, or the ``last`` one
    powers: Powers = "mean"
    n_views: int = 1  # views per epoch
    consistency_weight: float = 0.0  # agreement of the views
    consistency_temperature: float = 0.5  # sharpens its target
    smoothness_weight: float = 0.0  # graph Laplacian regulariser on the predictions
    smoothness_temperature: float = 0.3  # sharpens its target
    # how far above chance, on the way to certainty, a prediction must be to count in these two
    # losses; ``None``: a default by the number of classes
    gate: float | None = None
    ramp_epochs: int = 100  # over which these two losses grow to their full weight
    learning_rate: float = 0.01
    weight_decay: float = 5e-4  # on the first layer; for row heads on all parameters
    n_epochs: int = 200
    # epochs without a lower validation loss, counted from the end of the ramp, after which
    # training stops; ``None``: never
    patience: int | None = None
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

    def __post_init__(self) -> None:
        _check_choices(self, "head", "powers")
        for name in ("n_hidden", "n_views", "ramp_epochs", "n_epochs"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("n_steps", self.n_steps, low=0)
        for name in ("patience", "batch_labels"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=1)
        for name in ("batch_nodes", "pool_size"):
            check_integer(name, getattr(self, name), low=0)
        for name in ("dropout", "drop_node", "teleport"):
            check_number(name, getattr(self, name), low=0, high=0.99)
        if self.gate is not None:
            check_number("gate", self.gate, low=0, high=0.99)
        if self.max_gradient is not None:
            check_number("max_gradient", self.max_gradient, low=0, open_low=True)
        for name in ("consistency_weight", "smoothness_weight", "weight_decay"):
            check_number(name, getattr(self, name), low=0)
        for name in ("consistency_temperature", "smoothness_temperature", "learning_rate"):
            check_number(name, getattr(self, name), low=0, open_low=True)


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Settings of a whole fit."""

    preset: Preset
    graph: GraphSettings  # the graph step with a given graph
    no_graph: GraphSettings  # the graph step without a given graph
    head: HeadSettings  # the classifier step
    # heads for few labels, the most cautious last; with validation nodes the best is kept,
    # otherwise the last one is used
    cautious: tuple[HeadSettings, ...] = ()
    # ``head`` and ``cautious`` for fits without validation nodes; empty: the same heads
    unwatched: tuple[HeadSettings, ...] = ()
    # head compared with ``head`` on the validation nodes where labels are many; ``None``: none
    plain: HeadSettings | None = None
    # row heads compared with ``head`` in the first round, on validation nodes or hidden labels
    competitors: tuple[HeadSettings, ...] = ()
    # ``competitors`` for hidden labels, where no validation node stops a training
    unwatched_competitors: tuple[HeadSettings, ...] = ()
    # after a fit: heads whose predictions are averaged with those of ``head``
    partners: tuple[HeadSettings, ...] = ()
    scaling: ScalingName = "auto"  # of the features, see :class:`glnn.engine.inputs.Scaling`
    trims: bool = False  # whether the scaling ``auto`` may choose ``trimmed``
    doubts_graph: bool = False  # whether probes decide how closely to follow a given graph
    # whether to use the signal ``structure`` where features carry no information and a graph is
    # given
    seeks_structure: bool = False
    # without validation nodes: ``schedule``, the number of labels decides the head; ``folds``,
    # heads are compared on labels hidden in turn (:mod:`glnn.engine.selection`); ``auto``,
    # ``folds`` where a graph is given and labels are not few
    selection: Selection = "auto"

    def __post_init__(self) -> None:
        _check_choices(self, "scaling", "selection")

    @property
    def members(self) -> tuple[HeadSettings, ...]:
        """All heads whose predictions are averaged."""
        return (self.head, *self.partners)

    @property
    def is_literal(self) -> bool:
        """Whether graph and network are trained together, as printed in the paper."""
        return self.preset == "literal"

    def heads(self, has_validation: bool) -> tuple[HeadSettings, ...]:
        """Return the head and its cautious variants for fits with or without validation nodes."""
        if self.unwatched and not has_validation:
            return self.unwatched
        return (self.head, *self.cautious)

    def competing_heads(self, has_validation: bool) -> tuple[HeadSettings, ...]:
        """Return the competitors for fits with or without validation nodes."""
        return self.competitors if has_validation else self.unwatched_competitors

    def without_competitors(self) -> "FitSettings":
        """Return the settings without competitors."""
        return dataclasses.replace(self, competitors=(), unwatched_competitors=())

    def with_head(self, head: HeadSettings) -> "FitSettings":
        """Return the settings with another head and no competitors."""
        return dataclasses.replace(
            self.without_competitors(), head=head, cautious=(), unwatched=(), plain=None
        )

    def graph_settings(self, has_graph: bool) -> GraphSettings:
        """Return the graph step's settings for data with or without a given graph."""
        return self.graph if has_graph else self.no_graph

    def replace_setting(self, name: str, value: Any) -> "FitSettings":
        """Return the settings with one value replaced, in whichever part it belongs to.

        Setting ``weights`` also resets the settings that would override them, such as
        ``n_neighbors``.
        """
        if name in ("doubts_graph", "competes") and not isinstance(value, bool):
            raise InputError(f"{name} must be True or False, got {value!r}.")
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        if name == "competes":
            return self if value else self.without_competitors()
        if name in ("scaling", "doubts_graph", "selection"):
            return dataclasses.replace(self, **{name: value})
        if name in field_names(HeadSettings):
            head = dataclasses.replace(self.head, **{name: value})
            cautious, unwatched = (
                tuple(dataclasses.replace(h, **{name: value}) for h in heads)
                for heads in (self.cautious, self.unwatched)
            )
            plain = self.plain and dataclasses.replace(self.plain, **{name: value})
            rivals = (self.competitors, self.unwatched_competitors)
            if (
                name == "n_epochs"
            ):  # an upper limit for all heads; other settings apply to the head only
                rivals = (_limit_epochs(rivals[0], value), _limit_epochs(rivals[1], value))
            return dataclasses.replace(
                self,
                head=head,
                cautious=cautious,
                unwatched=unwatched,
                plain=plain,
                competitors=rivals[0],
                unwatched_competitors=rivals[1],
            )
        changes = {name: value}
        seeks = self.seeks_structure and name != "signal"
        if name == "weights":
            changes |= {"n_neighbors": None, "trusted_closeness": None, "dial": ()}
        if name == "signal":
            changes["signals"] = ()
        return dataclasses.replace(
            self,
            graph=dataclasses.replace(self.graph, **changes),
            no_graph=dataclasses.replace(self.no_graph, **changes),
            seeks_structure=seeks,
        )


def _check_choices(settings: Any, *names: str) -> None:
    for name in names:
        check_choice(name, getattr(settings, name), CHOICES[name])


def _limit_epochs(heads: tuple[HeadSettings, ...], n_epochs: int) -> tuple[HeadSettings, ...]:
    return tuple(dataclasses.replace(h, n_epochs=min(h.n_epochs, n_epochs)) for h in heads)


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
    ramp_epochs=50,
    learning_rate=0.05,
    weight_decay=1e-3,
    n_epochs=200,
    patience=30,
)
# Smaller steps, because no validation node stops the training.
_UNWATCHED = dataclasses.replace(
    _PROPAGATION, ramp_epochs=100, learning_rate=0.02, weight_decay=5e-4, n_epochs=300
)

# For many labels: a wider network, no losses on predictions.
_PLAIN = HeadSettings(head="gcn", n_hidden=64, patience=30)

# Small steps; good for dense features.
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

# Hops side by side; good where neighbours differ in class, or labels are many.
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

# Second power of the graph only, no loss on predictions; good for weak features.
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

_COMPETITORS = (_LINEAR, _HOPS, dataclasses.replace(_HOPS, n_steps=0), _FAR)
_UNWATCHED_EPOCHS = {"linear": 300, "hops": 100}  # without validation nodes

_ROW_HEADS = {"linear": _LINEAR, "hops": _HOPS}

_SMALL = HeadSettings(head="gcn", smoothness_weight=2.0, n_epochs=400)
# With few labels: a higher gate on predictions, and more propagation steps.
_CAUTION: tuple[dict[str, Any], ...] = ({"gate": 0.5, "n_steps": 8}, {"gate": 0.7, "n_steps": 8})


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

# ``default``: the best settings we measured. ``paper``: the paper's terms, weights and network,
# with the graph problem solved exactly. ``literal``: the paper's optimiser as printed.
PRESETS = {"default": _DEFAULT, "paper": _PAPER, "literal": _LITERAL}


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
    # weights first, because they reset n_neighbors, which may be given too
    for name, value in sorted((changes or {}).items(), key=lambda item: item[0] != "weights"):
        if name not in known:
            raise InputError(f"{name!r} is not a setting of a fit.{did_you_mean(name, known)}")
        settings = settings.replace_setting(name, value)
    return settings


def _with_head(settings: FitSettings, name: str) -> FitSettings:
    check_choice("head", name, HEADS)
    if name == settings.head.head:
        return settings.without_competitors()  # a head chosen by name has no competitors
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
