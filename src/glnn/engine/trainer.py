"""The training loop: Adam, validation, early stopping, and the choice of the best epoch.

There is one loop, over the records of epochs. On a CUDA device these come from an epoch that is
captured once as a CUDA graph and replayed, elsewhere from epochs that run one by one. Both choose
the same epoch.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from glnn._utils import check_integer, check_number
from glnn.distributed import Peers
from glnn.engine.callbacks import Callback, History, Record, notify_epoch_end, notify_stage
from glnn.engine.tasks import RampedTask, TrainingTask, Validation
from glnn.exceptions import GlnnError, SlowPathWarning

# Adam through PyTorch's functional form


class Adam:
    """Fused ``torch.optim.Adam`` on parameter groups with an optional ``weight_decay`` each."""

    def __init__(self, groups: Sequence[dict[str, Any]], learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._groups = [
            _ParameterGroup(list(g["params"]), g.get("weight_decay", 0.0)) for g in groups
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for group in self._groups:
            group.step(self._learning_rate)


class _ParameterGroup:
    """Parameters with one weight decay, with their moments and step counts."""

    def __init__(self, parameters: list[Tensor], weight_decay: float) -> None:
        self._parameters, self._weight_decay = parameters, weight_decay
        self._means, self._squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
        self._steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in parameters]

    def step(self, learning_rate: float) -> None:
        state = (self._parameters, self._means, self._squares, self._steps)
        given = [row for row in zip(*state) if row[0].grad is not None]
        if not given:
            return
        parameters, means, squares, steps = (list(column) for column in zip(*given))
        adam(
            parameters,
            [parameter.grad for parameter in parameters],
            means,
            squares,
            [],
            steps,
            fused=True,
            capturable=parameters[0].is_cuda,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )


def clip_gradients(parameters: Sequence[Tensor], max_norm: float) -> None:
    """Scale the gradients so that their norm is at most ``max_norm``.

    As ``torch.nn.utils.clip_grad_norm_``, which takes a fifth of a step on a few rows.
    """
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.cat([grad.reshape(-1) for grad in grads]).norm()
    factor = (max_norm / (norm + 1e-6)).clamp_(max=1.0)
    for grad in grads:
        grad.mul_(factor)


# One epoch on the device, without synchronising with the host

READ_EVERY = 25  # epochs between two copies of the numbers to the host, where they are needed


class Epochs:
    """The parts of an epoch, with all state in tensors on the device, so that they can be captured.

    ``losses`` has one row per epoch: the total and the terms, as in ``names``. ``measured`` has
    loss and accuracy on the validation nodes. An epoch after the deadline never becomes the best
    one, so the chosen parameters are those that early stopping at that epoch would choose.
    Without validation nodes the last parameters stay.
    """

    def __init__(
        self,
        task: RampedTask,
        learning_rate: float,
        deadlines: Sequence[float | int],  # per epoch: the last one to run if this is the best
        validation: Validation | None,
    ) -> None:
        self._task, self._validation = task, validation
        self.has_validation, self.n_epochs = validation is not None, len(deadlines)
        self.names: list[str] = []
        groups = task.parameter_groups()
        self._parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self.device = device = self._parameters[0].device
        self._optimizer = Adam(groups, learning_rate)
        table = [(task.ramp(e), deadlines[e]) for e in range(self.n_epochs)]
        self._table = torch.tensor(table, dtype=torch.float32, device=device)
        self._epoch = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.empty(0, device=device)
        self.measured = torch.full((self.n_epochs, 2), torch.nan, device=device)
        self._best_loss = torch.full((), torch.inf, device=device)
        self._deadline = torch.full((), torch.inf, device=device)
        self._live = list(task.module.state_dict().values())
        self._first, self._best = ([t.clone() for t in self._live] for _ in range(2))
        self._states = [generator.get_state() for generator in task.generators()]

    def last_needed(self) -> float:
        """Return the last epoch to run if none is better than the best one so far."""
        return float(self._deadline)

    def generators(self) -> list[torch.Generator]:
        """Return the generators used in an epoch."""
        return self._task.generators()

    def train(self) -> None:
        """Compute losses and gradients; no autograd node outlives the epoch."""
        ramp = self._table.index_select(0, self._epoch)[0, 0]
        terms = self._task.terms(ramp)
        values = torch.stack(list(terms.values()))
        total = values.sum()
        found = torch.autograd.grad(total, self._parameters, allow_unused=True)
        for parameter, gradient in zip(self._parameters, found):
            parameter.grad = gradient
        row = torch.cat([total[None], values]).detach()
        if not self.names:
            self.names = ["loss", *terms]
            self.losses = torch.full((self.n_epochs, len(row)), torch.nan, device=row.device)
        self.losses.index_copy_(0, self._epoch, row[None])

    @torch.no_grad()
    def validate_previous(self) -> None:
        """Evaluate the parameters of the previous epoch; keep them if they are the best so far."""
        assert self._validation is not None  # checked by the callers
        loss, accuracy = self._task.validate(self._validation)
        before = self._epoch - 1
        self.measured.index_copy_(0, before, torch.stack([loss, accuracy])[None])
        extended = self._table.index_select(0, before)[0, 1]
        is_better = (loss < self._best_loss) & (before[0] <= self._deadline)
        kept = [self._best_loss, self._deadline, *self._best]
        for old, new in zip(kept, [loss, extended, *self._live]):
            torch.where(is_better, new, old, out=old)

    def step(self) -> None:
        """Update the parameters and increment the epoch."""
        if self._task.max_gradient is not None:
            clip_gradients(self._parameters, self._task.max_gradient)
        self._optimizer.step()
        self._epoch.add_(1)

    def finish(self) -> None:
        """Load the best parameters into the task; without validation the last ones stay."""
        if self.has_validation:
            self._load_state(self._best)
        self._clear_gradients()

    def undo(self) -> None:
        """Reset the task to its state before the first epoch."""
        for generator, state in zip(self._task.generators(), self._states):
            generator.set_state(state)
        self._load_state(self._first)
        self._clear_gradients()

    def _load_state(self, tensors: list[Tensor]) -> None:
        for live, wanted in zip(self._live, tensors):
            live.copy_(wanted)

    def _clear_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


# Training by replays of a CUDA graph

MIN_CAPTURE_EPOCHS = 10  # for shorter trainings a capture costs more than it saves


class CaptureError(RuntimeError):
    """An epoch cannot be captured; the task is unchanged."""


class CapturedEpochs:
    """Epochs of a training, captured once as a CUDA graph and replayed.

    A replay validates the parameters of the previous epoch on one stream while another stream
    computes the losses and gradients of this epoch; both only read the parameters. Then Adam
    writes. With ``capture=False`` each epoch runs eagerly, on any device.
    """

    def __init__(
        self, epochs: Epochs, read_every: int = READ_EVERY, *, capture: bool = True
    ) -> None:
        self._epochs, self._read_every = epochs, read_every
        device = epochs.device
        is_cuda = device.type == "cuda"
        self._stream, self._side = (_new_stream(device) if is_cuda else None for _ in range(2))
        self._graph = self._capture() if capture else None

    def run(self, stage: str) -> Iterator[Record]:
        """Train, and yield the records of the epochs in order, up to ``read_every`` epochs late."""
        epochs, n_read, n_taken = self._epochs, 0, 1
        if self._graph is None:
            self._run_first_epoch()
        while n_taken < epochs.n_epochs:
            if n_taken > 1:  # all epochs but the last are validated
                yield from self._read(stage, n_read, n_taken - 1)
                n_read = n_taken - 1
            stop = self._next_stop(n_taken)
            with self._on_stream():
                for _ in range(n_taken, stop):
                    self._replay()
            n_taken = stop
        if epochs.has_validation:
            with self._on_stream():
                epochs.validate_previous()
        yield from self._read(stage, n_read, epochs.n_epochs)

    def _next_stop(self, n_taken: int) -> int:
        """Return the epoch of the next read, at the latest the one where early stopping ends."""
        stop = min(n_taken + self._read_every, self._epochs.n_epochs)
        if not self._epochs.has_validation or n_taken == 1:
            return stop
        needed = self._epochs.last_needed() + 2  # an epoch is validated in the next one
        return stop if needed >= stop else max(n_taken + 1, int(needed))

    def restore(self) -> None:
        """Load the best parameters into the task; without validation the last ones stay."""
        with self._on_stream():
            self._epochs.finish()

    def _capture(self) -> "torch.cuda.CUDAGraph":
        """Run the first epoch eagerly, which loads the kernels, and capture the next one."""
        epochs = self._epochs
        try:
            self._run_first_epoch()
            if epochs.has_validation:
                with self._on_stream():
                    epochs.validate_previous()
            graph = torch.cuda.CUDAGraph()
            for generator in epochs.generators():
                graph.register_generator_state(generator)
            torch.cuda.synchronize()
            with self._on_stream():
                graph.capture_begin()
                try:
                    self._run_epoch()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            epochs.undo()
            raise CaptureError(str(error).strip().split("\n")[0]) from error
        return graph

    def _run_first_epoch(self) -> None:
        with self._on_stream():
            self._epochs.train()
            self._epochs.step()

    def _replay(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run_epoch()

    def _run_epoch(self) -> None:
        """Validate the previous epoch while this one is computed, then step."""
        if self._epochs.has_validation:
            with self._on_side_stream():
                self._epochs.validate_previous()
        self._epochs.train()
        if self._side is not None and self._epochs.has_validation:
            torch.cuda.current_stream().wait_stream(self._side)
        self._epochs.step()

    def _read(self, stage: str, start: int, stop: int) -> Iterator[Record]:
        """Copy the numbers of some epochs to the host."""
        epochs = self._epochs
        with self._on_stream():
            losses = epochs.losses[start:stop].tolist()
            measured = epochs.measured[start:stop].tolist()
        for place, (numbers, (loss, accuracy)) in enumerate(zip(losses, measured)):
            record: Record = {"stage": stage, "epoch": start + place}
            record |= dict(zip(epochs.names, numbers))
            if epochs.has_validation:
                record |= {"validation_loss": loss, "validation_accuracy": accuracy}
            yield record

    def _on_stream(self) -> AbstractContextManager[None]:
        """Use the stream of the replays, ordered with the caller's stream."""
        return nullcontext() if self._stream is None else _ordered_on(self._stream)

    def _on_side_stream(self) -> AbstractContextManager[object]:
        """Use the second stream, after the work already queued."""
        if self._side is None:
            return nullcontext()
        self._side.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self._side)


