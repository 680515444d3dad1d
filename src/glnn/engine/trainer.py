"""The training loop: Adam, validation, early stopping, and the choice of the best epoch.

There is one loop, over the records of epochs. On a CUDA device these come from an epoch that is
captured once as a CUDA graph and replayed, elsewhere from epochs that run one by one. Both choose
the same epoch.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glnn.engine.callbacks import Callback, History, Record, notify_stage
from glnn.engine.tasks import Labels, RampedTask, TrainingTask
from glnn.exceptions import GlnnError, SlowPathWarning

# Gradients and Adam

_ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
_ADAM |= {"amsgrad": False, "maximize": False}


class Adam:
    """Fused ``torch.optim.Adam`` on parameter groups with an optional ``weight_decay`` each.

    It calls PyTorch's kernel: the optimiser class imports PyTorch's compiler, and its functional
    form takes as long again on a few numbers.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._decays = [group.get("weight_decay", 0.0) for group in groups]
        self._states = [  # parameter, means of gradients and of their squares, number of steps
            [
                (p, torch.zeros_like(p), torch.zeros_like(p), torch.zeros((), device=p.device))
                for p in group["params"]
            ]
            for group in groups
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for state, weight_decay in zip(self._states, self._decays):
            given = [row for row in state if row[0].grad is not None]
            if not given:
                continue
            parameters, means, squares, steps = (list(column) for column in zip(*given))
            grads = [parameter.grad for parameter in parameters]
            torch._foreach_add_(steps, 1)
            rates = {"lr": self._learning_rate, "weight_decay": weight_decay, **_ADAM}
            torch._fused_adam_(parameters, grads, means, squares, [], steps, **rates)


def clip_gradients(parameters: Sequence[Tensor], max_norm: float) -> None:
    """Scale the gradients so that their norm is at most ``max_norm``.

    As ``torch.nn.utils.clip_grad_norm_``, which takes a fifth of a step on a few rows.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.cat([grad.reshape(-1) for grad in grads]).norm()
    factor = (max_norm / (norm + 1e-6)).clamp_(max=1.0)
    torch._foreach_mul_(grads, factor)


class _Epochs:
    """A task with its optimiser."""

    def __init__(
        self, task: TrainingTask, rate: float, validation: Labels | None, mean_from: float | int
    ) -> None:
        self._task, self._validation = task, validation
        # epoch from which the parameters are averaged if there are no validation nodes
        self._mean_from = mean_from if validation is None else math.inf
        groups = task.parameter_groups()
        self._parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self._live = list(task.module.state_dict().values())
        is_chosen = validation is not None or mean_from < math.inf
        # parameters of the best epoch, or their mean
        self._kept = [tensor.clone() for tensor in self._live] if is_chosen else []
        self._optimizer = Adam(groups, rate)

    def _set_gradients(self, terms: Mapping[str, Tensor]) -> Tensor:
        """Set the gradients of the terms' sum, and return the terms' values.

        No autograd node outlives this call. Terms without one come with their gradients set.
        """
        values = torch.stack(list(terms.values()))
        if not values.requires_grad:
            return values
        found = torch.autograd.grad(values.sum(), self._parameters, allow_unused=True)
        for parameter, gradient in zip(self._parameters, found):  # Adam needs their own memory
            parameter.grad = None if gradient is None else gradient.contiguous()
        return values.detach()

    @torch.inference_mode()
    def _step(self) -> None:
        if self._task.max_gradient is not None:
            clip_gradients(self._parameters, self._task.max_gradient)
        self._optimizer.step()

    def _add_to_mean(self, share: float | Tensor) -> None:
        for mean, live in zip(self._kept, self._live):
            if mean.is_floating_point():
                mean.lerp_(live, share)

    def _load_state(self, tensors: Sequence[Tensor]) -> None:
        for live, wanted in zip(self._live, tensors):
            live.copy_(wanted)

    def restore(self) -> None:
        """Load the best or mean parameters into the task, or leave the last ones."""
        self._load_state(self._kept)
        self._task.module.zero_grad()


def mean_share(epoch: int, mean_from: float | int) -> float:
    """Return the share of an epoch in the mean from ``mean_from`` to it; 1 for earlier epochs.

    Examples
    --------
    >>> [mean_share(epoch, 2) for epoch in range(5)]
    [1.0, 1.0, 1.0, 0.5, 0.3333333333333333]
    """
    return 1 / max(1, epoch - mean_from + 1)


# Epochs one by one


class EagerEpochs(_Epochs):
    """Epochs that run one by one; the parameters of the best one, or their mean, are kept."""

    def run(self, stage: str, n_epochs: int) -> Iterator[Record]:
        """Train, and yield the record of each epoch when it has ended."""
        best_loss = math.inf
        for epoch in range(n_epochs):
            record: Record = {"stage": stage, "epoch": epoch, **self._train(epoch)}
            if self._validation is not None:
                with torch.no_grad():
                    loss, accuracy = map(float, self._task.validate(self._validation))
                record |= {"validation_loss": loss, "validation_accuracy": accuracy}
                if loss < best_loss:
                    best_loss = loss
                    self._kept = [tensor.clone() for tensor in self._live]
            elif epoch >= self._mean_from:
                self._add_to_mean(mean_share(epoch, self._mean_from))
            yield record

    def _train(self, epoch: int) -> Record:
        """Take a step, and return the loss and its terms before it."""
        terms = self._task.losses(epoch)
        values = self._reduce(self._set_gradients(terms))
        loss = values.sum().item()
        if math.isfinite(loss):  # otherwise the caller ends the training
            self._step()
        return {"loss": loss} | dict(zip(terms, values.tolist()))

    def _reduce(self, losses: Tensor) -> Tensor:
        """Sum gradients and losses over processes, in one message; return the losses."""
        peers = self._task.peers
        if peers.size == 1:
            return losses
        grads = [p.grad for p in self._task.module.parameters() if p.grad is not None]
        parts = [*grads, losses]
        flat = peers.all_reduce(torch.cat([part.reshape(-1) for part in parts]))
        *summed, losses = torch.split(flat, [part.numel() for part in parts])
        for grad, part in zip(grads, summed):
            grad.copy_(part.view_as(grad))
        return losses


# Epochs by replays of a CUDA graph

READ_EVERY = 25  # epochs between two copies of the numbers to the host, where they are needed
MIN_CAPTURE_EPOCHS = 10  # for shorter trainings a capture costs more than it saves


class CapturedEpochs(_Epochs):
    """Epochs of a training, captured once as a CUDA graph and replayed.

    All state is in tensors on the device. A replay validates the parameters of the previous epoch
    on one stream while another stream computes the losses and gradients of this epoch; both only
    read the parameters. Then Adam writes. An epoch after the deadline never becomes the best one,
    so the chosen parameters are those that early stopping at that epoch would choose. With
    ``capture=False`` each epoch runs eagerly, on any device.
    """

    _task: RampedTask

    def __init__(
        self,
        task: RampedTask,
        learning_rate: float,
        validation: Labels | None,
        deadlines: Sequence[float | int],  # per epoch: the last one to run if this is the best
        read_every: int,
        *,
        mean_from: float | int,
        capture: bool = True,
    ) -> None:
        super().__init__(task, learning_rate, validation, mean_from)
        self._n_epochs, self._read_every = len(deadlines), read_every
        device = self._parameters[0].device
        table = [
            (task.ramp(epoch), deadline, mean_share(epoch, mean_from))
            for epoch, deadline in enumerate(deadlines)
        ]
        self._table = torch.tensor(table, dtype=torch.float32, device=device)
        self._epoch = torch.zeros(1, dtype=torch.int64, device=device)
        self._names: list[str] = []  # of the columns of the losses
        self._losses = torch.empty(0, device=device)
        self._measured = torch.full((self._n_epochs, 2), torch.nan, device=device)
        self._best_loss = torch.full((), torch.inf, device=device)
        self._deadline = torch.full((), torch.inf, device=device)
        self._stream: Any = None
        self._side: Any = None
        if device.type == "cuda":
            self._stream, self._side = (torch.cuda.Stream(device) for _ in range(2))  # type: ignore[no-untyped-call]
        self._advance: Callable[[], None] = self._run_epoch
        if capture:
            self._advance = self._capture().replay
        else:
            self._run_first_epoch()

    def run(self, stage: str, n_epochs: int) -> Iterator[Record]:
        """Train, and yield the records of the epochs in order, up to ``read_every`` epochs late."""
        n_read, n_taken = 0, 1
        while n_taken < n_epochs:
            if n_taken > 1:  # all epochs but the last are validated
                yield from self._read(stage, n_read, n_taken - 1)
                n_read = n_taken - 1
            stop = self._next_stop(n_taken)
            with self._on_stream():
                for _ in range(n_taken, stop):
                    self._advance()
            n_taken = stop
        if self._validation is not None:
            with self._on_stream():
                self._validate_previous()
        yield from self._read(stage, n_read, n_epochs)

    def restore(self) -> None:  # noqa: D102
        with self._on_stream():
            super().restore()

    def _next_stop(self, n_taken: int) -> int:
        """Return the epoch of the next read, at the latest the one where early stopping ends."""
        stop = min(n_taken + self._read_every, self._n_epochs)
        if self._validation is None or n_taken == 1:
            return stop
        needed = float(self._deadline) + 2  # an epoch is validated in the next one
        return stop if needed >= stop else max(n_taken + 1, int(needed))

    def _capture(self) -> "torch.cuda.CUDAGraph":
        """Run the first epoch eagerly, which loads the kernels, and capture the next one.

        Where that fails, the task is as before.
        """
        generators = self._task.generators()
        states, first = [g.get_state() for g in generators], [t.clone() for t in self._live]
        try:
            self._run_first_epoch()
            if self._validation is not None:
                with self._on_stream():
                    self._validate_previous()
            graph = torch.cuda.CUDAGraph()
            for generator in generators:
                graph.register_generator_state(generator)
            torch.cuda.synchronize()
            with self._on_stream():
                graph.capture_begin()
                try:
                    self._run_epoch()
                finally:
                    graph.capture_end()
        except RuntimeError:
            for generator, state in zip(generators, states):
                generator.set_state(state)
            self._load_state(first)
            self._task.module.zero_grad()
            raise
        return graph

    def _run_first_epoch(self) -> None:
        with self._on_stream():
            self._train()
            self._step()

    def _run_epoch(self) -> None:
        """Validate the previous epoch while this one is computed, then step."""
        if self._validation is not None:
            with self._on_side_stream():
                self._validate_previous()
        self._train()
        if self._side is not None and self._validation is not None:
            torch.cuda.current_stream().wait_stream(self._side)
        self._step()

    def _train(self) -> None:
        """Compute losses and gradients."""
        ramp = self._table.index_select(0, self._epoch)[0, 0]
        terms = self._task.terms(ramp)
        values = self._set_gradients(terms)
        row = torch.cat([values.sum()[None], values])
        if not self._names:
            self._names = ["loss", *terms]
            self._losses = torch.full((self._n_epochs, len(row)), torch.nan, device=row.device)
        self._losses.index_copy_(0, self._epoch, row[None])

    @torch.no_grad()
    def _validate_previous(self) -> None:
        """Evaluate the parameters of the previous epoch; keep them if they are the best so far."""
        assert self._validation is not None  # checked by the callers
        loss, accuracy = self._task.validate(self._validation)
        before = self._epoch - 1
        self._measured.index_copy_(0, before, torch.stack([loss, accuracy])[None])
        extended = self._table.index_select(0, before)[0, 1]
        is_better = (loss < self._best_loss) & (before[0] <= self._deadline)
        kept = [self._best_loss, self._deadline, *self._kept]
        for old, new in zip(kept, [loss, extended, *self._live]):
            torch.where(is_better, new, old, out=old)

    def _step(self) -> None:
        super()._step()
        if self._mean_from < math.inf:
            self._add_to_mean(self._table.index_select(0, self._epoch)[0, 2])
        self._epoch.add_(1)

    def _read(self, stage: str, start: int, stop: int) -> Iterator[Record]:
        """Copy the numbers of some epochs to the host."""
        with self._on_stream():
            losses = self._losses[start:stop].tolist()
            measured = self._measured[start:stop].tolist()
        for place, (numbers, (loss, accuracy)) in enumerate(zip(losses, measured)):
            record: Record = {"stage": stage, "epoch": start + place}
            record |= dict(zip(self._names, numbers))
            if self._validation is not None:
                record |= {"validation_loss": loss, "validation_accuracy": accuracy}
            yield record

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """Use the stream of the replays after the caller's queued work, which then waits for it."""
        if self._stream is None:
            yield
            return
        outer = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(outer)
        with torch.cuda.stream(self._stream):
            yield
        outer.wait_stream(self._stream)

    def _on_side_stream(self) -> AbstractContextManager[object]:
        """Use the second stream, after the work already queued."""
        if self._side is None:
            return nullcontext()
        self._side.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self._side)


