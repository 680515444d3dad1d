"""Everything a fit can be told: the graph step, the classifier step, and their turns."""

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

# --- settings: Everything a fit can be told: the graph step, the classifier step, and their turns

Preset = Literal["default", "paper", "literal"]
Head = Literal["gcn", "propagation", "linear", "hops"]
Metric = Literal["fixed", "learned"]
FirstGraph = Literal["prior", "features"]
Signal = Literal[SignalKind, "structure"]
Selection = Literal["auto", "schedule", "folds"]
ROW_HEADS = ("linear", "hops")
HEADS, METRICS, FIRST_GRAPHS = get_args(Head), get_args(Metric), get_args(FirstGraph)
SIGNALS, SELECTIONS, POWERS = get_args(Signal), get_args(Selection), get_args(Powers)
CHOICES: dict[str, Iterable[str]] = {
    "reading": READINGS,
    "signal": SIGNALS,
    "prior": PRIORS,
    "support": SUPPORTS,
    "metric": METRICS,
    "first_graph": FIRST_GRAPHS,
    "head": HEADS,
    "powers": POWERS,
    "scaling": SCALINGS,
    "selection": SELECTIONS,
}
"""What each setting that is a choice may be."""


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """The graph step: which problem is solved, on which signals and pairs, how often.

    Parameters
    ----------
    weights, reading, prior, support, n_candidates, n_neighbors
        As in :func:`glnn.learn_graph`.
    signal
        Likewise; or ``structure``: the smooth part of the given graph joins the features
        (:mod:`glnn.graph.operators`), and rows have length one.
    signals
        Signals to choose between in the first round, by the validation loss; needs validation
        nodes and features that are bags of words, otherwise ``signal`` is taken.
    prediction_weight
        How much predictions count among the signals from the second round on.
    task_weight
        How much the gradient of the classification loss counts from the second round on.
    dial
        Lower weights of closeness to try in the second round, one after the other while validation
        nodes like the next one clearly better; only where the given graph is not by far the better
        source.
    trusted_closeness
        Weight of closeness where a probe shows that the given graph serves the labels clearly
        better than features alone; ``None``: that of ``weights`` in any case.
    metric
        ``learned``: from the second round on, columns count by what they say about the classes.
    n_rounds
        Number of graph steps, each with its classifier step.
    first_graph
        With a given graph: ``prior``, the first classifier sees it as it is; ``features``, the
        graph learned from features alone.
    """

    weights: Weights = field(default_factory=Weights)
    reading: Reading = "trace"
    signal: Signal = "l2"
    signals: tuple[Signal, ...] = ()
    prior: PriorKind = "renormalized"
    support: Support = "candidates"
    n_candidates: int = 20
    n_neighbors: int | None = None
    prediction_weight: float = 3.0
    task_weight: float = 0.0
    trusted_closeness: float | None = None
    dial: tuple[float, ...] = ()
    metric: Metric = "fixed"
    n_rounds: int = 2
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
    """The classifier step: the network, its losses and its optimiser.

    Parameters
    ----------
    head, n_hidden, dropout
        The network, its hidden units and the share of entries that are dropped in training:
        ``gcn``, the paper's; ``propagation``, a perceptron on features that were spread over the
        graph, with random views; ``linear``, one layer on spread features; ``hops``, a perceptron
        on a node and each ring of its neighbourhood side by side. The last two train on rows.
    drop_node, n_steps, teleport, n_views
        Of the head ``propagation``: share of nodes silenced in a view, steps over the graph,
        PageRank's teleport (0: mean of powers), views an epoch.
    powers
        Of the head ``linear``: the ``mean`` of the graph's powers up to ``n_steps``, or the
        ``last`` one.
    consistency_weight, consistency_temperature
        Agreement of views, and how much its target is sharpened.
    smoothness_weight, smoothness_temperature
        Graph Laplacian regulariser on the predictions, likewise.
    gate
        How far above chance a prediction must be to take part in these two losses, as a share of
        the way to certainty; ``None``: as far as :func:`glnn.nn.losses.natural_gate` says.
    ramp_epochs
        Epochs over which these two losses grow to their weight.
    learning_rate, weight_decay, n_epochs
        Adam; decay on the first layer alone.
    patience
        With validation nodes: epochs without a lower validation loss, counted from the end of the
        ramp, that end a training; ``None``: never.
    batch_labels, batch_nodes, pool_size
        Of the heads ``linear`` and ``hops``, which train on rows: how many labelled rows a step
        takes (``None``: all), how many others, and how many others there are at most, from which
        they are drawn and by which columns are scaled.
    max_gradient
        Of the same: longer gradients are cut to this length; ``None``: none are.
    """

    head: Head = "gcn"
    n_hidden: int = 16
    dropout: float = 0.5
    drop_node: float = 0.0
    n_steps: int = 2
    teleport: float = 0.0
    powers: Powers = "mean"
    n_views: int = 1
    consistency_weight: float = 0.0
    consistency_temperature: float = 0.5
    smoothness_weight: float = 0.0
    smoothness_temperature: float = 0.3
    gate: float | None = None
    ramp_epochs: int = 100
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    n_epochs: int = 200
    patience: int | None = None
    batch_labels: int | None = None
    batch_nodes: int = 0
    pool_size: int = 20_000
    max_gradient: float | None = None

    @property
    def is_on_rows(self) -> bool:
        """Whether the head trains on rows that were spread over the graph before."""
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
    """A whole fit.

    Parameters
    ----------
    preset
        Its name.
    graph, no_graph
        The graph step with a given graph and without.
    head
        The classifier step.
    cautious
        Classifier steps for few labels, the most cautious last. With validation nodes they are
        tried in the first round and the best is kept; without, the last one is taken.
    unwatched
        The same heads for fits without validation nodes: ``head`` first, then ``cautious``.
        Empty: those with validation nodes.
    plain
        A classifier step that is tried against ``head`` on the validation nodes where labels are
        many; ``None``: nothing is tried.
    competitors
        Heads on rows that compete with ``head`` in the first round, where validation nodes or
        hidden labels can judge.
    unwatched_competitors
        The same where hidden labels judge, as no validation node ends a training there.
    partners
        Of a fit that is done: the heads that answer together with ``head``.
    scaling, trims
        How features are scaled, and whether by itself it trims columns of their own units; see
        :class:`glnn.engine.inputs.Scaling`.
    doubts_graph
        Whether probes decide how far a given graph is trusted, on validation nodes or on each
        labelled node when it is left out.
    selection
        Without validation nodes: ``schedule``, the number of labels says which head is taken;
        ``folds``, labels that are hidden in turn let it compete
        (:mod:`glnn.engine.selection`); ``auto``, the latter where a graph is given and labels
        are not few.
    seeks_structure
        Whether the signal is ``structure`` where features say nothing and a graph is given.
    """

    preset: Preset
    graph: GraphSettings
    no_graph: GraphSettings
    head: HeadSettings
    cautious: tuple[HeadSettings, ...] = ()
    unwatched: tuple[HeadSettings, ...] = ()
    plain: HeadSettings | None = None
    competitors: tuple[HeadSettings, ...] = ()
    unwatched_competitors: tuple[HeadSettings, ...] = ()
    partners: tuple[HeadSettings, ...] = ()
    scaling: ScalingName = "auto"
    trims: bool = False
    doubts_graph: bool = False
    seeks_structure: bool = False
    selection: Selection = "auto"

    def __post_init__(self) -> None:
        _check_choices(self, "scaling", "selection")

    @property
    def members(self) -> tuple[HeadSettings, ...]:
        """The heads that answer together."""
        return (self.head, *self.partners)

    @property
    def is_literal(self) -> bool:
        """Whether the paper's dense optimiser is used instead of rounds."""
        return self.preset == "literal"

    def heads(self, has_validation: bool) -> tuple[HeadSettings, ...]:
        """Return the head and its cautious forms for fits with or without validation nodes."""
        if self.unwatched and not has_validation:
            return self.unwatched
        return (self.head, *self.cautious)

    def rivals(self, has_validation: bool) -> tuple[HeadSettings, ...]:
        """Return the competitors for fits with or without validation nodes."""
        return self.competitors if has_validation else self.unwatched_competitors

    def alone(self) -> "FitSettings":
        """Return the settings without competitors."""
        return dataclasses.replace(self, competitors=(), unwatched_competitors=())

    def with_head(self, head: HeadSettings) -> "FitSettings":
        """Return the settings with another head, which competes with none."""
        return dataclasses.replace(self.alone(), head=head, cautious=(), unwatched=(), plain=None)

    def graph_settings(self, has_graph: bool) -> GraphSettings:
        """Return the graph step's settings for data with or without a given graph."""
        return self.graph if has_graph else self.no_graph

    def changed(self, name: str, value: Any) -> "FitSettings":
        """Return the settings with one of them changed, wherever it lives.

        Weights that are given leave no wanted number of neighbours beside them.
        """
        if name in ("doubts_graph", "competes") and not isinstance(value, bool):
            raise InputError(f"{name} must be True or False, got {value!r}.")
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        if name == "competes":
            return self if value else self.alone()
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
            if name == "n_epochs":  # no training is longer; all else is said of the head alone
                rivals = (_shortened(rivals[0], value), _shortened(rivals[1], value))
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


def _shortened(heads: tuple[HeadSettings, ...], n_epochs: int) -> tuple[HeadSettings, ...]:
    return tuple(dataclasses.replace(h, n_epochs=min(h.n_epochs, n_epochs)) for h in heads)


def field_names(settings: type[GraphSettings] | type[HeadSettings]) -> list[str]:
    """Return the names of a part's settings."""
    return [f.name for f in dataclasses.fields(settings)]


# --- presets: The presets by name, and how a user's own settings change them

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
