"""What is timed side by side: the presets of glnn, and what people use instead."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from glnn.data import NodeData, Split
from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import HeadSettings
from glnn.engine.trained import probabilities_of
from glnn.engine.trainer import Trainer, Validation
from glnn.graph.prior import prior_graph
from glnn.nn.features import Features
from glnn.solver import learn_graph
from glnn_lab.benches import rivals
from glnn_lab.benches.rivals import Ran
from glnn_lab.experiments.methods import get_method

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
        Contender(PLAIN_GCN, "plain GCN, PyTorch Geometric", rivals.pyg_gcn, "torch_geometric"),
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
            rivals.dense_form,
            most_repeats=3,
            bytes_a_pair=40,
        ),
        Contender(
            "pro-gnn",
            "Pro-GNN, DeepRobust",
            rivals.pro_gnn,
            "deeprobust",
            most_repeats=1,
            bytes_a_pair=60,
        ),
    )
}
