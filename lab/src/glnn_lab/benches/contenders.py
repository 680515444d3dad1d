"""The contenders of the benchmark: presets of glnn and other programs."""

import contextlib
import dataclasses
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from glnn.data import NodeData, Split
from glnn.engine.callbacks import Callback, Record
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.settings import HeadSettings
from glnn.engine.steps import predict_probabilities
from glnn.engine.tasks import ClassifierTask, Labels
from glnn.engine.trainer import Trainer
from glnn.estimator import GLNNClassifier
from glnn.graph.prior import prior_graph
from glnn.nn.features import Features
from glnn.solver import learn_graph
from glnn_lab.baselines.networks import import_layers
from glnn_lab.experiments.methods import get_method, visible_labels

# Other programs, used as in their own examples; for timing only

EPOCHS = 200
_DENSE_EPOCHS = 4
_PRO_GNN_EPOCHS, _PRO_GNN_MEASURED = 400, 1


@dataclass(frozen=True, eq=False)
class RunResult:
    """The result of a run."""

    classes: np.ndarray | None  # None if the run was not complete
    n_epochs: int
    seconds: float | None = None  # extrapolated from a few epochs; None if the run was complete
    note: str = ""


def pyg_gcn(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> RunResult:
    """Train the plain network on dense features and evaluate it after each epoch."""
    conv = import_layers().GCNConv
    torch.manual_seed(seed)
    x, edges, y = _dense_tensors(data)
    train, val = torch.from_numpy(np.array(split.train)), torch.from_numpy(np.array(split.val))
    first = conv(x.shape[1], 16, cached=True)
    second = conv(16, data.n_classes, cached=True)
    decayed = {"params": first.parameters(), "weight_decay": 5e-4}
    optimizer = torch.optim.Adam([decayed, {"params": second.parameters()}], lr=0.01)

    def logits(training: bool) -> Tensor:
        hidden = functional.relu(first(functional.dropout(x, 0.5, training), edges))
        out: Tensor = second(functional.dropout(hidden, 0.5, training), edges)
        return out

    found, best = np.empty(0, np.int64), -1.0
    for _ in range(n_epochs or EPOCHS):
        optimizer.zero_grad()
        functional.cross_entropy(logits(True)[train], y[train]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            classes = logits(False).argmax(1)
            right = float((classes[val] == y[val]).float().mean()) if len(val) else 0.0
        if right >= best:
            best, found = right, classes.numpy()
    return RunResult(found, n_epochs or EPOCHS)


def _dense_tensors(data: NodeData) -> tuple[Tensor, Tensor, Tensor]:
    """Return features with rows of sum one, both directions of each edge, and labels."""
    assert data.graph is not None
    x = torch.from_numpy(data.features.toarray())
    if float(x.min()) >= 0:
        x = x / x.sum(1, keepdim=True).clamp(min=1e-12)
    pairs = data.graph.tocoo()
    edges = torch.from_numpy(np.stack([pairs.row, pairs.col]).astype(np.int64))
    return x, edges, torch.from_numpy(data.labels.copy())


class _Clock(Callback):
    """Record the end time of each epoch."""

    def __init__(self) -> None:
        self.began, self.times = 0.0, list[float]()

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        self.began = time.perf_counter()

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        self.times.append(time.perf_counter())
        return False


def dense_form(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> RunResult:
    """Run a few epochs of the paper's dense form and extrapolate to 200."""
    clock, began = _Clock(), time.perf_counter()
    measured = n_epochs or _DENSE_EPOCHS
    model = GLNNClassifier(
        "literal", n_epochs=measured, random_state=seed, callbacks=[clock], calibrate=None
    )
    validation = split.val if split.val.size else None
    model.fit(data.features, visible_labels(data, split), data.graph, validation)
    epoch = float(np.median(np.diff([clock.began, *clock.times])))
    setup = clock.began - began
    return RunResult(None, EPOCHS, setup + EPOCHS * epoch, f"{measured} epochs scaled to {EPOCHS}")


def pro_gnn(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> RunResult:
    """Run one epoch of Pro-GNN with its authors' settings and extrapolate to their 400."""
    with _silence():
        from deeprobust.graph.defense import GCN, ProGNN
    assert data.graph is not None
    torch.manual_seed(seed)
    x = torch.from_numpy(data.features.toarray())
    adjacency = torch.from_numpy(data.graph.toarray())
    y = torch.from_numpy(data.labels.copy())
    arguments = SimpleNamespace(
        **{"lr": 0.01, "weight_decay": 5e-4, "lr_adj": 0.01, "alpha": 5e-4, "beta": 1.5},
        **{"gamma": 1.0, "lambda_": 0.0, "phi": 0.0, "inner_steps": 2, "outer_steps": 1},
        **{"epochs": n_epochs or _PRO_GNN_MEASURED, "symmetric": False, "only_gcn": False},
        debug=False,
    )
    with _silence():
        network: Any = GCN(x.shape[1], 16, data.n_classes, dropout=0.5, device="cpu")
        began = time.perf_counter()
        model = ProGNN(network, arguments, "cpu")
        model.fit(x, adjacency, y, np.array(split.train), np.array(split.val))
        seconds = time.perf_counter() - began
    scaled = seconds / arguments.epochs * _PRO_GNN_EPOCHS
    note = f"{arguments.epochs} epoch scaled to {_PRO_GNN_EPOCHS}"
    return RunResult(None, _PRO_GNN_EPOCHS, scaled, note)


@contextlib.contextmanager
def _silence() -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


# Contenders

PLAIN_GCN = "pyg-gcn"  # the contender that all others are compared with


@dataclass(frozen=True)
class Contender:
    """One row of the table.

    ``run`` is the timed function of data, split, seed and number of epochs (``None``: its own).
    """

    name: str
    title: str
    run: Callable[[NodeData, Split, int, int | None], RunResult]
    package: str | None = None  # package that must be installed
    epochs_of: str | None = None  # contender whose number of epochs is used
    max_repeats: int = 10**6  # fewer for slow contenders
    bytes_per_pair: int = 0  # memory per pair of nodes, if all pairs are stored


def _run_method(name: str) -> Callable[[NodeData, Split, int, int | None], RunResult]:
    def run(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> RunResult:
        outcome = get_method(name).run(data, split, seed, {})
        return RunResult(outcome.classes, outcome.n_epochs)

    return run


def fit_in_folds(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> RunResult:
    """Fit the default without validation nodes, with labels hidden in five folds instead."""
    without = dataclasses.replace(split, val=split.val[:0])
    return _run_method("glnn")(data, without, seed, n_epochs)


def engine_gcn(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> RunResult:
    """Train a plain two-layer GCN on the given graph with our trainer."""
    assert data.graph is not None
    settings = HeadSettings(n_epochs=n_epochs or 200)
    scaled = Scaling.fit(data.features).apply(data.features)
    train = np.array(split.train)  # a copy, since tensors are writable
    labels = Labels(train, data.labels[train], data.n_nodes, data.n_classes)
    task = ClassifierTask(
        prior_graph(data.graph, "renormalized"),
        Features.of(scaled),
        labels,
        settings,
        init=make_generator(seed, 1, 0),
        noise=make_generator(seed, 1, 1),
    )
    trainer = Trainer(n_epochs=settings.n_epochs, learning_rate=settings.learning_rate)
    trainer.fit(task, _validation(data, split))
    return RunResult(predict_probabilities(task).argmax(1), settings.n_epochs)


def graph_over_all_pairs(
    data: NodeData, split: Split, seed: int, n_epochs: int | None
) -> RunResult:
    """Learn the graph over all pairs of nodes, without a classifier."""
    certificate = learn_graph(data.features, data.graph, support="all").certificate
    return RunResult(None, 0, note=f"{certificate.n_pairs_checked:,} pairs checked")


def _validation(data: NodeData, split: Split) -> Labels | None:
    if not split.val.size:
        return None
    return Labels(np.array(split.val), data.labels[split.val], data.n_nodes, data.n_classes)


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(PLAIN_GCN, "plain GCN, PyTorch Geometric", pyg_gcn, "torch_geometric"),
        Contender("glnn-default", "GLNN, preset default", _run_method("glnn")),
        Contender("glnn-folds", "GLNN, preset default, five folds", fit_in_folds, max_repeats=3),
        Contender("glnn-paper", "GLNN, preset paper", _run_method("glnn-paper")),
        Contender(
            "own-gcn-default",
            "plain GCN, our engine, epochs of default",
            engine_gcn,
            epochs_of="glnn-default",
        ),
        Contender(
            "own-gcn-paper",
            "plain GCN, our engine, epochs of paper",
            engine_gcn,
            epochs_of="glnn-paper",
        ),
        Contender("all-pairs", "learn_graph, support all", graph_over_all_pairs, max_repeats=1),
        Contender(
            "label-spreading", "label spreading, scikit-learn", _run_method("label_spreading")
        ),
        Contender(
            "dense",
            "the paper's dense form, PyTorch",
            dense_form,
            max_repeats=3,
            bytes_per_pair=40,
        ),
        Contender(
            "pro-gnn",
            "Pro-GNN, DeepRobust",
            pro_gnn,
            "deeprobust",
            max_repeats=1,
            bytes_per_pair=60,
        ),
    )
}
