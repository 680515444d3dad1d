"""Training on a CUDA device with an epoch as one CUDA graph, replayed without the host.

Kernels of small graphs take microseconds, and asking for them one by one takes longer than running
them. So an epoch is recorded once and replayed; its numbers stay on the device until many epochs
are read at once.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from glnn.engine.epochs import READ_EVERY, Epochs
from glnn.engine.history import Record

FEWEST_EPOCHS = 10
"""Shorter trainings are over before a recording pays."""


class CaptureError(RuntimeError):
    """An epoch cannot be recorded; the task is as it was before the try."""


class CapturedEpochs:
    r"""Epochs of a training, recorded once and replayed.

    A replay judges the parameters that the epoch before has left (loss and accuracy on validation
    nodes, a copy of the best) on one stream while another computes the losses and gradients of
    this epoch: both only read. Then Adam writes.

    Parameters
    ----------
    epochs
        The work of an epoch.
    read_every
        Epochs between two reads.
    records
        Whether to record; otherwise each epoch is run step by step, on any device.
    """

    def __init__(
        self, epochs: Epochs, read_every: int = READ_EVERY, *, records: bool = True
    ) -> None:
        self._epochs, self._read_every = epochs, read_every
        device = epochs.device
        is_cuda = device.type == "cuda"
        self._stream, self._side = (_new_stream(device) if is_cuda else None for _ in range(2))
        self._graph = self._prepared() if records else None

    def run(self, stage: str) -> Iterator[Record]:
        """Train, and yield the records of the epochs in order, some time after they took place."""
        epochs, n_read, n_taken = self._epochs, 0, 1
        if self._graph is None:
            self._first_epoch()
        while n_taken < epochs.n_epochs:
            if n_taken > 1:  # all epochs but the last are judged
                yield from self._read(stage, n_read, n_taken - 1)
                n_read = n_taken - 1
            stop = self._next_stop(n_taken)
            with self._on_stream():
                for _ in range(n_taken, stop):
                    self._replay()
            n_taken = stop
        if epochs.judges:
            with self._on_stream():
                epochs.judge()
        yield from self._read(stage, n_read, epochs.n_epochs)

    def _next_stop(self, n_taken: int) -> int:
        """Return how many epochs are taken before the next read: none that no longer counts."""
        stop = min(n_taken + self._read_every, self._epochs.n_epochs)
        if not self._epochs.judges or n_taken == 1:
            return stop
        needed = self._epochs.last_needed() + 2  # the epoch after it judges it
        return stop if needed >= stop else max(n_taken + 1, int(needed))

    def restore(self) -> None:
        """Give the task the best parameters, or leave it the last ones if nothing was judged."""
        with self._on_stream():
            self._epochs.finish()

    def _prepared(self) -> "torch.cuda.CUDAGraph":
        """Take the first epoch by hand, which loads what replays need, and record the next."""
        epochs = self._epochs
        try:
            self._first_epoch()
            if epochs.judges:
                with self._on_stream():
                    epochs.judge()
            graph = torch.cuda.CUDAGraph()
            for generator in epochs.generators():
                graph.register_generator_state(generator)
            torch.cuda.synchronize()
            with self._on_stream():
                graph.capture_begin()
                try:
                    self._next_epoch()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            epochs.undo()
            raise CaptureError(str(error).strip().split("\n")[0]) from error
        return graph

    def _first_epoch(self) -> None:
        with self._on_stream():
            self._epochs.train()
            self._epochs.step()

    def _replay(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._next_epoch()

    def _next_epoch(self) -> None:
        """Judge the epoch before while this one is computed, then step."""
        if self._epochs.judges:
            with self._beside():
                self._epochs.judge()
        self._epochs.train()
        if self._side is not None and self._epochs.judges:
            torch.cuda.current_stream().wait_stream(self._side)
        self._epochs.step()

    def _read(self, stage: str, start: int, stop: int) -> Iterator[Record]:
        """Bring the numbers of some epochs to the host."""
        epochs = self._epochs
        with self._on_stream():
            losses = epochs.losses[start:stop].tolist()
            measured = epochs.measured[start:stop].tolist()
        for place, (numbers, (loss, accuracy)) in enumerate(zip(losses, measured)):
            record: Record = {"stage": stage, "epoch": start + place}
            record |= dict(zip(epochs.names, numbers))
            if epochs.judges:
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
