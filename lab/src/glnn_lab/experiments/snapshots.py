"""Statistics and small pictures of the graph during learning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import breadth_first_order

from glnn.data import NodeData, Split
from glnn.engine.callbacks import Callback, Record
from glnn.engine.fit_problem import FitProblem
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import Steps
from glnn.engine.tasks import Labels, LiteralTask
from glnn.engine.trainer import Trainer
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.graph.prior import prior_graph
from glnn.report.run import GraphLog, collect_rounds
from glnn_lab.experiments.cells import FIRST_SEED, Cell
from glnn_lab.experiments.methods import Outcome, visible_labels

EPOCHS = (1, 5, 15, 50)  # of the paper's figure; the first is the random initial matrix
N_PICTURE_NODES = 30
MIN_EDGE_WEIGHT = 0.01  # pairs with a larger weight count as edges


class EpochGraphs(Callback):
    """Record the dense graph of some epochs; epoch 1 is the initial graph."""

    def __init__(self, task: LiteralTask, epochs: Sequence[int]) -> None:
        self._task, self._epochs = task, epochs
        self.seen: dict[int, np.ndarray] = {}

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Record the initial graph."""
        self.seen[1] = self._graph()

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Record the graph if this epoch is among the requested ones."""
        epoch = int(record["epoch"]) + 1
        if epoch in self._epochs and epoch > 1:
            self.seen[epoch] = self._graph()
        return False

    def _graph(self) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(self._task.adjacency().to_dense().clone().numpy())


def record_graphs(cell: Cell, data: NodeData, split: Split) -> tuple[Outcome, list[dict[str, Any]]]:
    """Return the outcome of the fit, and facts on the graph before and during learning.

    Pictures are recorded for the first seed only.
    """
    presets = {"glnn": "default", "glnn-paper": "paper", "glnn-literal": "literal"}
    if cell.method not in presets or data.graph is None:
        raise InputError(
            f"a learned graph can be watched for {', '.join(presets)} on data with a graph, got "
            f"{cell.method} on {cell.dataset}."
        )
    if cell.method == "glnn-literal":
        prior = prior_graph(data.graph, "binary")
        outcome, seen = _literal_graphs(_literal_steps(cell, data, split), prior)
        word = "epoch"
    else:
        model = GLNNClassifier(random_state=cell.seed, calibrate=None)
        log, preset = [GraphLog()], presets[cell.method]
        model.set_params(preset=preset, callbacks=log, **cell.settings)
        validation = split.val if split.val.size else None
        model.fit(data.features, visible_labels(data, split), data.graph, validation)
        outcome = Outcome(model.transduction_, model.n_iter_)
        rounds = collect_rounds(model.callbacks, model.graph_)
        seen = {number: found.graph for number, found in enumerate(rounds, start=1)}
        prior, word = model.prior_graph_, "round"
    shown = choose_picture_nodes(data) if cell.seed == FIRST_SEED else None
    shown_steps = [("given", 0, prior), *((word, number, graph) for number, graph in seen.items())]
    return outcome, [
        {"step": step, "number": number, **graph_facts(graph, prior, data.labels, shown)}
        for step, number, graph in shown_steps
    ]


def _literal_steps(cell: Cell, data: NodeData, split: Split) -> Steps:
    """Build the steps of the preset ``literal``, with the labels of the split."""
    settings = resolve_settings("literal", changes=dict(cell.settings))
    labels = Labels(np.array(split.train), data.labels[split.train], data.n_nodes, data.n_classes)
    validation = None
    if split.val.size:
        nodes = np.array(split.val)
        validation = Labels(nodes, data.labels[nodes], data.n_nodes, data.n_classes)
    problem = FitProblem(data.features, labels, data.graph, validation)
    scaling = Scaling.fit(data.features, settings.scaling)
    return Steps(problem, settings, scaling, seed=cell.seed, device="cpu")


def _literal_graphs(steps: Steps, prior: sp.csr_matrix) -> tuple[Outcome, dict[int, Any]]:
    """Train graph and network jointly as printed in the paper, up to the last epoch shown."""
    settings = steps.settings
    head, graph = settings.head, settings.graph
    task = LiteralTask(
        steps.features,
        steps.problem.labels,
        head,
        LiteralTask.build_objective(steps.signal, prior, graph, "cpu"),
        init=make_generator(steps.seed, 1, 0),
        noise=make_generator(steps.seed, 1, 1),
    )
    epochs = [epoch for epoch in EPOCHS if epoch <= head.n_epochs]
    watch = EpochGraphs(task, epochs)
    trainer = Trainer(n_epochs=max(epochs), learning_rate=head.learning_rate, callbacks=[watch])
    history = trainer.fit(task, steps.problem.validation)
    with torch.no_grad():
        classes = task.scores().argmax(1).numpy()
    return Outcome(classes, len(history)), watch.seen


def choose_picture_nodes(data: NodeData, count: int = N_PICTURE_NODES) -> np.ndarray:
    """Return nodes for a picture: neighbourhoods of nodes of median degree, sorted by class.

    Examples
    --------
    >>> from glnn_lab.experiments.scale import path_graph
    >>> sorted(choose_picture_nodes(path_graph(9), 3).tolist())
    [0, 1, 2]
    """
    assert data.graph is not None
    degree = np.diff(data.graph.indptr)
    usual = np.median(degree[degree > 0]) if degree.any() else 0
    found: dict[int, None] = {}
    for start in np.argsort(np.abs(degree - usual), kind="stable"):
        if len(found) < count:
            found |= dict.fromkeys(breadth_first_order(data.graph, start)[0][:count].tolist())
    chosen = np.array(list(found)[:count])
    return np.asarray(chosen[np.lexsort((chosen, data.labels[chosen]))])


def graph_facts(
    graph: Any, prior: sp.csr_matrix, labels: np.ndarray, shown: np.ndarray | None = None
) -> dict[str, Any]:
    """Return statistics of a learned graph compared with the prior graph, without loops.

    ``distance`` is the distance of the weights relative to the norm of the prior graph,
    ``sparsity`` the share of pairs that are not edges, ``n_new`` the number of edges that the prior
    graph lacks, ``n_lost`` that of its edges that are gone, ``equal_new`` the number of new edges
    within a class among the ``n_new_labelled`` with two known classes, ``picture`` the weights
    between the shown nodes.
    """
    n_nodes = prior.shape[0]
    dense = np.asarray(graph.toarray() if sp.issparse(graph) else graph, dtype=np.float32)
    given = prior.toarray().astype(np.float32)
    distance = float(np.linalg.norm(dense - given) / np.linalg.norm(given))
    edges, old = np.triu(dense > MIN_EDGE_WEIGHT, k=1), np.triu(given > 0, k=1)
    rows, columns = np.nonzero(edges & ~old)
    known = (labels[rows] >= 0) & (labels[columns] >= 0)
    facts: dict[str, Any] = {
        "distance": round(distance, 6),
        "sparsity": round(1 - float(edges.sum()) / (n_nodes * (n_nodes - 1) / 2), 6),
        "n_edges": int(edges.sum()),
        "n_new": int(rows.size),
        "n_lost": int((old & ~edges).sum()),
        "equal_new": int((labels[rows] == labels[columns])[known].sum()),
        "n_new_labelled": int(known.sum()),
    }
    if shown is not None:
        picture = dense[np.ix_(shown, shown)].astype(np.float64).round(3)
        facts |= {"nodes": shown.tolist(), "picture": picture.tolist()}
    return facts
