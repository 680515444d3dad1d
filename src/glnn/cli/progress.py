"""A bar on a terminal, a line a stage elsewhere; both driven by the same events."""

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from glnn.engine.callbacks import Progress as Event


class StageProgress:
    """Show where a fit stands; use as a context, and call with each event.

    Parameters
    ----------
    console
        Where to show it.
    n_epochs
        Epochs of all stages together as far as known, for the time left; it may grow.
    quiet
        Show nothing.
    """

    def __init__(self, console: Console, n_epochs: int, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task("reading", total=n_epochs)
        self._n_done, self._total = 0, n_epochs
        self._stage, self._began = "", 0.0

    def __enter__(self) -> "StageProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if error is None:
            self._end_stage()

    def __call__(self, event: "Event") -> None:
        """Take note of an event."""
        if event.epoch:
            self._n_done += 1
            self._bar.advance(self._task)
            return
        self._end_stage()
        self._stage, self._began = event.stage, time.perf_counter()
        self._total = max(self._total, self._n_done + event.n_epochs)
        self._bar.update(self._task, description=event.stage, total=self._total)

    def _end_stage(self) -> None:
        if self._stage and not self._quiet:
            seconds = time.perf_counter() - self._began
            self._console.print(f"  {self._stage:<22} {seconds:6.1f} s", highlight=False)
        self._stage = ""
