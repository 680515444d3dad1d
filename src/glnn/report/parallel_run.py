"""One run over several processes: each reads the data and keeps its rows, process 0 reports."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glnn.estimator import GLNNClassifier
from glnn.peers import Peers
from glnn.peers.group import agreed
from glnn.report.fit_run import (
    FitOptions,
    Watch,
    compared_score,
    results_of,
    threads_for,
    visible_labels,
)
from glnn.report.results import FitResults
from glnn.report.run_folder import prepare_folder, remove_if_empty
from glnn.report.sources import OpenedSource, Reading


@dataclass(frozen=True)
class Start:
    """What is known before a fit: where its run will lie, what to tell, how long it may take."""

    folder: Path
    notes: tuple[str, ...]
    n_epochs: int
    n_nodes: int

    def withdraw(self, peers: Peers) -> None:
        """Take back the run folder if nothing was written into it."""
        if peers.rank == 0:
            remove_if_empty(self.folder)


def prepared(
    peers: Peers, reading: Reading, options: FitOptions, out: Path | None, overwrite: bool
) -> Start:
    """Check options and data in every process, the run folder in process 0; keep no data."""
    found: list[Start] = []

    def check() -> None:
        options.check()
        opened, _ = reading.open()
        data = opened.data
        folder = out or Path("runs") / f"{data.name}-{options.preset}-{options.seed}"
        if peers.rank == 0:
            prepare_folder(folder, overwrite=overwrite)
        n_epochs = options.expected_epochs(has_graph=data.graph is not None)
        found.append(Start(folder, opened.notes, n_epochs, data.n_nodes))

    agreed(peers, check)
    return found[0]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit that is done: in process 0 with the model."""

    model: GLNNClassifier
    seconds: float


def fit_together(
    peers: Peers,
    reading: Reading,
    options: FitOptions,
    n_nodes: int,
    checkpoint: Path | None = None,
    watch: Watch | None = None,
) -> Fitted:
    """Fit with the other processes; each reads the data and keeps its rows.

    Parameters
    ----------
    peers
        The processes.
    reading
        The data.
    options
        How to fit. Unless it says otherwise, each of several processes has one thread: they
        share the processors.
    n_nodes
        Number of nodes.
    checkpoint
        Folder of the state after each round, or ``None``.
    watch
        Told how far the work is.
    """

    def arguments() -> tuple[Any, ...]:
        opened, split = reading.open()
        data = opened.data
        return data.features, visible_labels(data, split), data.graph, split.val

    model = options.estimator(watch)
    started = time.perf_counter()
    with threads_for(n_nodes if peers.size == 1 else 0, options.threads):
        model.fit_over(peers, arguments, checkpoint=checkpoint)
    return Fitted(model, time.perf_counter() - started)


@dataclass(frozen=True, eq=False)
class WholeRun:
    """What process 0 writes down."""

    opened: OpenedSource
    results: FitResults
    model: GLNNClassifier


def reported(
    reading: Reading, options: FitOptions, fitted: Fitted, compared: Sequence[str]
) -> WholeRun:
    """Read the data again, run the methods to compare, and count."""
    opened, split = reading.open()
    with threads_for(0, options.threads):
        others = [compared_score(name, opened.data, split, options.seed, None) for name in compared]
    results = results_of(opened, split, options, fitted.model, fitted.seconds, others)
    return WholeRun(opened, results, fitted.model)
