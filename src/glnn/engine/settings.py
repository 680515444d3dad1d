"""Everything a fit can be told: the graph step, the classifier step, and their turns."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from glnn._validation import check_choice, check_integer, check_number
from glnn.engine.scaling import SCALINGS, ScalingName
from glnn.exceptions import InputError
from glnn.graph.prior import PRIORS, PriorKind
from glnn.nn.linear import Powers
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
        (:mod:`glnn.graph.structure`), and rows have length one.
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
        :class:`glnn.engine.scaling.Scaling`.
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
