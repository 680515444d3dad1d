"""The data of the report page: plain values, their file, and the links of both graphs.

Nothing here depends on how a fit works. ``write_page_data`` and ``read_page_data`` store a page in
one npz file, so that a run can be shown and compared later without its model.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int, UInt8

from glnn.data.files import quote_path
from glnn.data.npz import NpzFile, write_npz
from glnn.exceptions import DataFormatError, InputError

Tone = Literal["good", "caution", "bad"]


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a page; every field has one entry per node.

    ``judged`` is the class predicted without the node's own label: by the folds where the label was
    given, by the fit itself where it was hidden, and -1 where the node is not scored.
    """

    ids: Sequence[str]
    predicted: Int[np.ndarray, "n"]  # class numbers
    probabilities: Float[np.ndarray, "n c"]
    truth: Int[np.ndarray, "n"]  # known class numbers, -1 if unknown
    seen: Bool[np.ndarray, "n"]  # whether the label was given to the fit
    judged: Int[np.ndarray, "n"]
    suspect: Bool[np.ndarray, "n"]  # whether the given label disagrees with the model
    places: Float[np.ndarray, "n 2"] | None = None  # positions on the map, computed if missing

    def __post_init__(self) -> None:
        sizes = {name: len(part) for name, part in vars(self).items() if part is not None}
        if len(set(sizes.values())) != 1:
            raise InputError(f"every field of Nodes must have one entry a node, got {sizes}.")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class LinkTerms:
    """The contribution of each term of the objective to each link.

    The shares of a link sum to its weight. ``columns`` holds, for each link, the numbers of the
    feature columns that contribute most to its similarity, ``column_shares`` their shares of it.
    """

    names: tuple[str, ...]  # of the terms
    shares: Float[np.ndarray, "e t"]
    column_names: tuple[str, ...] = ()
    columns: Int[np.ndarray, "e k"] | None = None
    column_shares: Float[np.ndarray, "e k"] | None = None


@dataclass(frozen=True, eq=False)
class Graphs:
    """The learned graph, the given graph, and the terms behind each learned link."""

    learned: sp.csr_matrix
    given: sp.csr_matrix | None = None
    terms: LinkTerms | None = None  # of the links of `learned` above its diagonal, row by row
    trust: sp.csr_matrix | None = None  # share of each given link's weight that was kept
    equal_labels: str = ""  # share of links between equal unseen labels, compared with chance


