"""What is timed side by side: the presets of glnn, and what people use instead."""

import contextlib
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
from glnn.engine.inputs import Scaling, generator_for
from glnn.engine.settings import HeadSettings
from glnn.engine.steps import probabilities_of
from glnn.engine.tasks import ClassifierTask, Labels
from glnn.engine.trainer import Trainer, Validation
from glnn.estimator import GLNNClassifier
from glnn.graph.prior import prior_graph
from glnn.nn.features import Features
from glnn.solver import learn_graph
from glnn_lab.baselines.networks import layers
from glnn_lab.experiments.methods import get_method, masked_labels

# --- rivals: Programs that people use instead, written as their users write them, for timing alone

EPOCHS = 200
_DENSE_EPOCHS = 4
_PRO_GNN_EPOCHS, _PRO_GNN_MEASURED = 400, 1


@dataclass(frozen=True, eq=False)
class Ran:
    """What a run gives back: classes if it went to its end, epochs, and its scaled seconds.

    ``seconds`` is set where only a few epochs were run and the whole was computed from them;
    ``note`` then says so.
    """

    classes: np.ndarray | None
    n_epochs: int
    seconds: float | None = None
    note: str = ""


def pyg_gcn(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> Ran:
    """Train the plain network on dense features and evaluate it after each epoch."""
    conv = layers().GCNConv
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
    return Ran(found, n_epochs or EPOCHS)


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
    """Takes down when each epoch ended."""

    def __init__(self) -> None:
        self.began, self.times = 0.0, list[float]()

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        self.began = time.perf_counter()

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        self.times.append(time.perf_counter())
        return False


def dense_form(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> Ran:
    """Run a few epochs of the paper's form with all N² entries, and scale them to 200."""
    clock, began = _Clock(), time.perf_counter()
    measured = n_epochs or _DENSE_EPOCHS
    model = GLNNClassifier(
        "literal", n_epochs=measured, random_state=seed, callbacks=[clock], calibrate=None
    )
    validation = split.val if split.val.size else None
    model.fit(data.features, masked_labels(data, split), data.graph, validation)
    epoch = float(np.median(np.diff([clock.began, *clock.times])))
    setup = clock.began - began
    return Ran(None, EPOCHS, setup + EPOCHS * epoch, f"{measured} epochs scaled to {EPOCHS}")


def pro_gnn(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> Ran:
    """Run an epoch of Pro-GNN with its authors' settings, and scale it to their 400."""
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
    return Ran(None, _PRO_GNN_EPOCHS, scaled, note)


@contextlib.contextmanager
def _silence() -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


# --- contenders: What is timed side by side: the presets of glnn, and what people use instead

PLAIN_GCN = "pyg-gcn"
"""The contender that every other one is compared with."""


@dataclass(frozen=True)
class Contender:
    """One row of the table.

    Parameters
    ----------
    name, title
        Its short name, and its words in the table.
    run
        Takes data, split, seed and a number of epochs (``None``: its own); what it does is what
        is timed.
    package
        What must be installed for it.
    epochs_of
        The contender whose number of epochs it takes.
    most_repeats
        It runs in so many repeats at most: slow ones need not run in each.
    bytes_a_pair
        Memory for each pair of nodes, where it holds all of them at once.
    """

    name: str
    title: str
    run: Callable[[NodeData, Split, int, int | None], Ran]
    package: str | None = None
    epochs_of: str | None = None
    most_repeats: int = 10**6
    bytes_a_pair: int = 0


def _method(name: str) -> Callable[[NodeData, Split, int, int | None], Ran]:
    def run(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> Ran:
        outcome = get_method(name).run(data, split, seed, {})
        return Ran(outcome.classes, outcome.n_epochs)

    return run


def engine_gcn(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> Ran:
    """Train the paper's plain two-layer network in our own loop, on the given graph alone."""
    assert data.graph is not None
    settings = HeadSettings(n_epochs=n_epochs or 200)
    scaled = Scaling.fit(data.features).apply(data.features)
    train = np.array(split.train)  # its own copy: a tensor may write
    labels = Labels(train, data.labels[train], data.n_nodes, data.n_classes)
    task = ClassifierTask(
        prior_graph(data.graph, "renormalized"),
        Features.of(scaled),
        labels,
        settings,
        init=generator_for(seed, 1, 0),
        noise=generator_for(seed, 1, 1),
    )
    trainer = Trainer(n_epochs=settings.n_epochs, learning_rate=settings.learning_rate)
    trainer.fit(task, _validation(data, split))
    return Ran(probabilities_of(task).argmax(1), settings.n_epochs)


def graph_over_all_pairs(data: NodeData, split: Split, seed: int, n_epochs: int | None) -> Ran:
    """Learn the exact graph alone, every pair of nodes checked."""
    certificate = learn_graph(data.features, data.graph, support="all").certificate
    return Ran(None, 0, note=f"{certificate.n_pairs_checked:,} pairs checked")


def _validation(data: NodeData, split: Split) -> Validation | None:
    if not split.val.size:
        return None
    nodes = torch.from_numpy(np.array(split.val))
    return Validation(nodes, torch.from_numpy(data.labels[split.val]))


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(PLAIN_GCN, "plain GCN, PyTorch Geometric", pyg_gcn, "torch_geometric"),
        Contender("glnn-default", "GLNN, preset default", _method("glnn")),
        Contender("glnn-paper", "GLNN, preset paper", _method("glnn-paper")),
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
        Contender("all-pairs", "learn_graph, support all", graph_over_all_pairs, most_repeats=1),
        Contender("label-spreading", "label spreading, scikit-learn", _method("label_spreading")),
        Contender(
            "dense",
            "the paper's dense form, PyTorch",
            dense_form,
            most_repeats=3,
            bytes_a_pair=40,
        ),
        Contender(
            "pro-gnn",
            "Pro-GNN, DeepRobust",
            pro_gnn,
            "deeprobust",
            most_repeats=1,
            bytes_a_pair=60,
        ),
    )
}
