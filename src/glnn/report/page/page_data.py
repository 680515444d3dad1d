"""What the report page shows, as plain values: nothing here knows how a fit works."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int, UInt8

from glnn.data.files import shown_path
from glnn.data.npz import NpzFile, write_npz
from glnn.exceptions import DataFormatError, InputError

# --- data: What the report page shows, as plain values: nothing here knows how a fit works

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


# --- stored: The page's data in a file, so that a run can be shown and compared again without its

_KNOWN = {
    kind.__name__: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == __name__
}
_FORMAT = "glnn page 1"


def write_page(path: Path, page: PageData) -> None:
    """Write the data of a page."""
    arrays: dict[str, np.ndarray] = {}
    words = json.dumps({"format": _FORMAT, "page": _encoded(page, arrays)})
    write_npz(path, {"words": np.frombuffer(words.encode(), np.uint8), **arrays})


def read_page(path: Path) -> PageData:
    """Read what :func:`write_page` wrote; anything else is refused in one line."""
    if not path.is_file():
        raise InputError(
            f"{shown_path(path)} must exist, got nothing. Name the folder of a run that "
            "glnn fit has written."
        )
    try:
        with NpzFile(path) as archive:
            words = json.loads(archive.read("words", kinds="u", ndim=1).tobytes())
            if words["format"] != _FORMAT:
                raise ValueError("unknown format")
            page = _decoded(words["page"], archive)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataFormatError(
            f"{shown_path(path)} must be the page data of a run, got: {str(error) or 'no data'}."
        ) from None
    if not isinstance(page, PageData):
        raise DataFormatError(f"{shown_path(path)} must be the page data of a run.")
    return page


def _encoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__} | {
            "fields": {name: _encoded(part, arrays) for name, part in parts.items()}
        }
    if sp.issparse(value):
        matrix = sp.csr_matrix(value)
        kept = [_kept(part, arrays) for part in (matrix.data, matrix.indices, matrix.indptr)]
        return {"csr": kept, "shape": list(matrix.shape)}
    if isinstance(value, np.ndarray):
        return _kept(value, arrays)
    if isinstance(value, Mapping):
        return {"map": {str(name): _encoded(part, arrays) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_encoded(part, arrays) for part in value]
    return value


def _kept(array: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    name = f"a{len(arrays)}"
    arrays[name] = array
    return {"array": name, "kinds": array.dtype.kind, "ndim": array.ndim}


def _decoded(value: Any, archive: NpzFile) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(part, archive) for part in value)
    if not isinstance(value, dict):
        return value
    if "class" in value:
        fields = {name: _decoded(part, archive) for name, part in value["fields"].items()}
        return _KNOWN[value["class"]](**fields)
    if "csr" in value:
        parts = tuple(_decoded(part, archive) for part in value["csr"])
        return sp.csr_matrix(parts, shape=tuple(value["shape"]))
    if "array" in value:
        return archive.read(value["array"], kinds=value["kinds"], ndim=value["ndim"])
    return {name: _decoded(part, archive) for name, part in value["map"].items()}


# --- links: Every link of the given and the learned graph, once, and what became of it

KEPT, ADDED, DROPPED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Links:
    """Links of either graph, sorted by their ends.

    Parameters
    ----------
    source, target
        Their ends, ``source < target``.
    weight
        Weight in the learned graph; 0 where it was dropped.
    fate
        ``KEPT`` (given and learned), ``ADDED`` (learned alone) or ``DROPPED`` (given alone).
    place
        Number of the link among the learned ones, row by row; -1 where it was dropped.
    """

    source: Int[np.ndarray, "e"]
    target: Int[np.ndarray, "e"]
    weight: Float[np.ndarray, "e"]
    fate: UInt8[np.ndarray, "e"]
    place: Int[np.ndarray, "e"]

    def __len__(self) -> int:
        return len(self.source)

    def pick(self, chosen: np.ndarray) -> "Links":
        """Return some of the links, by mask or numbers."""
        return Links(*(part[chosen] for part in vars(self).values()))


def links_of(learned: sp.csr_matrix, given: sp.csr_matrix | None) -> Links:
    """Return the union of both graphs; loops are left out.

    Examples
    --------
    >>> path = sp.csr_matrix(np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]]))
    >>> other = sp.csr_matrix(np.array([[0, 0, 1.0], [0, 0, 0], [1.0, 0, 0]]))
    >>> links = links_of(path, other)
    >>> links.fate.tolist(), links.weight.tolist(), links.place.tolist()
    ([1, 2], [0.5, 0.0], [0, -1])
    """
    n_nodes = learned.shape[0]
    weights = upper_links(learned)
    learned_keys = weights.row.astype(np.int64) * n_nodes + weights.col
    given_keys = np.empty(0, np.int64)
    if given is not None:
        old = upper_links(given)
        given_keys = old.row.astype(np.int64) * n_nodes + old.col
    keys = np.union1d(learned_keys, given_keys)
    place = np.full(len(keys), -1, np.int64)
    place[np.searchsorted(keys, learned_keys)] = np.arange(len(learned_keys))
    is_learned, is_given = place >= 0, np.isin(keys, given_keys)
    fate = np.where(is_learned, np.where(is_given, KEPT, ADDED), DROPPED).astype(np.uint8)
    weight = np.zeros(len(keys))
    weight[is_learned] = weights.data[place[is_learned]]
    return Links(keys // n_nodes, keys % n_nodes, weight, fate, place)


def upper_links(graph: sp.csr_matrix) -> sp.coo_matrix:
    """Return the links above the diagonal, row by row, stored zeros left out."""
    sorted_graph = sp.csr_matrix(sp.triu(graph, k=1, format="csr"), dtype=np.float64)
    sorted_graph.sum_duplicates()
    sorted_graph.eliminate_zeros()
    return sorted_graph.tocoo()
