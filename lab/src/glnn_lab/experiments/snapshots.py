"""The learned graph on its way: small pictures of it, and what can be counted in each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import breadth_first_order

from glnn.data import NodeData, Split
from glnn.engine.callbacks import Callback, Record
from glnn.engine.fit_problem import FitProblem
from glnn.engine.inputs import Scaling, generator_for
from glnn.engine.rounds import Rounds
from glnn.engine.settings import resolve_settings
from glnn.engine.steps import FitState, Steps
from glnn.engine.tasks import Labels, LiteralTask
from glnn.engine.trainer import Trainer, Validation
from glnn.exceptions import InputError
from glnn.graph.prior import prior_graph
from glnn_lab.experiments.cells import FIRST_SEED, Cell
from glnn_lab.experiments.methods import Outcome

EPOCHS = (1, 5, 15, 50)
"""The epochs of the paper's picture; its first is the random matrix before any step."""
N_SHOWN = 30
EDGE = 0.01
"""A pair whose weight is above this counts as an edge."""


class RecordedSteps(Steps):
    """Steps that keep the graph of each round."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.seen: dict[int, sp.csr_matrix] = {}

    def graph_step(self, state: FitState, like: FitState | None = None) -> FitState:
        """Solve, and keep the graph, whether or not its round is undone later."""
        state = super().graph_step(state, like)
        self.seen[state.round] = state.adjacency
        return state


class EpochGraphs(Callback):
    """Keep the dense graph of some epochs; epoch 1 is what training begins with."""

    def __init__(self, task: LiteralTask, epochs: Sequence[int]) -> None:
        self._task, self._epochs = task, epochs
        self.seen: dict[int, np.ndarray] = {}

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Keep the first graph."""
        self.seen[1] = self._graph()

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Keep the graph if this epoch was asked for."""
        epoch = int(record["epoch"]) + 1
        if epoch in self._epochs and epoch > 1:
            self.seen[epoch] = self._graph()
        return False

    def _graph(self) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(self._task.adjacency().to_dense().clone().numpy())


def watch_graph(cell: Cell, data: NodeData, split: Split) -> tuple[Outcome, list[dict[str, Any]]]:
    """Return what the fit gives, and facts of the graph before and during learning.

    Pictures are kept for the first seed only.
    """
    presets = {"glnn": "default", "glnn-paper": "paper", "glnn-literal": "literal"}
    if cell.method not in presets or data.graph is None:
        raise InputError(
            f"a learned graph can be watched for {', '.join(presets)} on data with a graph, got "
            f"{cell.method} on {cell.dataset}."
        )
    steps = _steps(presets[cell.method], cell, data, split)
    if cell.method == "glnn-literal":
        prior = prior_graph(data.graph, "binary")
        outcome, seen = _literal_graphs(steps, prior)
        word = "epoch"
    else:
        rounds = Rounds(steps)
        state = rounds.first_round(steps.start())
        steps.seen = {1: state.adjacency}  # the graph it chose
        state = rounds.run(state)
        assert state.trained is not None
        outcome = Outcome(state.trained.probabilities.argmax(1), len(steps.history))
        assert steps.given is not None  # there is a graph
        prior, seen, word = steps.given.prior, steps.seen, "round"
    shown = shown_nodes(data) if cell.seed == FIRST_SEED else None
    shown_steps = [("given", 0, prior), *((word, number, graph) for number, graph in seen.items())]
    return outcome, [
        {"step": step, "number": number, **graph_facts(graph, prior, data.labels, shown)}
        for step, number, graph in shown_steps
    ]


def _steps(preset: str, cell: Cell, data: NodeData, split: Split) -> RecordedSteps:
    """Make the steps of a preset, with the labels that a fit would see."""
    settings = resolve_settings(preset, changes=dict(cell.settings))
    labels = Labels(np.array(split.train), data.labels[split.train], data.n_nodes, data.n_classes)
    validation = None
    if split.val.size:
        nodes = torch.from_numpy(np.array(split.val))
        validation = Validation(nodes, torch.from_numpy(data.labels[split.val]))
    problem = FitProblem(data.features, labels, data.graph, validation)
    scaling = Scaling.fit(data.features, settings.scaling)
    return RecordedSteps(problem, settings, scaling, seed=cell.seed, device="cpu")


def _literal_graphs(steps: RecordedSteps, prior: sp.csr_matrix) -> tuple[Outcome, dict[int, Any]]:
    """Train graph and network together as the paper prints it, up to the last epoch shown."""
    settings = steps.settings
    head, graph = settings.head, settings.graph
    task = LiteralTask(
        steps.features,
        steps.problem.labels,
        head,
        LiteralTask.objective(steps.signal, prior, graph, "cpu"),
        init=generator_for(steps.seed, 1, 0),
        noise=generator_for(steps.seed, 1, 1),
    )
    epochs = [epoch for epoch in EPOCHS if epoch <= head.n_epochs]
    watch = EpochGraphs(task, epochs)
    trainer = Trainer(n_epochs=max(epochs), learning_rate=head.learning_rate, callbacks=[watch])
    history = trainer.fit(task, steps.problem.validation)
    with torch.no_grad():
        classes = task.scores().argmax(1).numpy()
    return Outcome(classes, len(history)), watch.seen


def shown_nodes(data: NodeData, count: int = N_SHOWN) -> np.ndarray:
    """Return nodes for a picture: those found from nodes of a usual degree, sorted by class.

    Examples
    --------
    >>> from glnn.data.synthetic import path_graph
    >>> sorted(shown_nodes(path_graph(9), 3).tolist())
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
    """Count in a learned graph against the prior one; loops take no part in the counts.

    Returns
    -------
    dict
        ``distance``: of all weights to the prior graph's, relative to the latter's norm;
        ``sparsity``: share of pairs that are no edge; ``n_edges``; ``n_new``: edges that the
        prior graph lacks; ``n_lost``: its edges that are gone; ``equal_new``: how many new edges
        join equal classes, of the ``n_new_labelled`` with both classes known; ``picture``: the
        weights between the shown nodes.
    """
    n_nodes = prior.shape[0]
    dense = np.asarray(graph.toarray() if sp.issparse(graph) else graph, dtype=np.float32)
    given = prior.toarray().astype(np.float32)
    distance = float(np.linalg.norm(dense - given) / np.linalg.norm(given))
    edges, old = np.triu(dense > EDGE, k=1), np.triu(given > 0, k=1)
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
