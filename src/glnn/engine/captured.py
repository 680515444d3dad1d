"""Training on a CUDA device with an epoch as one CUDA graph, replayed without the host.

Kernels of small graphs take microseconds, and asking for them one by one takes longer than running
them. So an epoch is recorded once and replayed; its numbers stay on the device until many epochs
are read at once.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glnn.engine.history import Record
from glnn.engine.task import RampedTask

READ_EVERY = 25
"""Epochs between two reads, where somebody waits for the numbers."""

FEWEST_EPOCHS = 10
"""Shorter trainings are over before a recording pays."""

Measure = Callable[[Tensor], tuple[Tensor, Tensor]]


class CaptureError(RuntimeError):
    """An epoch cannot be recorded; the task is as it was before the try."""


@dataclass(frozen=True)
class Schedule:
    """What a training is told before it begins.

    Parameters
    ----------
    learning_rate
        Adam's step size.
    deadlines
        One number an epoch: the last epoch that still counts if this one is the best so far.
    read_every
        Epochs between two reads.
    """

    learning_rate: float
    deadlines: tuple[float | int, ...]
    read_every: int = READ_EVERY


class CapturedEpochs:
    r"""Epochs of a task, recorded once and replayed.

    A replay judges the parameters that the epoch before has left (loss and accuracy on validation
    nodes, a copy of the best) on one stream while another computes the losses and gradients of
    this epoch: both only read. Then Adam writes. Judging an epoch after its deadline changes
    nothing, so the parameters kept are those that looking after each epoch would keep.

    Parameters
    ----------
    task
        A task whose losses are a function of tensors alone.
    schedule
        The optimiser's settings and when epochs stop to count.
    measure
        Loss and accuracy of all nodes' scores; ``None``: nothing is judged or kept.
    records
        Whether to record; otherwise each epoch is run step by step, on any device.
    """

    def __init__(
        self,
        task: RampedTask,
        schedule: Schedule,
        measure: Measure | None,
        *,
        records: bool = True,
    ) -> None:
        self._task, self._measure, self._schedule = task, measure, schedule
        groups = task.parameter_groups()
        self._parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        device = self._parameters[0].device
        self._optimizer = torch.optim.Adam(
            groups, lr=schedule.learning_rate, fused=True, capturable=device.type == "cuda"
        )
        n_epochs = len(schedule.deadlines)
        table = [(task.ramp(e), schedule.deadlines[e]) for e in range(n_epochs)]
        self._table = torch.tensor(table, dtype=torch.float32, device=device)
        self._epoch = torch.zeros(1, dtype=torch.int64, device=device)
        self._names: list[str] = []
        self._losses: Tensor | None = None
        self._measured = torch.full((n_epochs, 2), torch.nan, device=device)
        self._best_loss = torch.full((), torch.inf, device=device)
        self._deadline = torch.full((), torch.inf, device=device)
        self._live = list(task.module.state_dict().values())
        self._best = [tensor.clone() for tensor in self._live]
        is_cuda = device.type == "cuda"
        self._stream, self._side = (_new_stream(device) if is_cuda else None for _ in range(2))
        self._graph = self._prepared() if records else None

    def run(self, stage: str) -> Iterator[Record]:
        """Train, and yield the records of the epochs in order, some time after they took place."""
        n_epochs, n_read = len(self._schedule.deadlines), 0
        if self._graph is None:
            self._first_epoch()
        for start in range(1, n_epochs, self._schedule.read_every):
            if start > 1:  # all epochs but the last are judged
                yield from self._read(stage, n_read, start - 1)
                n_read = start - 1
            with self._on_stream():
                for _ in range(start, min(start + self._schedule.read_every, n_epochs)):
                    self._replay()
        if self._measure is not None:
            with self._on_stream():
                self._judge()
        yield from self._read(stage, n_read, n_epochs)

    def restore(self) -> None:
        """Give the task the best parameters, or leave it the last ones if nothing was judged."""
        if self._measure is not None:
            with self._on_stream():
                for live, best in zip(self._live, self._best):
                    live.copy_(best)
        for parameter in self._parameters:
            parameter.grad = None

    def _prepared(self) -> "torch.cuda.CUDAGraph":
        """Take the first epoch by hand, which loads what replays need, and record the next."""
        generators = self._task.generators()
        states = [generator.get_state() for generator in generators]
        before = [tensor.clone() for tensor in self._live]
        try:
            self._first_epoch()
            if self._measure is not None:
                with self._on_stream():
                    self._judge()
            graph = torch.cuda.CUDAGraph()
            for generator in generators:
                graph.register_generator_state(generator)
            torch.cuda.synchronize()
            with self._on_stream():
                graph.capture_begin()
                try:
                    self._next_epoch()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            for generator, state in zip(generators, states):
                generator.set_state(state)
            for parameter in self._parameters:
                parameter.grad = None
            for live, old in zip(self._live, before):
                live.copy_(old)
            raise CaptureError(str(error).strip().split("\n")[0]) from error
        return graph

    def _first_epoch(self) -> None:
        with self._on_stream():
            self._train()
            self._optimizer.step()
            self._epoch.add_(1)

    def _replay(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._next_epoch()

    def _next_epoch(self) -> None:
        """Judge the epoch before while this one is computed, then step."""
        if self._measure is not None:
            with self._beside():
                self._judge()
        self._train()
        if self._side is not None and self._measure is not None:
            torch.cuda.current_stream().wait_stream(self._side)
        self._optimizer.step()
        self._epoch.add_(1)

    def _train(self) -> None:
        """Compute losses and gradients; no node of autograd outlives the epoch."""
        ramp = self._table.index_select(0, self._epoch)[0, 0]
        terms = self._task.terms(ramp)
        values = torch.stack(list(terms.values()))
        total = values.sum()
        found = torch.autograd.grad(total, self._parameters, allow_unused=True)
        for parameter, gradient in zip(self._parameters, found):
            parameter.grad = gradient
        row = torch.cat([total[None], values]).detach()
        if self._losses is None:
            self._names = ["loss", *terms]
            n_epochs = len(self._schedule.deadlines)
            self._losses = torch.full((n_epochs, len(row)), torch.nan, device=row.device)
        self._losses.index_copy_(0, self._epoch, row[None])

    @torch.no_grad()
    def _judge(self) -> None:
        """Measure the parameters of the epoch before; keep them if they are the best in time."""
        assert self._measure is not None  # the callers have looked
        loss, accuracy = self._measure(self._task.scores())
        before = self._epoch - 1
        self._measured.index_copy_(0, before, torch.stack([loss, accuracy])[None])
        extended = self._table.index_select(0, before)[0, 1]
        is_better = (loss < self._best_loss) & (before[0] <= self._deadline)
        kept = [self._best_loss, self._deadline, *self._best]
        for old, new in zip(kept, [loss, extended, *self._live]):
            torch.where(is_better, new, old, out=old)

    def _read(self, stage: str, start: int, stop: int) -> Iterator[Record]:
        """Bring the numbers of some epochs to the host."""
        assert self._losses is not None  # the first epoch made it
        with self._on_stream():
            losses = self._losses[start:stop].tolist()
            measured = self._measured[start:stop].tolist()
        for place, (numbers, (loss, accuracy)) in enumerate(zip(losses, measured)):
            record: Record = {"stage": stage, "epoch": start + place}
            record |= dict(zip(self._names, numbers))
            if self._measure is not None:
                record |= {"validation_loss": loss, "validation_accuracy": accuracy}
            yield record

    def _on_stream(self) -> AbstractContextManager[None]:
        """Work on the stream of the replays, in order with the caller's."""
        return nullcontext() if self._stream is None else _in_order(self._stream)

    def _beside(self) -> AbstractContextManager[object]:
        """Work on the second stream, after what is under way."""
        if self._side is None:
            return nullcontext()
        self._side.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self._side)


def _new_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def _in_order(stream: Any) -> Iterator[None]:
    """Work on a stream after the current one's work; what follows there waits in turn."""
    outer = torch.cuda.current_stream(stream.device)
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)
