"""Fits of a labelling session, and what each leaves: predictions, a ranking of rows, a map.

There are three kinds of fits. ``quick`` trains one track with a cheap head for one round, and hides
no label. ``checked`` does the same and hides labels in folds, so that there is an estimate.
``full`` trains all tracks with folds, compares them with rivals, and becomes the run folder. All
fits share what needs no label: scaled features, prior graph, graphs of features alone, the places
on the map.
"""

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.data import Split
from glnn.data.node_data import are_equal
from glnn.data.row_source import RecordSource
from glnn.engine.callbacks import Callback, Record
from glnn.engine.fit import make_steps
from glnn.engine.fit_problem import FitProblem
from glnn.engine.steps import Steps, with_structure
from glnn.engine.tasks import Labels
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate_fit
from glnn.exceptions import StoppedError
from glnn.graph.convert import as_adjacency
from glnn.graph.pairs import SparseAdjacency
from glnn.graph.prior import normalize_adjacency
from glnn.nn.propagation import mean_of_powers
from glnn.quality.explain import embed_nodes
from glnn.quality.labelling import QueryRanking, query_rows, rank_nodes
from glnn.quality.rivals import expand_classes
from glnn.report.layout import plane_layout
from glnn.report.page.subset import MAX_NODES, build_arrays, encode_block, select_subset
from glnn.report.results import Results
from glnn.report.run import FitOptions, GraphLog, Run
from glnn.report.run_folder import write_run
from glnn.report.sources import Source

QUICK, CHECKED, FULL = KINDS = ("quick", "checked", "full")

# The head of the first two: labels reach far, and predictions train nothing.
QUICK_SETTINGS = {
    "n_steps": 16,
    "consistency_weight": 0.0,
    "smoothness_weight": 0.0,
    "learning_rate": 0.03,
    "n_epochs": 200,
}


@dataclass(frozen=True, eq=False)
class Answer:
    """What a session shows until the next fit."""

    kind: str  # of the fit; empty before the first one
    n_labels: int  # that it learned from
    results: Results
    ranking: QueryRanking
    seconds: float = 0.0  # that the fit took
    model: GLNNClassifier | None = None

    @property
    def has_predictions(self) -> bool:
        """Whether there was a fit."""
        return self.model is not None


