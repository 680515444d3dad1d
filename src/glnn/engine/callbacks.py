"""What may watch a fit: each event has a method, and none may raise but to end the fit."""

import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import scipy.sparse as sp

from glnn.exceptions import DataFormatError, MissingDependencyError
from glnn.solver import LearnedGraph

# --- history: Append-only record of what happened in each epoch; JSON lines in and out

Record = dict[str, float | int | str]


class History:
    """The named numbers of each epoch, in order.

    Examples
    --------
    >>> history = History()
    >>> history.append({"epoch": 0, "loss": 1.5})
    >>> history.column("loss")
    [1.5]
    """

    def __init__(self) -> None:
        self._records: list[Record] = []

    def append(self, record: Record) -> None:
        """Add the record of one epoch."""
        self._records.append(dict(record))

    def extend(self, other: "History") -> None:
        """Add all records of another history."""
        for record in other:
            self.append(record)

    def column(self, name: str) -> list[float | int | str | None]:
        """Return one named number of every epoch, ``None`` where it was not recorded."""
        return [record.get(name) for record in self._records]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, index: int) -> Record:
        return self._records[index]

    def to_jsonl(self) -> str:
        """Return one line of JSON for each epoch; numbers that are not finite become null."""
        return "".join(json.dumps(_finite(record)) + "\n" for record in self._records)

    @classmethod
    def read(cls, path: Path) -> "History":
        """Read a file of JSON lines; a null becomes NaN."""
        history = cls()
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                raise DataFormatError(
                    f"{path.name} must hold one JSON object a line; line {number} is not JSON."
                ) from None
            if not isinstance(record, dict):
                raise DataFormatError(f"{path.name} line {number} must be a JSON object.")
            history.append({k: math.nan if v is None else v for k, v in record.items()})
        return history


def _finite(record: Record) -> dict[str, float | int | str | None]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }


# --- callbacks: What may watch a fit: each event has a method, and none may raise but to end the f

Memory = dict[str, tuple[Any, Mapping[str, float]]]
"""Graphs (CSR matrices) and numbers by name."""


@dataclass(frozen=True)
class Progress:
    """Where a fit stands: the stage, and how much of the whole is done."""

    stage: str
    epoch: int
    n_epochs: int


class Callback:
    """Base of all callbacks: does nothing at every event.

    ``may_lag`` says that epochs may be told of some time after they took place: a request to stop
    then comes some epochs late, and the network may be that of one of those. A callback that must
    stop at its epoch, or looks at the network, leaves it ``False``: trainings on a CUDA device
    then take one step at a time.
    """

    may_lag: bool = False

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Take note that a step begins; ``n_epochs`` is 0 for a graph step."""

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Take note of an epoch; return ``True`` to ask the loop to stop after it."""
        return False

    def on_stage_end(self, stage: str) -> None:
        """Take note that a step ended."""

    def on_graph(self, number: int, learned: LearnedGraph) -> None:
        """Take note of a solved graph problem, this process's rows of it; it may be a try."""

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Take note of the graph that a round ends with; a round that is undone has none."""

    def memory(self) -> Memory:
        """Return what a checkpoint is to keep: graphs and numbers by name; nothing by default."""
        return {}

    def recall(self, memory: Memory) -> None:
        """Take back what :meth:`memory` returned when the checkpoint was written."""


@contextmanager
def told_of_stage(callbacks: Sequence[Callback], name: str, n_epochs: int = 0) -> Iterator[None]:
    """Tell callbacks that a stage begins, and that it has ended unless it raises.

    Parameters
    ----------
    callbacks
        Who is told.
    name
        Of the stage.
    n_epochs
        How many epochs it has at most; 0: it has none.
    """
    for callback in callbacks:
        callback.on_stage_begin(name, n_epochs)
    yield
    for callback in callbacks:
        callback.on_stage_end(name)


class EarlyStopping(Callback):
    """Ask to stop when a monitored number has not improved for ``patience`` epochs."""

    def __init__(self, patience: int, monitor: str = "validation_loss") -> None:
        self.patience, self.monitor = patience, monitor
        self._best, self._waited = float("inf"), 0

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Start counting anew."""
        self._best, self._waited = float("inf"), 0

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Count epochs without improvement."""
        value = float(record.get(self.monitor, "inf"))
        if value < self._best:
            self._best, self._waited = value, 0
        else:
            self._waited += 1
        return self._waited >= self.patience


class GiveUp(Callback):
    """Ask to stop when, after some epochs, validation accuracy has never come near a rival's.

    Parameters
    ----------
    accuracy
        What must have been reached.
    grace
        Epochs before anybody looks.
    """

    may_lag = True  # heard late, the request only saves less time

    def __init__(self, accuracy: float, grace: int) -> None:
        self.accuracy, self.grace = accuracy, grace
        self._best = 0.0

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Look at the best epoch so far."""
        self._best = max(self._best, float(record.get("validation_accuracy", 1.0)))
        return int(record["epoch"]) >= self.grace and self._best < self.accuracy


