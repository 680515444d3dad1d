"""The one training loop: forward, objective, step, evaluate, notify."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glnn._validation import check_integer, check_number
from glnn.engine.adam import Adam
from glnn.engine.callbacks import Callback, stop_requested, told_of_stage
from glnn.engine.captured import FEWEST_EPOCHS, CapturedEpochs, CaptureError
from glnn.engine.epochs import READ_EVERY, Epochs, Schedule
from glnn.engine.history import History, Record
from glnn.engine.task import RampedTask, Task
from glnn.exceptions import GlnnError, SlowPathWarning
from glnn.peers import ALONE, Partition, Peers


@dataclass(frozen=True)
class Validation:
    """Labelled nodes used to choose the epoch, never to train.

    Parameters
    ----------
    nodes, labels
        Numbers of the nodes, and their class numbers.
    n_labels
        How many there are in all processes; ``None``: these.
    peers
        The processes that have the others.
    weights
        How much each counts in the loss, of mean one over all processes; ``None``: all the same.
    """

    nodes: Int[Tensor, "v"]
    labels: Int[Tensor, "v"]
    n_labels: int | None = None
    peers: Peers = ALONE
    weights: Float[Tensor, "v"] | None = None

    def weighted(self, weights: np.ndarray) -> "Validation":
        """Return the nodes with weights of mean one; where none has any, all count alike."""
        if not weights.any():
            return self
        each = torch.from_numpy(np.asarray(weights / weights.mean(), dtype=np.float32))
        return replace(self, weights=each)

    def local(self, partition: Partition) -> "Validation":
        """Return the nodes among this process's rows, numbered from the first of them."""
        here = torch.from_numpy(partition.has(self.nodes.numpy()))
        own = self.nodes[here] - partition.start
        weights = None if self.weights is None else self.weights[here]
        return Validation(own, self.labels[here], len(self.nodes), partition.peers, weights)

    def to(self, device: torch.device) -> "Validation":
        """Return the same nodes and labels on another device."""
        weights = None if self.weights is None else self.weights.to(device)
        moved = self.nodes.to(device), self.labels.to(device)
        return replace(self, nodes=moved[0], labels=moved[1], weights=weights)

    def evaluate(self, scores: Float[Tensor, "n c"]) -> Record:
        """Return loss and accuracy on these nodes."""
        loss, accuracy = self.measure(scores)
        return {"validation_loss": float(loss), "validation_accuracy": float(accuracy)}

    def measure(self, scores: Float[Tensor, "n c"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return the same as numbers that stay on the device: means over all processes."""
        picked = scores[self.nodes]
        if self.weights is None:
            loss = functional.cross_entropy(picked, self.labels, reduction="sum")
        else:
            each = functional.cross_entropy(picked, self.labels, reduction="none")
            loss = (each * self.weights).sum()
        right = (picked.argmax(1) == self.labels).sum()
        sums = self.peers.all_reduce_(torch.stack([loss, right.to(loss.dtype)]))
        means = sums / (len(self.nodes) if self.n_labels is None else self.n_labels)
        return means[0], means[1]


class Trainer:
    """Minimise a task's objective with Adam; with validation nodes, keep the best epoch.

    Parameters
    ----------
    n_epochs
        Length of the schedule. Without validation nodes the last epoch is what counts.
    learning_rate
        Adam's step size.
    patience
        With validation nodes: the number of epochs without a lower loss that ends the training,
        counted from ``grace`` at the earliest; ``None``: never.
    callbacks
        Told of every epoch; may ask to stop.

    Notes
    -----
    On a CUDA device a :class:`~glnn.engine.task.RampedTask` is trained by replaying one recorded
    epoch, unless a callback must not lag. The chosen epoch is the same.
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
        self, task: Task, validation: Validation | None = None, *, stage: str = "classifier"
    ) -> History:
        """Train in place; the module ends with the parameters of the chosen epoch."""
        with told_of_stage(self.callbacks, stage, self.n_epochs):
            recorded = self._recorded(task, validation)
            if recorded is not None:
                return self._replay(recorded, stage)
            return self._step_by_step(task, validation, stage)

    def _step_by_step(self, task: Task, validation: Validation | None, stage: str) -> History:
        optimizer = Adam(task.parameter_groups(), self.learning_rate)
        history, best = History(), _BestState(task)
        for epoch in range(self.n_epochs):
            record = self._step(task, optimizer, epoch, stage)
            if validation is not None:
                with torch.no_grad():
                    loss, accuracy = task.judged(validation.measure)
                record |= {"validation_loss": float(loss), "validation_accuracy": float(accuracy)}
                best.offer(float(record["validation_loss"]), epoch)
            history.append(record)
            if self._is_asked_to_stop(task.peers, stage, record) or epoch >= self._deadline(
                best.epoch
            ):
                break
        best.restore()
        return history

    def _is_asked_to_stop(self, peers: Peers, stage: str, record: Record) -> bool:
        """Tell the callbacks of an epoch; where one may ask to stop, all processes agree."""
        is_asked = stop_requested(self.callbacks, stage, record)
        if peers.size == 1 or all(callback.may_lag for callback in self.callbacks):
            return is_asked
        return peers.all_reduce(float(is_asked), "max") > 0

    def _deadline(self, best_epoch: int | None) -> float | int:
        """Return the last epoch that is taken if none after the best so far is better."""
        if self.patience is None or best_epoch is None:
            return math.inf
        return max(best_epoch, self.grace) + self.patience

    def _recorded(self, task: Task, validation: Validation | None) -> CapturedEpochs | None:
        """Return the recorded epochs of a task that can be, ``None`` for all others."""
        may_lag = all(callback.may_lag for callback in self.callbacks)
        if not isinstance(task, RampedTask) or task.peers.size > 1 or not may_lag:
            return None
        device = next(task.module.parameters()).device
        if device.type != "cuda" or self.n_epochs < FEWEST_EPOCHS:
            return None
        is_read = self.callbacks or self.patience is not None
        try:
            epochs = self._epochs(task, validation)
            return CapturedEpochs(epochs, READ_EVERY if is_read else self.n_epochs)
        except CaptureError as error:
            warnings.warn(
                f"epochs are run one by one, as none could be recorded: {error}",
                SlowPathWarning,
                stacklevel=3,
            )
        return None

    def _epochs(self, task: RampedTask, validation: Validation | None) -> Epochs:
        """Return the work of an epoch in parts that can be recorded."""
        deadlines = tuple(self._deadline(epoch) for epoch in range(self.n_epochs))
        schedule = Schedule(self.learning_rate, deadlines)
        return Epochs(task, schedule, None if validation is None else validation.measure)

    def _replay(self, recorded: CapturedEpochs, stage: str) -> History:
        history = History()
        best_loss, best_epoch = math.inf, None
        for epoch, record in enumerate(recorded.run(stage)):
            if not math.isfinite(float(record["loss"])):
                raise _diverged(epoch, stage, record)
            loss = float(record.get("validation_loss", math.inf))
            if loss < best_loss:
                best_loss, best_epoch = loss, epoch
            history.append(record)
            is_asked = stop_requested(self.callbacks, stage, record)
            if is_asked or epoch >= self._deadline(best_epoch):
                break
        recorded.restore()
        return history

    def _step(self, task: Task, optimizer: Adam, epoch: int, stage: str) -> Record:
        optimizer.zero_grad()
        terms = task.losses(epoch)
        values = torch.stack(list(terms.values()))
        values.sum().backward()  # type: ignore[no-untyped-call]
        values = _summed(task, values.detach())
        record: Record = {"stage": stage, "epoch": epoch, "loss": values.sum().item()}
        record |= {name: value.item() for name, value in zip(terms, values)}
        if not math.isfinite(float(record["loss"])):
            raise _diverged(epoch, stage, record)
        if task.max_gradient is not None:
            torch.nn.utils.clip_grad_norm_(task.module.parameters(), task.max_gradient)
        optimizer.step()
        return record


def _summed(task: Task, losses: Tensor) -> Tensor:
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


def _diverged(epoch: int, stage: str, record: Record) -> GlnnError:
    """Say when a loss stopped being a number, and which of its terms did."""
    terms = {name: part for name, part in record.items() if name not in ("stage", "epoch", "loss")}
    named = [f"{n} is {v}" for n, v in terms.items() if not math.isfinite(float(v))]
    return GlnnError(
        f"training diverged in epoch {epoch} of {stage}: "
        f"{', '.join(named) or 'the sum of all losses is ' + str(record['loss'])}. "
        "Scale the features or lower learning_rate."
    )


class _BestState:
    """The parameters of the epoch with the lowest offered loss."""

    def __init__(self, task: Task) -> None:
        self._module = task.module
        self._loss = float("inf")
        self._state: dict[str, Tensor] | None = None
        self.epoch: int | None = None

    def offer(self, loss: float, epoch: int) -> None:
        if loss < self._loss:
            self._loss, self.epoch = loss, epoch
            self._state = {k: v.clone() for k, v in self._module.state_dict().items()}

    def restore(self) -> None:
        if self._state is not None:
            self._module.load_state_dict(self._state)
