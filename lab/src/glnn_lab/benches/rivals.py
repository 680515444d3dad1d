"""Programs that people use instead, written as their users write them, for timing alone."""

import contextlib
import io
import time
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from glnn.data import NodeData, Split
from glnn.engine.callbacks import Callback
from glnn.engine.history import Record
from glnn.estimator import GLNNClassifier
from glnn_lab.baselines.pyg import layers
from glnn_lab.experiments.methods import masked_labels

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
