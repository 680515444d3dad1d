"""The results of a fit: what its page, its tables and its files show, and their storage."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from glnn.data import Split, write_predictions
from glnn.data.encode import TableEncoder
from glnn.data.files import quote_path, wrap_parse_errors
from glnn.data.labels import Folds
from glnn.data.npz import NpzFile, write_npz
from glnn.engine.archive import Packer, unpack
from glnn.engine.settings import FitSettings, resolve_settings
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.graph.convert import as_adjacency
from glnn.quality import Evaluation
from glnn.quality.calibration import Calibration
from glnn.quality.estimate import estimate
from glnn.quality.labelling import suggest_nodes, suspect_labels
from glnn.quality.rivals import NodeProblem, expand_classes
from glnn.report.columns import RowColumn, columns_of_features
from glnn.report.links import GraphFacts, LinkTerms, link_terms, metric_columns
from glnn.solver import Certificate


@dataclass(frozen=True, eq=False)
class Round:
    """One round: a graph step and a classifier step."""

    name: str  # such as "round 1"
    graph: sp.csr_matrix  # after the round
    terms: Mapping[str, float] = field(default_factory=dict)  # values of the objective's terms


@dataclass(frozen=True)
class Search:
    """The trials of a hyperparameter search; the first trial is the unchanged preset."""

    goal: str  # the metric on hidden labels
    values: tuple[float | int, ...]  # of the goal, one per trial
    params: Mapping[str, tuple[float | int | None, ...]] = field(default_factory=dict)
    # for each parameter its value in every trial, None where it was the preset's
    verdict: str = ""  # a sentence on the nested estimate of the whole search


@dataclass(frozen=True, eq=False)
class Results:
    """What came out of a fit; name, nodes, labels, probabilities and graph are required."""

    name: str  # of the data
    ids: np.ndarray  # names of the nodes, integers or text
    class_names: tuple[str, ...]
    labels: Int[np.ndarray, "n"]  # known class numbers, -1 if unknown
    split: Split
    probabilities: Float[np.ndarray, "n c"]  # of a judged node: without its own label
    adjacency: sp.csr_matrix  # the learned graph
    given: sp.csr_matrix | None = None
    classes: Int[np.ndarray, "k"] | None = None  # classes that the fit knows; None: all
    evaluation: Evaluation | None = None  # on labels that the fit had not seen
    suspects: tuple[int, ...] = ()  # nodes whose given label disagrees with the model
    suggestions: tuple[int, ...] = ()  # unlabelled nodes to label next, best first
    columns: tuple[RowColumn, ...] = ()  # the columns of the user's table
    id_name: str = "id"  # of the id column in the user's table
    calibration: Calibration | None = None  # None: probabilities are not calibrated
    certificate: Certificate | None = None  # None if the graph was not solved for
    history: tuple[Mapping[str, Any], ...] = ()  # one record an epoch
    rounds: tuple[Round, ...] = ()  # the graph after each round
    terms: LinkTerms | None = None  # contribution of each term to each link
    metric: tuple[tuple[str, float], ...] = ()  # columns with most weight in the learned metric
    trust: sp.csr_matrix | None = None  # share of each given link's weight that was kept
    settings: Mapping[str, Any] = field(default_factory=dict)  # all settings, as plain values
    preset: Mapping[str, Any] = field(default_factory=dict)  # those of the unchanged preset
    choices: Mapping[str, Any] = field(default_factory=dict)  # what the fit chose by itself
    search: Search | None = None  # how parameters were chosen, if they were searched for
    facts: Mapping[str, str] = field(default_factory=dict)  # seed, device, digest, versions, ...
    seconds: Mapping[str, float] = field(default_factory=dict)  # time of each part
    command: str = ""  # the command line of the run, if it had one
    notes: tuple[str, ...] = ()  # what was left out of the data, or is doubtful
    readings: tuple[tuple[str, str], ...] = ()  # columns of the table, and how each was read

    def __post_init__(self) -> None:
        n_nodes, n_classes = self.adjacency.shape[0], len(self.class_names)
        nodes = np.concatenate([self.split.train, self.split.val, self.split.test])
        is_right = (
            len(self.ids) == len(self.labels) == len(self.probabilities) == n_nodes
            and self.labels.dtype.kind == "i"
            and self.probabilities.dtype.kind == "f"
            and self.probabilities.shape[1:] == (n_classes,)
            and -1 <= self.labels.min() <= self.labels.max() < n_classes
            and nodes.max(initial=0) < n_nodes
        )
        if not is_right:
            raise InputError(
                "results must have one id, label and row of probabilities a node, labels and nodes "
                "of the split as whole numbers in range, and a probability for each class."
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.ids)

    @property
    def predictions(self) -> Int[np.ndarray, "n"]:
        """The predicted class number of every node."""
        return np.asarray(self.probabilities.argmax(1))

    @property
    def seen(self) -> Bool[np.ndarray, "n"]:
        """Which nodes had a label in the fit."""
        return self._mask(self.split.train, self.split.val)

    @property
    def given_labels(self) -> np.ndarray:
        """The name of each label that the fit has seen, empty text for other nodes."""
        return np.where(self.seen, np.array(self.class_names, dtype=object)[self.labels], "")

    @property
    def held_out(self) -> Bool[np.ndarray, "n"]:
        """Which nodes are predicted without their own label, though it is known."""
        hidden = () if self.evaluation is None else self.evaluation.held_out.hidden_nodes
        return self._mask(self.split.test, hidden)

    @property
    def judged(self) -> Int[np.ndarray, "n"]:
        """The predictions of labels that were not seen, -1 elsewhere."""
        return np.where(self.held_out, self.predictions, -1)

    @property
    def suspect(self) -> Bool[np.ndarray, "n"]:
        """Which nodes have a given label that disagrees with the model."""
        return self._mask(self.suspects)

    @cached_property
    def graph_facts(self) -> GraphFacts:
        """Statistics of the learned graph."""
        hidden = np.where(self._mask(self.split.test), self.labels, -1)
        return GraphFacts.of(self.adjacency, hidden, self.given)

    @property
    def is_calibrated(self) -> bool:
        """Whether probabilities are calibrated on held-out labels."""
        return self.calibration is not None and not self.calibration.is_identity

    @property
    def has_single_labels(self) -> bool:
        """Whether every class has at most one training label, so that none can be held out."""
        return bool(np.bincount(self.labels[self.split.train], minlength=1).max() < 2)

    def _mask(self, *parts: Any) -> np.ndarray:
        mask = np.zeros(self.n_nodes, dtype=bool)
        for nodes in parts:
            mask[np.asarray(nodes, dtype=np.int64)] = True
        return mask


# Results of a fitted classifier

N_SUGGESTIONS = 200


def collect_results(
    model: GLNNClassifier,
    *,
    class_names: Sequence[str],
    labels: np.ndarray,
    ids: np.ndarray | None,
    split: Split,
    evaluation: Evaluation | None,
    column_names: Sequence[str] | None = None,
    table: Any = None,
    encoder: TableEncoder | None = None,
    **fields: Any,
) -> Results:
    """Return the results of a fitted classifier; ``fields`` are further fields of the results.

    ``table`` has the user's own columns: a frame, which ``encoder`` has read, or the features.

    Nodes that the evaluation has judged get the probabilities of the fits without their label.
    """
    class_names = tuple(class_names)
    nodes, n_nodes = model.fitted_nodes(column_names), len(labels)
    classes = np.array([class_names.index(str(label)) for label in model.classes_], np.int64)
    probabilities = expand_classes(model.label_distributions_, classes, len(class_names))
    suspects: tuple[int, ...] = ()
    if evaluation is not None:
        hidden = evaluation.held_out.hidden_nodes
        columns = [class_names.index(str(label)) for label in evaluation.classes]
        probabilities[hidden[:, None], columns] = evaluation.probabilities[hidden]
        if not np.isin(hidden, split.test).all():
            found, _ = suspect_labels(evaluation.held_out, evaluation.probabilities)
            suspects = tuple(found.tolist())
    metric, suggestions = metric_columns(nodes), ()
    if nodes.features.shape[0] == n_nodes:  # all rows are in this process
        suggestions = tuple(suggest_nodes(nodes, N_SUGGESTIONS)[0].tolist())
    settings, has_graph = model._resolve_settings(), fields.get("given") is not None
    return Results(
        ids=np.arange(n_nodes) if ids is None else np.asarray(ids),
        class_names=class_names,
        labels=labels,
        split=split,
        probabilities=probabilities,
        adjacency=model.graph_,
        classes=classes,
        evaluation=evaluation,
        suspects=suspects,
        suggestions=suggestions,
        columns=columns_of_features(
            table, nodes.column_names, encoder, [name for name, _ in metric]
        ),
        calibration=model.calibration_,
        certificate=model.certificate_,
        history=tuple(dict(record) for record in model.history_),
        terms=link_terms(nodes),
        metric=metric,
        trust=model.edge_trust_,
        settings=describe_settings(settings, has_graph),
        preset=describe_settings(resolve_settings(model.preset), has_graph),
        choices=model.choices_,
        **fields,
    )


def collect_model_results(model: GLNNClassifier) -> Results:
    """Return the results of a classifier that has no run folder.

    A loaded model does not have the given graph; its prior graph is shown in its place.
    """
    nodes, fitted_to = model.fitted_nodes(), model._fitted_to or {}
    graph = fitted_to.get("graph")
    labelled, none = np.flatnonzero(nodes.labels >= 0), np.empty(0, np.int64)
    val = np.setdiff1d(labelled, nodes.trained)
    return collect_results(
        model,
        name="GLNNClassifier",
        class_names=[str(label) for label in model.classes_],
        labels=nodes.labels,
        ids=model.row_names_,
        split=Split(nodes.trained, val, none, name="labels of y", seed=model.seed_),
        evaluation=_evaluate_held_out(model),
        given=model.prior_graph_ if graph is None else as_adjacency(graph, nodes.n_nodes),
        table=fitted_to.get("X"),
        command=f"{model!r}.fit(X, y)",
        facts={"date": f"{date.today()}", "seed": str(model.seed_), "device": str(model.device)},
        notes=() if model.encoder_ is None else tuple(model.encoder_.notes()),
        readings=() if model.encoder_ is None else tuple(model.encoder_.describe()),
    )


def _evaluate_held_out(model: GLNNClassifier) -> Evaluation | None:
    """Return the evaluation on the labels that a fit has hidden, without rivals."""
    held_out = model.held_out_
    if held_out is None or not held_out.hidden_nodes.size:
        return None
    nodes, hidden = model.fitted_nodes(), held_out.hidden_nodes
    fold, none = held_out.fold[hidden], np.empty(0, np.int64)
    folds = Folds(tuple(hidden[fold == number] for number in np.unique(fold)), (), none)
    problem = NodeProblem(nodes.features, None, nodes.labels, nodes.trained)
    return estimate(
        problem, held_out, model.folds_ or folds, model.classes_, class_weight=model.class_weight
    )


def describe_settings(settings: FitSettings, has_graph: bool) -> dict[str, Any]:
    """Return the settings of a fit as plain values: ``tracks``, and by ``track`` those of each."""
    page = dataclasses.asdict(settings)
    del page["no_graph"]
    tracks = map(dataclasses.asdict, settings.tracks_for(has_graph))
    track = {one.pop("name"): one for one in tracks}
    return page | {"tracks": list(track), "track": track}


# Storage

_FORMAT = "glnn results 1"


def write_results(path: Path, results: Results) -> None:
    """Write results to an npz file: one JSON text, and the arrays."""
    packer = Packer()
    words = json.dumps({"format": _FORMAT, "results": packer.pack(results)})
    write_npz(path, {"words": np.frombuffer(words.encode(), np.uint8), **packer.arrays})


def find_run_file(run: Path, name: str) -> Path:
    """Return the path of a file of a run folder, which must be there."""
    if not (run / name).is_file():
        raise InputError(
            f"{quote_path(run)} must be a run folder of glnn fit, got none: {name} is missing."
        )
    return run / name


def read_results(run: Path) -> Results:
    """Read the results of a run folder; any other file raises an error of one line."""
    path = find_run_file(run, "results.npz")
    with wrap_parse_errors(path, "results"), NpzFile(path) as archive:
        words = json.loads(archive.read("words", kinds="u", ndim=1).tobytes())
        if words["format"] != _FORMAT:
            raise ValueError("unknown format")
        arrays = {
            name: archive.read(name, kinds="biuf", ndim=len(header.shape))
            for name, header in archive.headers.items()
        }
        results: Results = unpack(Results, words["results"], arrays)
    return results


# Predictions as a table


def write_node_predictions(path: Path, results: Results) -> None:
    """Write one line a node, with its given label and whether the prediction was held out."""
    names, seen = np.array(results.class_names, dtype=object), results.seen
    classes = np.arange(len(names)) if results.classes is None else results.classes
    held_out = np.where(results.held_out, "yes", "no")
    write_predictions(
        path,
        results.ids,
        names[results.predictions].tolist(),
        results.probabilities[:, classes],
        names[classes].tolist(),
        given=results.given_labels.tolist(),
        held_out=np.where(seen, held_out, "").tolist(),
        id_name=results.id_name,
        spreadsheet_safe=True,
    )