@dataclass(frozen=True)
class PageMeasure:
    """A number with its interval, if there is one."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class PageMethod:
    """The accuracy of one method on the same labels."""

    name: str
    accuracy: PageMeasure
    lead: PageMeasure | None = None  # accuracy of our fit minus that of this method
    is_own: bool = False
    seconds: float | None = None  # duration of all its fits, if it was measured


@dataclass(frozen=True)
class ClassQuality:
    """Precision and recall of one class."""

    name: str
    n_judged: int
    precision: PageMeasure
    recall: PageMeasure


@dataclass(frozen=True, eq=False)
class PageEvaluation:
    """Quality on labels that the fit had not seen."""

    verdict: str  # one sentence
    tone: Tone  # colour of the verdict
    basis: str  # a sentence on the labels used
    methods: tuple[PageMethod, ...] = ()  # our fit first, then the rivals
    measures: tuple[PageMeasure, ...] = ()  # further metrics
    classes: tuple[ClassQuality, ...] = ()
    confusion: Int[np.ndarray, "c c"] | None = None  # counts, true x predicted class
    reliability: tuple[tuple[float, float, int], ...] = ()  # mean confidence, accuracy, count
    calibration_error: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Round:
    """One round: a graph step and a classifier step."""

    name: str  # such as "round 1"
    graph: sp.csr_matrix | None = None  # after the round
    terms: Mapping[str, float] = field(default_factory=dict)  # values of the objective's terms


@dataclass(frozen=True)
class Curve:
    """One stage of training: columns of numbers, one number per epoch."""

    name: str
    columns: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, eq=False)
class Learning:
    """How the graph was learned."""

    rounds: tuple[Round, ...] = ()
    curves: tuple[Curve, ...] = ()
    metric: tuple[tuple[str, float], ...] = ()  # the heaviest columns and their weights
    certificate: tuple[str, ...] = ()  # sentences
    choices: tuple[tuple[str, str], ...] = ()  # what the fit chose automatically, and its value


@dataclass(frozen=True)
class RunRecipe:
    """How to repeat the run: its command, versions and settings."""

    command: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()  # setting, value here, value of the preset
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Search:
    """The trials of a hyperparameter search; the first trial is the unchanged preset."""

    goal: str  # the metric on hidden labels
    values: tuple[float | int, ...]  # of the goal, one per trial
    params: Mapping[str, tuple[float | int | None, ...]] = field(default_factory=dict)
    # for each parameter its value in every trial, None where it was the preset's
    log: tuple[str, ...] = ()  # parameters searched on a logarithmic scale
    is_low_best: bool = False  # whether a lower value is better
    verdict: str = ""  # a sentence on the nested estimate of the whole search

    def best_so_far(self) -> Float[np.ndarray, "t"]:
        """Return the best value up to each trial."""
        best = np.minimum if self.is_low_best else np.maximum
        return np.asarray(best.accumulate(np.asarray(self.values, dtype=float)))

    def points(self, name: str) -> list[tuple[float | int, float | int]]:
        """Return the pairs (parameter, goal) of the trials that set the parameter."""
        pairs = zip(self.params[name], self.values)
        return [(part, value) for part, value in pairs if part is not None]


@dataclass(frozen=True, eq=False)
class PageData:
    """Everything a report page shows; title, class names, nodes and graphs are required."""

    title: str  # name of the data
    class_names: tuple[str, ...]
    nodes: Nodes
    graphs: Graphs
    subtitle: str = ""  # how the labels were used
    evaluation: PageEvaluation | None = None
    learning: Learning = field(default_factory=Learning)
    reproduce: RunRecipe = field(default_factory=RunRecipe)
    notes: tuple[str, ...] = ()
    search: Search | None = None  # the hyperparameter search, if there was one
    unjudged: str = "The quality of this result has not been measured."  # if evaluation is None
    advice: str = ""  # how to get an evaluation
    warnings: tuple[str, ...] = ()  # shown with and without an evaluation


# Storage

_CLASSES = {
    kind.__name__: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == __name__
}
_FORMAT = "glnn page 1"


def write_page_data(path: Path, page: PageData) -> None:
    """Write the data of a page to an npz file."""
    arrays: dict[str, np.ndarray] = {}
    words = json.dumps({"format": _FORMAT, "page": _encode(page, arrays)})
    write_npz(path, {"words": np.frombuffer(words.encode(), np.uint8), **arrays})


def read_page_data(path: Path) -> PageData:
    """Read a file of :func:`write_page_data`; any other file raises an error of one line."""
    if not path.is_file():
        raise InputError(
            f"{quote_path(path)} must exist, got nothing. Name the folder of a run that "
            "glnn fit has written."
        )
    try:
        with NpzFile(path) as archive:
            words = json.loads(archive.read("words", kinds="u", ndim=1).tobytes())
            if words["format"] != _FORMAT:
                raise ValueError("unknown format")
            page = _decode(words["page"], archive)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataFormatError(
            f"{quote_path(path)} must be the page data of a run, got: {str(error) or 'no data'}."
        ) from None
    if not isinstance(page, PageData):
        raise DataFormatError(f"{quote_path(path)} must be the page data of a run.")
    return page


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__} | {
            "fields": {name: _encode(part, arrays) for name, part in parts.items()}
        }
    if sp.issparse(value):
        matrix = sp.csr_matrix(value)
        kept = [_store_array(part, arrays) for part in (matrix.data, matrix.indices, matrix.indptr)]
        return {"csr": kept, "shape": list(matrix.shape)}
    if isinstance(value, np.ndarray):
        return _store_array(value, arrays)
    if isinstance(value, Mapping):
        return {"map": {str(name): _encode(part, arrays) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_encode(part, arrays) for part in value]
    return value


def _store_array(array: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    name = f"a{len(arrays)}"
    arrays[name] = array
    return {"array": name, "kinds": array.dtype.kind, "ndim": array.ndim}


def _decode(value: Any, archive: NpzFile) -> Any:
    if isinstance(value, list):
        return tuple(_decode(part, archive) for part in value)
    if not isinstance(value, dict):
        return value
    if "class" in value:
        fields = {name: _decode(part, archive) for name, part in value["fields"].items()}
        return _CLASSES[value["class"]](**fields)
    if "csr" in value:
        parts = tuple(_decode(part, archive) for part in value["csr"])
        return sp.csr_matrix(parts, shape=tuple(value["shape"]))
    if "array" in value:
        return archive.read(value["array"], kinds=value["kinds"], ndim=value["ndim"])
    return {name: _decode(part, archive) for name, part in value["map"].items()}


# Links of the given and the learned graph

KEPT, ADDED, DROPPED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Links:
    """The links of both graphs, sorted by their end nodes.

    ``fate`` is ``KEPT`` (in both graphs), ``ADDED`` (only learned) or ``DROPPED`` (only given).
    """

    source: Int[np.ndarray, "e"]  # smaller end node
    target: Int[np.ndarray, "e"]  # larger end node
    weight: Float[np.ndarray, "e"]  # in the learned graph, 0 if dropped
    fate: UInt8[np.ndarray, "e"]
    learned_index: Int[np.ndarray, "e"]  # index among the learned links, row by row; -1 if dropped

    def __len__(self) -> int:
        return len(self.source)

    def pick(self, chosen: np.ndarray) -> "Links":
        """Return the links chosen by a mask or by their numbers."""
        return Links(*(part[chosen] for part in vars(self).values()))


def merge_links(learned: sp.csr_matrix, given: sp.csr_matrix | None) -> Links:
    """Return the union of the links of both graphs, without loops.

    Examples
    --------
    >>> path = sp.csr_matrix(np.array([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]]))
    >>> other = sp.csr_matrix(np.array([[0, 0, 1.0], [0, 0, 0], [1.0, 0, 0]]))
    >>> links = merge_links(path, other)
    >>> links.fate.tolist(), links.weight.tolist(), links.learned_index.tolist()
    ([1, 2], [0.5, 0.0], [0, -1])
    """
    n_nodes = learned.shape[0]
    weights = extract_links(learned)
    learned_keys = weights.row.astype(np.int64) * n_nodes + weights.col
    given_keys = np.empty(0, np.int64)
    if given is not None:
        old = extract_links(given)
        given_keys = old.row.astype(np.int64) * n_nodes + old.col
    keys = np.union1d(learned_keys, given_keys)
    learned_index = np.full(len(keys), -1, np.int64)
    learned_index[np.searchsorted(keys, learned_keys)] = np.arange(len(learned_keys))
    is_learned, is_given = learned_index >= 0, np.isin(keys, given_keys)
    fate = np.where(is_learned, np.where(is_given, KEPT, ADDED), DROPPED).astype(np.uint8)
    weight = np.zeros(len(keys))
    weight[is_learned] = weights.data[learned_index[is_learned]]
    return Links(keys // n_nodes, keys % n_nodes, weight, fate, learned_index)


def extract_links(graph: sp.csr_matrix) -> sp.coo_matrix:
    """Return the links above the diagonal, row by row, without stored zeros."""
    sorted_graph = sp.csr_matrix(sp.triu(graph, k=1, format="csr"), dtype=np.float64)
    sorted_graph.sum_duplicates()
    sorted_graph.eliminate_zeros()
    return sorted_graph.tocoo()