class ProgressLog(Callback):
    """Tell a function how far the fit is, for a progress bar."""

    may_lag = True

    def __init__(self, report: Callable[[Progress], None]) -> None:
        self._report, self._n_epochs = report, 0

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Report the new stage."""
        self._n_epochs = n_epochs
        self._report(Progress(stage, 0, n_epochs))

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Report the finished epoch."""
        self._report(Progress(stage, int(record["epoch"]) + 1, self._n_epochs))
        return False


@runtime_checkable
class Writer(Protocol):
    """What lines can be written to."""

    def write(self, text: str, /) -> object:
        """Take some text."""


class StageLines(Callback):
    """Write a line for each stage that ended, as scikit-learn's ``verbose`` does.

    Parameters
    ----------
    stream
        Where to write; the standard output by default.
    """

    may_lag = True

    def __init__(self, stream: Writer | None = None) -> None:
        self._stream, self._began = stream, 0.0

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Look at the clock."""
        self._began = time.perf_counter()

    def on_stage_end(self, stage: str) -> None:
        """Write what took how long."""
        seconds = time.perf_counter() - self._began
        (self._stream or sys.stdout).write(f"[glnn] {stage:<16} {seconds:6.1f} s\n")


def stop_requested(callbacks: Sequence[Callback], stage: str, record: Record) -> bool:
    """Tell every callback of the epoch; return whether any of them asks to stop."""
    return any([c.on_epoch_end(stage, record) for c in callbacks])  # noqa: C419 - tell them all


# --- tensorboard: A callback that writes what TensorBoard shows


class TensorBoardLog(Callback):
    """Write every number of every epoch, and the edges of each round's graph, for TensorBoard.

    ``tensorboard --logdir FOLDER`` shows them while the fit runs. Each stage of training has its
    own group (``classifier 1/loss``), with the epoch as step; ``graph/edges`` has the round.

    Parameters
    ----------
    folder
        Where the events go.
    """

    may_lag = True

    def __init__(self, folder: str | Path) -> None:
        try:
            board: Any = importlib.import_module("torch.utils.tensorboard")
        except ImportError as error:
            raise MissingDependencyError(
                "this needs the package tensorboard, which is not installed. "
                "Install it with: pip install 'glnn[tensorboard]'"
            ) from error
        self._writer = board.SummaryWriter(str(folder))

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Write the numbers of the epoch."""
        for name, value in record.items():
            if name != "epoch" and isinstance(value, int | float):
                self._writer.add_scalar(f"{stage}/{name}", value, int(record["epoch"]))
        return False

    def on_stage_end(self, stage: str) -> None:
        """Let TensorBoard see all that was written."""
        self._writer.flush()

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Write how many edges this process's rows of the graph have."""
        self._writer.add_scalar("graph/edges", adjacency.nnz / 2, number)
        self._writer.flush()
