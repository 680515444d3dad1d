"""Callbacks of a fit and the history of its epochs. An exception in a callback aborts the fit."""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
    """Show the progress of a fit of at most so many epochs with tqdm, in a notebook or a terminal.

    A stage that ends early counts as whole.
    """

    may_lag = True

    def __init__(self, n_epochs: int) -> None:
        tqdm = importlib.import_module("tqdm.auto").tqdm
        self._bar: Any = tqdm(total=n_epochs, unit="step", desc="glnn")
        self._n_before, self._n_stage = 0, 0  # epochs of earlier stages, and most of this one

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Name the stage and fill the bar up to it."""
        self._bar.set_description(f"glnn: {stage.split(',')[0]}", refresh=False)
        self._n_before, self._n_stage = self._n_before + self._n_stage, n_epochs
        self.fill(self._n_before)

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Fill the bar up to the epoch."""
        self.fill(self._n_before + min(int(record["epoch"]) + 1, self._n_stage))
        return False

    def fill(self, n_done: float | int) -> None:
        """Fill the bar up to so many epochs, at most to its end."""
        self._bar.update(max(0, min(n_done, self._bar.total) - self._bar.n))

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


@contextmanager
def show_progress(
    callbacks: Sequence[Callback], n_epochs: int, *, is_shown: bool
) -> Iterator[list[Callback]]:
    """Yield the callbacks, with a bar among them if it is to be shown; at the end it is full."""
    if not is_shown:
        yield [*callbacks]
        return
    with closing(ProgressBar(n_epochs)) as bar:
        yield [*callbacks, bar]
        bar.fill(math.inf)
