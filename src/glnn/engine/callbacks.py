"""Callbacks of a fit and the history of its epochs. An exception in a callback aborts the fit."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from glnn.solver import LearnedGraph

# History of the epochs

Record = dict[str, float | int | str]


class History(list[Record]):
    """The records of all epochs, in order.

    Examples
    --------
    >>> History([{"epoch": 0, "loss": 1.5}]).column("loss")
    [1.5]
    """

    def column(self, name: str) -> list[float | int | str | None]:
        """Return one value of every epoch, ``None`` where it was not recorded."""
        return [record.get(name) for record in self]


# Callbacks

CallbackState = dict[str, tuple[Any, Mapping[str, float]]]  # by name: a CSR matrix and numbers


@dataclass(frozen=True)
class Progress:
    """The current stage and epoch of a fit."""

    stage: str
    epoch: int
    n_epochs: int
    note: str = ""  # what is known at the end of a fold


class Callback:
    """Base class of all callbacks; every method does nothing by default.

    With ``may_lag = True`` the calls for an epoch may come some epochs late, so that training on a
    CUDA device runs without waiting for the host. A request to stop then takes effect some epochs
    later, and the network may already be a later one. A callback that must stop at a certain
    epoch, or inspects the network, leaves it ``False``, which is slower.
    """

    may_lag: bool = False

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Handle the beginning of a stage; ``n_epochs`` is 0 for a graph step."""

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Handle the end of an epoch; return ``True`` to stop the training."""
        return False

    def on_stage_end(self, stage: str) -> None:
        """Handle the end of a stage."""

    def on_graph(self, number: int, learned: LearnedGraph) -> None:
        """Handle a learned graph (this process's rows); the fit may drop it later."""

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Handle the graph at the end of a round; folds of the labels have rounds of their own."""

    def on_fold_end(self, name: str, n_right: int, n_hidden: int) -> None:
        """Handle the end of a fold: how many of its hidden labels the tracks' mean predicts."""

    def state_dict(self) -> CallbackState:
        """Return the state to save in a checkpoint: graphs and numbers by name."""
        return {}

    def load_state_dict(self, state: CallbackState) -> None:
        """Restore the state that :meth:`state_dict` returned when the checkpoint was saved."""


@contextmanager
def notify_stage(callbacks: Sequence[Callback], name: str, n_epochs: int = 0) -> Iterator[None]:
    """Call the callbacks at the beginning of a stage and, unless it raises, at its end."""
    for callback in callbacks:
        callback.on_stage_begin(name, n_epochs)
    yield
    for callback in callbacks:
        callback.on_stage_end(name)


class StopIf(Callback):
    """Stop a training after an epoch if a function, which is called once, says so."""

    may_lag = True

    def __init__(self, epoch: int, is_hopeless: Callable[[], bool]) -> None:
        self._epoch, self._is_hopeless = epoch, is_hopeless

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Call the function if it is time."""
        return int(record["epoch"]) == self._epoch and self._is_hopeless()


class ProgressLog(Callback):
    """Pass the progress of the fit to a function, for a progress bar."""

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

    def on_fold_end(self, name: str, n_right: int, n_hidden: int) -> None:
        """Report how many hidden labels were predicted."""
        self._report(Progress(name, 0, 0, f"{n_right} of {n_hidden} hidden labels right"))


class ProgressBar(Callback):
    """Show the progress of a fit with tqdm: a widget in a notebook, a bar in a terminal.

    A stage that ends early counts as whole. Outside of :func:`show_progress` nothing is shown.
    """

    may_lag = True

    def __init__(self) -> None:
        self._bar: Any = None
        self._n_before, self._n_stage = 0, 0  # epochs of earlier stages, and most of this one

    def start(self, n_epochs: int) -> None:
        """Show an empty bar for at most so many epochs."""
        self._n_before = self._n_stage = 0
        tqdm = importlib.import_module("tqdm.auto").tqdm
        self._bar = tqdm(total=n_epochs, unit="step", desc="glnn")

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Name the stage and fill the bar up to it."""
        if self._bar is not None:
            self._bar.set_description(f"glnn: {stage.split(',')[0]}", refresh=False)
            self._n_before += self._n_stage
            self._n_stage = n_epochs
            self._fill(0)

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Fill the bar up to the epoch."""
        if self._bar is not None:
            self._fill(min(int(record["epoch"]) + 1, self._n_stage))
        return False

    def stop(self, *, is_done: bool) -> None:
        """Close the bar; it is full if the fit is done."""
        self._fill(self._bar.total if is_done else 0)
        self._bar.close()
        self._bar = None

    def _fill(self, n_here: int) -> None:
        n_done = min(self._n_before + n_here, self._bar.total)
        self._bar.update(max(0, n_done - self._bar.n))


@contextmanager
def show_progress(callbacks: Sequence[Callback], n_epochs: int) -> Iterator[None]:
    """Show the bars among the callbacks during a fit of at most so many epochs."""
    bars = [one for one in callbacks if isinstance(one, ProgressBar)]
    for bar in bars:
        bar.start(n_epochs)
    is_done = False
    try:
        yield
        is_done = True
    finally:
        for bar in bars:
            bar.stop(is_done=is_done)