class Learner:
    """Fits the labels of a session to its data, in one thread at a time."""

    def __init__(self, source: Source, params: Mapping[str, Any], seed: int) -> None:
        self._source, self._params, self._seed = source, dict(params), seed
        self._shared: list[Steps] = []
        self._drawn: sp.csr_matrix | None = None  # the graph of the last layout
        self._places: np.ndarray | None = None  # of its nodes
        self.is_stopped = False  # set to end a fit at its next epoch

    def prepare(self) -> Answer:
        """Compute what needs no label, and order rows by how many others they speak for."""
        started = time.perf_counter()
        data, model = self._source.data, self._make_estimator(QUICK)
        graph = None if data.graph is None else as_adjacency(data.graph, data.n_nodes)
        labels = Labels([], [], data.n_nodes, 2)
        problem = FitProblem(model._check_features(data.features, reset=True), labels, graph)
        settings = with_structure(model._resolve_settings(), problem)
        steps = make_steps(problem, settings, seed=self._seed, device=model.device)
        self._shared.append(steps)
        state = steps.graph_step(steps.start(steps.tracks[0]).replace(round=1))
        seen = SparseAdjacency.from_scipy(normalize_adjacency(state.adjacency))
        n_steps = state.track.head.n_steps

        def propagate(signals: np.ndarray) -> np.ndarray:
            columns = torch.from_numpy(np.ascontiguousarray(signals, dtype=np.float64))
            return np.asarray(mean_of_powers(seen, columns, n_steps))

        rows = query_rows(embed_nodes(steps.scaled, propagate))
        ranking = QueryRanking(rows, np.ones(len(rows)), np.empty(0, np.int64))
        source = with_labels(self._source, {}, ())
        results = self._collect_plain(source, np.ones((data.n_nodes, 1)), state.adjacency)
        return Answer("", 0, results, ranking, time.perf_counter() - started)

    def fit(self, kind: str, labels: Mapping[str, str], classes: Sequence[str]) -> Answer:
        """Fit to labels by row id; ``classes`` are their names in the order that people see."""
        started = time.perf_counter()
        source = with_labels(self._source, labels, [c for c in classes if c in labels.values()])
        model = self._make_estimator(kind)
        model._shared = self._shared
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(source.data.features, source.visible_labels, source.data.graph)
            model.row_names_ = source.data.ids
            results = None if kind == QUICK else self._judge(kind, source, model, started)
        if results is None:
            index = np.array([source.data.class_names.index(str(c)) for c in model.classes_])
            found = expand_classes(model.label_distributions_, index, len(index))
            results = self._collect_plain(source, found, model.graph_)
        ranking = rank_nodes(model.fitted_nodes())
        seconds = time.perf_counter() - started
        return Answer(kind, len(source.split.train), results, ranking, seconds, model)

    def write(self, folder: Path, answer: Answer) -> None:
        """Write the run folder of a full fit in one step."""
        assert answer.model is not None  # there was a fit
        labels = dict(zip(answer.results.ids.astype(str), answer.results.labels))
        names = answer.results.class_names
        known = {row: names[number] for row, number in labels.items() if number >= 0}
        write_run(folder, with_labels(self._source, known, names), answer.results, answer.model)

    def _make_estimator(self, kind: str) -> GLNNClassifier:
        own: dict[str, Any] = {} if kind == FULL else {"n_rounds": 1}
        if kind != FULL and not {"tracks", "preset", "settings"} & set(self._params):
            own["tracks"] = ["features" if self._source.data.graph is None else "learned"]
            own["settings"] = QUICK_SETTINGS
        if kind == QUICK:
            own["calibrate"] = None
        callbacks = [GraphLog(), _Stop(self)] if kind == FULL else [_Stop(self)]
        params = {**self._params, **own, "callbacks": callbacks, "random_state": self._seed}
        return GLNNClassifier(**params)

    def _judge(self, kind: str, source: Source, model: GLNNClassifier, started: float) -> Results:
        """Return the results of a fit, evaluated on the labels that it has hidden."""
        seconds = {"fit": time.perf_counter() - started}
        evaluation = None
        if model.folds_ is not None:
            evaluation = evaluate_fit(
                model,
                seconds=seconds["fit"],
                rivals="auto" if kind == FULL else None,
                random_state=self._seed,
                watch=self._check_stopped,
            )
        seconds["evaluation"] = time.perf_counter() - started - seconds["fit"]
        run = Run(source, FitOptions(seed=self._seed, device=model.device))
        run.model = model
        return run.collect(evaluation, seconds)

    def _collect_plain(
        self, source: Source, probabilities: np.ndarray, adjacency: sp.csr_matrix
    ) -> Results:
        """Return results that have what the map and the cards show, and no more."""
        data = source.data
        return Results(
            name=data.name,
            ids=data.node_ids,
            class_names=data.class_names or ("no label yet",),
            labels=data.labels,
            split=source.split,
            probabilities=probabilities,
            adjacency=adjacency,
            given=data.graph,
            id_name=source.id_name,
        )

    def draw_map(self, results: Results) -> str:
        """Return the block of data of the map; while the graph is the same, nodes stay in place."""
        graph = results.adjacency
        # of larger graphs only the nodes that are drawn get places
        if results.n_nodes <= MAX_NODES and not are_equal(self._drawn, graph):
            self._places = plane_layout(graph, results.predictions, start=self._places)
            self._drawn = graph
        return encode_block(*build_arrays(results, select_subset(results, self._places)))

    def _check_stopped(self, *_: object) -> None:
        if self.is_stopped:
            raise StoppedError("the session was closed.")


class _Stop(Callback):
    """Ends a fit when its session is closed."""

    may_lag = True

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """End the fit before a stage."""
        self._learner._check_stopped()

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """End the fit after an epoch."""
        self._learner._check_stopped()
        return False


def with_labels(source: Source, labels: Mapping[str, str], classes: Sequence[str]) -> Source:
    """Return a source with these labels by row id, all of them for training."""
    data, number = source.data, {name: k for k, name in enumerate(classes)}
    found = np.array([number.get(labels.get(str(i), ""), -1) for i in data.node_ids.tolist()])
    none, train = np.empty(0, np.int64), np.flatnonzero(found >= 0)
    changed = data.replace(labels=found, class_names=tuple(classes), splits={})
    other = dataclasses.replace(source)
    vars(other)["rows"] = RecordSource(changed, source.report)
    vars(other)["data"] = changed
    vars(other)["split"] = Split(train, none, none, "labels of the session", dataset=data.name)
    return other