def _new_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def _ordered_on(stream: Any) -> Iterator[None]:
    """Use a stream after the current one's queued work, and make the current one wait for it."""
    outer = torch.cuda.current_stream(stream.device)
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        yield
    outer.wait_stream(stream)


# The trainer


class Trainer:
    """Minimise a task's objective with Adam.

    With validation nodes the epoch with the lowest validation loss is kept, and training stops
    after ``patience`` epochs without a lower loss, counted from epoch ``grace`` at the earliest.
    Without validation nodes the last epoch is kept. Callbacks may also ask to stop.

    On a CUDA device a :class:`~glnn.engine.tasks.RampedTask` is trained by replaying one captured
    epoch, unless a callback has ``may_lag = False``. The chosen epoch is the same.
    """

    def __init__(
        self,
        *,
        n_epochs: int,
        learning_rate: float,
        patience: int | None = None,
        grace: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.patience, self.grace = patience, grace
        self.n_epochs = check_integer("n_epochs", n_epochs, low=1)
        self.learning_rate = check_number("learning_rate", learning_rate, low=0, open_low=True)
        self.callbacks = list(callbacks)

    def fit(
        self, task: TrainingTask, validation: Validation | None = None, *, stage: str = "classifier"
    ) -> History:
        """Train in place; afterwards the module has the parameters of the chosen epoch."""
        history = History()
        best_loss, best_epoch = math.inf, None
        with notify_stage(self.callbacks, stage, self.n_epochs):
            epochs = self._try_capture(task, validation) or _EagerEpochs(
                task, validation, self.n_epochs, self.learning_rate
            )
            for epoch, record in enumerate(epochs.run(stage)):
                if not math.isfinite(float(record["loss"])):
                    raise _divergence_error(epoch, stage, record)
                loss = float(record.get("validation_loss", math.inf))
                if loss < best_loss:
                    best_loss, best_epoch = loss, epoch
                history.append(record)
                is_asked = self._notify(task.peers, stage, record)
                if is_asked or epoch >= self._deadline(best_epoch):
                    break
            epochs.restore()
        return history

    def _notify(self, peers: Peers, stage: str, record: Record) -> bool:
        """Call the callbacks; return whether to stop. Processes agree, unless all may lag."""
        is_asked = notify_epoch_end(self.callbacks, stage, record)
        if peers.size == 1 or all(callback.may_lag for callback in self.callbacks):
            return is_asked
        return peers.all_reduce(float(is_asked), "max") > 0

    def _deadline(self, best_epoch: int | None) -> float | int:
        """Return the last epoch to run if ``best_epoch`` remains the best."""
        if self.patience is None or best_epoch is None:
            return math.inf
        return max(best_epoch, self.grace) + self.patience

    def _try_capture(
        self, task: TrainingTask, validation: Validation | None
    ) -> CapturedEpochs | None:
        """Return the captured epochs of a task, or ``None`` if it cannot be captured."""
        may_lag = all(callback.may_lag for callback in self.callbacks)
        if not isinstance(task, RampedTask) or task.peers.size > 1 or not may_lag:
            return None
        device = next(task.module.parameters()).device
        if device.type != "cuda" or self.n_epochs < MIN_CAPTURE_EPOCHS:
            return None
        is_read = self.callbacks or self.patience is not None
        deadlines = [self._deadline(epoch) for epoch in range(self.n_epochs)]
        try:
            epochs = Epochs(task, self.learning_rate, deadlines, validation)
            return CapturedEpochs(epochs, READ_EVERY if is_read else self.n_epochs)
        except CaptureError as error:
            warnings.warn(
                f"epochs run one by one, because none could be captured: {error}",
                SlowPathWarning,
                stacklevel=3,
            )
        return None


class _EagerEpochs:
    """Epochs that run one by one; the parameters of the best one are kept."""

    def __init__(
        self,
        task: TrainingTask,
        validation: Validation | None,
        n_epochs: int,
        learning_rate: float,
    ) -> None:
        self._task, self._validation, self._n_epochs = task, validation, n_epochs
        groups = task.parameter_groups()
        self._parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self._optimizer = Adam(groups, learning_rate)
        self._best: dict[str, Tensor] | None = None

    def run(self, stage: str) -> Iterator[Record]:
        """Train, and yield the record of each epoch when it has ended."""
        best_loss = math.inf
        for epoch in range(self._n_epochs):
            record: Record = {"stage": stage, "epoch": epoch, **self._train(epoch)}
            if self._validation is not None:
                with torch.no_grad():
                    loss, accuracy = self._task.validate(self._validation)
                record |= {"validation_loss": float(loss), "validation_accuracy": float(accuracy)}
                if float(loss) < best_loss:
                    best_loss = float(loss)
                    state = self._task.module.state_dict()
                    self._best = {name: value.clone() for name, value in state.items()}
            yield record

    def restore(self) -> None:
        """Load the best parameters into the task; without validation the last ones stay."""
        if self._best is not None:
            self._task.module.load_state_dict(self._best)
        for parameter in self._parameters:
            parameter.grad = None

    def _train(self, epoch: int) -> Record:
        """Take a step, and return the loss and its terms before it."""
        task, parameters = self._task, self._parameters
        terms = task.losses(epoch)
        values = torch.stack(list(terms.values()))
        found = torch.autograd.grad(values.sum(), parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, found):
            parameter.grad = gradient
        values = _reduce_over_processes(task, values.detach())
        if task.max_gradient is not None:
            clip_gradients(parameters, task.max_gradient)
        loss = values.sum().item()
        if math.isfinite(loss):  # otherwise the caller ends the training
            self._optimizer.step()
        return {"loss": loss} | dict(zip(terms, values.tolist()))


def _reduce_over_processes(task: TrainingTask, losses: Tensor) -> Tensor:
    """Sum gradients and losses over processes, in one message; return the losses."""
    if task.peers.size == 1:
        return losses
    grads = [p.grad for p in task.module.parameters() if p.grad is not None]
    flat = task.peers.all_reduce_(torch.cat([part.reshape(-1) for part in [*grads, losses]]))
    sizes = [part.numel() for part in [*grads, losses]]
    *summed, losses = torch.split(flat, sizes)
    for grad, part in zip(grads, summed):
        grad.copy_(part.view_as(grad))
    return losses


def _divergence_error(epoch: int, stage: str, record: Record) -> GlnnError:
    """Return the error for a loss that is not finite, naming its terms that are not."""
    terms = {name: part for name, part in record.items() if name not in ("stage", "epoch", "loss")}
    named = [f"{n} is {v}" for n, v in terms.items() if not math.isfinite(float(v))]
    return GlnnError(
        f"training diverged in epoch {epoch} of {stage}: "
        f"{', '.join(named) or 'the sum of all losses is ' + str(record['loss'])}. "
        "Scale the features or lower learning_rate."
    )