# The trainer


@dataclass(kw_only=True, eq=False)
class Trainer:
    """Minimise a task's objective with Adam.

    With validation nodes the epoch with the lowest validation loss is kept, and training stops
    after ``patience`` epochs without a lower loss, counted from epoch ``grace`` at the earliest.
    Without validation nodes the last epoch is kept, or the mean of the parameters over
    ``averaged_share`` of the epochs, the last ones. Callbacks may also ask to stop.

    On a CUDA device a :class:`~glnn.engine.tasks.RampedTask` is trained by replaying one captured
    epoch, unless a callback has ``may_lag = False``. The chosen epoch is the same.
    """

    n_epochs: int
    learning_rate: float
    patience: int | None = None
    grace: int = 0
    averaged_share: float = 0.0
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        n_averaged = int(self.averaged_share * self.n_epochs)
        self._mean_from = self.n_epochs - n_averaged if self.averaged_share else math.inf
        self._may_lag = all(callback.may_lag for callback in self.callbacks)

    def fit(
        self, task: TrainingTask, validation: Labels | None = None, *, stage: str = "classifier"
    ) -> History:
        """Train in place; afterwards the module has the parameters of the chosen epoch."""
        history = History()
        best_loss, best_epoch = math.inf, None
        with notify_stage(self.callbacks, stage, self.n_epochs):
            given = (task, self.learning_rate, validation, self._mean_from)
            epochs = self._try_capture(task, validation) or EagerEpochs(*given)
            for epoch, record in enumerate(epochs.run(stage, self.n_epochs)):
                if not math.isfinite(float(record["loss"])):
                    raise _divergence_error(epoch, stage, record)
                loss = float(record.get("validation_loss", math.inf))
                if loss < best_loss:
                    best_loss, best_epoch = loss, epoch
                history.append(record)
                is_asked = any([c.on_epoch_end(stage, record) for c in self.callbacks])  # noqa: C419
                if task.peers.size > 1 and not self._may_lag:
                    is_asked = task.peers.all_reduce(float(is_asked), "max") > 0
                if is_asked or epoch >= self._deadline(best_epoch):
                    break
            epochs.restore()
        return history

    def _deadline(self, best_epoch: int | None) -> float | int:
        """Return the last epoch to run if ``best_epoch`` remains the best."""
        if self.patience is None or best_epoch is None:
            return math.inf
        return max(best_epoch, self.grace) + self.patience

    def _try_capture(self, task: TrainingTask, validation: Labels | None) -> CapturedEpochs | None:
        """Return the captured epochs of a task, or ``None`` if it cannot be captured."""
        if not isinstance(task, RampedTask) or task.peers.size > 1 or not self._may_lag:
            return None
        device = next(task.module.parameters()).device
        if device.type != "cuda" or self.n_epochs < MIN_CAPTURE_EPOCHS:
            return None
        is_read = self.callbacks or self.patience is not None
        deadlines = [self._deadline(epoch) for epoch in range(self.n_epochs)]
        given = (task, self.learning_rate, validation, deadlines)
        read_every = READ_EVERY if is_read else self.n_epochs
        try:
            return CapturedEpochs(*given, read_every, mean_from=self._mean_from)
        except RuntimeError as error:
            reason = str(error).strip().split("\n")[0]
            warnings.warn(
                f"epochs run one by one, because none could be captured: {reason}",
                SlowPathWarning,
                stacklevel=3,
            )
        return None


def _divergence_error(epoch: int, stage: str, record: Record) -> GlnnError:
    """Return the error for a loss that is not finite, naming its terms that are not."""
    terms = {name: part for name, part in record.items() if name not in ("stage", "epoch", "loss")}
    named = [f"{n} is {v}" for n, v in terms.items() if not math.isfinite(float(v))]
    return GlnnError(
        f"training diverged in epoch {epoch} of {stage}: "
        f"{', '.join(named) or 'the sum of all losses is ' + str(record['loss'])}. "
        "Scale the features or lower learning_rate."
    )
