"""What the report page shows, as plain values: nothing here knows how a fit works."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from glnn.exceptions import InputError

Tone = Literal["good", "caution", "bad"]


@dataclass(frozen=True, eq=False)
class Nodes:
    """One entry a node.

    Parameters
    ----------
    ids
        The nodes' names.
    predicted
        Class numbers of the fit's answer.
    probabilities
        Class probabilities, nodes x classes.
    truth
        The known class, -1 where it is unknown.
    seen
        Whether the fit was given that label.
    judged
        The class predicted without the node's own label: the fold's answer where the label was
        given, the fit's answer where it was hidden; -1 where nothing may be judged.
    suspect
        Whether the given label is doubted.
    places
        Where each node lies on the map; found when it is drawn if they are not given.
    """

    ids: Sequence[str]
    predicted: Int[np.ndarray, "n"]
    probabilities: Float[np.ndarray, "n c"]
    truth: Int[np.ndarray, "n"]
    seen: Bool[np.ndarray, "n"]
    judged: Int[np.ndarray, "n"]
    suspect: Bool[np.ndarray, "n"]
    places: Float[np.ndarray, "n 2"] | None = None

    def __post_init__(self) -> None:
        sizes = {name: len(part) for name, part in vars(self).items() if part is not None}
        if len(set(sizes.values())) != 1:
            raise InputError(f"every field of Nodes must have one entry a node, got {sizes}.")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class LinkTerms:
    """Which terms of the objective made each link; shares of a link sum to its weight.

    Parameters
    ----------
    names
        The terms, in words.
    shares
        Links x terms.
    columns, column_shares
        For each link the feature columns (numbers into ``column_names``) that say most for it,
        and how much of its similarity each explains.
    """

    names: tuple[str, ...]
    shares: Float[np.ndarray, "e t"]
    column_names: tuple[str, ...] = ()
    columns: Int[np.ndarray, "e k"] | None = None
    column_shares: Float[np.ndarray, "e k"] | None = None


@dataclass(frozen=True, eq=False)
class Graphs:
    """The learned graph, the given one, and what made each learned link.

    ``terms`` follows the links of ``learned`` above its diagonal, row by row; ``trust`` is the
    share of each given link's weight that was kept; ``equal_labels`` says how many links join equal
    labels that the fit has not seen, beside what chance gives.
    """

    learned: sp.csr_matrix
    given: sp.csr_matrix | None = None
    terms: LinkTerms | None = None
    trust: sp.csr_matrix | None = None
    equal_labels: str = ""


@dataclass(frozen=True)
class Measure:
    """A number with its interval, where one is known."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Method:
    """A method's accuracy on the same labels, and how far ours is ahead of it."""

    name: str
    accuracy: Measure
    lead: Measure | None = None
    is_own: bool = False


@dataclass(frozen=True)
class ClassQuality:
    """One class: how many of its nodes are found, and how many found ones are right."""

    name: str
    n_judged: int
    precision: Measure
    recall: Measure


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Quality on labels that the fit had not seen.

    Parameters
    ----------
    verdict, tone
        One sentence, and how it is meant.
    basis
        What it was measured on, in words.
    methods
        This fit first, the plain methods after it.
    measures
        Further numbers.
    classes, confusion
        Quality by class; counts of true (rows) against predicted (columns) class.
    reliability
        Bins of confidence: mean confidence, share that is right, count.
    calibration_error
        Mean distance of the two.
    warnings
        What a reader must know, weak classes among it.
    """

    verdict: str
    tone: Tone
    basis: str
    methods: tuple[Method, ...] = ()
    measures: tuple[Measure, ...] = ()
    classes: tuple[ClassQuality, ...] = ()
    confusion: Int[np.ndarray, "c c"] | None = None
    reliability: tuple[tuple[float, float, int], ...] = ()
    calibration_error: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Round:
    """One turn of graph step and classifier step.

    Parameters
    ----------
    name
        Such as ``round 1``.
    graph
        The graph after it.
    terms
        The objective term by term.
    undone
        Whether the fit went back to the state before.
    """

    name: str
    graph: sp.csr_matrix | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    undone: bool = False


@dataclass(frozen=True)
class Curve:
    """One stage of training: columns of numbers, one an epoch."""

    name: str
    columns: Mapping[str, Sequence[float | None]]
    undone: bool = False


@dataclass(frozen=True, eq=False)
class Learning:
    """How the graph was learned.

    ``metric`` has the columns that count most, with their weights; ``certificate`` what is proven,
    in sentences; ``choices`` what the fit decided by itself, in words.
    """

    rounds: tuple[Round, ...] = ()
    curves: tuple[Curve, ...] = ()
    metric: tuple[tuple[str, float], ...] = ()
    certificate: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Reproduce:
    """What someone needs to get the same again; ``changed`` differs from the preset."""

    command: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Search:
    """A search for parameters, trial by trial; the first trial is the preset as it is.

    Parameters
    ----------
    goal
        What was measured on hidden labels.
    values
        It, one number a trial.
    params
        For each parameter its value in every trial, ``None`` where it was the preset's.
    log
        The parameters that were searched on a logarithmic scale.
    is_low_best
        Whether the lowest value is the best.
    verdict
        What the nested estimate says of the whole search, in a sentence.
    """

    goal: str
    values: tuple[float | int, ...]
    params: Mapping[str, tuple[float | int | None, ...]] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    is_low_best: bool = False
    verdict: str = ""

    def best_so_far(self) -> Float[np.ndarray, "t"]:
        """Return the best value up to each trial."""
        best = np.minimum if self.is_low_best else np.maximum
        return np.asarray(best.accumulate(np.asarray(self.values, dtype=float)))

    def drawn(self, name: str) -> list[tuple[float | int, float | int]]:
        """Return a parameter and the goal, for the trials that set it."""
        pairs = zip(self.params[name], self.values)
        return [(part, value) for part, value in pairs if part is not None]


@dataclass(frozen=True, eq=False)
class PageData:
    """All a report page shows; only nodes, graphs and class names are required.

    Parameters
    ----------
    title, subtitle
        The data's name, and what labels were used for.
    class_names
        One name a class.
    search
        How parameters were chosen, where they were searched for.
    unjudged, advice
        Where nothing was measured: that, in one sentence, and what to do about it.
    warnings
        What a reader must know whether anything was measured or not.
    """

    title: str
    class_names: tuple[str, ...]
    nodes: Nodes
    graphs: Graphs
    subtitle: str = ""
    evaluation: Evaluation | None = None
    learning: Learning = field(default_factory=Learning)
    reproduce: Reproduce = field(default_factory=Reproduce)
    notes: tuple[str, ...] = ()
    search: Search | None = None
    unjudged: str = "How good this answer is has not been measured."
    advice: str = ""
    warnings: tuple[str, ...] = ()
