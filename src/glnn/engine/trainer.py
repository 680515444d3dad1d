"""The one training loop: forward, objective, step, evaluate, notify."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glnn._validation import check_integer, check_number
from glnn.engine.callbacks import Callback, stop_requested
from glnn.engine.history import History, Record
from glnn.engine.task import Task
from glnn.exceptions import GlnnError


@dataclass(frozen=True)
class Validation:
    """Labelled nodes used to choose the epoch, never to train."""

    nodes: Int[Tensor, "v"]
    labels: Int[Tensor, "v"]

    def to(self, device: torch.device) -> "Validation":
        """Return the same nodes and labels on another device."""
        return Validation(self.nodes.to(device), self.labels.to(device))

    def evaluate(self, scores: Float[Tensor, "n c"]) -> Record:
        """Return loss and accuracy on these nodes."""
        picked = scores[self.nodes]
        loss = functional.cross_entropy(picked, self.labels)
        accuracy = (picked.argmax(1) == self.labels).float().mean()
        return {"validation_loss": float(loss), "validation_accuracy": float(accuracy)}


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
        optimizer = torch.optim.Adam(task.parameter_groups(), lr=self.learning_rate, fused=True)
        history, best = History(), _BestState(task)
        for callback in self.callbacks:
            callback.on_stage_begin(stage, self.n_epochs)
        for epoch in range(self.n_epochs):
            record = self._step(task, optimizer, epoch, stage)
            if validation is not None:
                with torch.no_grad():
                    record |= validation.evaluate(task.scores())
                best.offer(float(record["validation_loss"]), epoch)
            history.append(record)
            if stop_requested(self.callbacks, stage, record) or self._is_idle(best, epoch):
                break
        best.restore()
        for callback in self.callbacks:
            callback.on_stage_end(stage)
        return history

    def _is_idle(self, best: "_BestState", epoch: int) -> bool:
        if self.patience is None or best.epoch is None:
            return False
        return epoch >= max(best.epoch, self.grace) + self.patience

    def _step(self, task: Task, optimizer: torch.optim.Optimizer, epoch: int, stage: str) -> Record:
        optimizer.zero_grad(set_to_none=True)
        terms = task.losses(epoch)
        total = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(total):
            raise GlnnError(
                f"training diverged in epoch {epoch} of {stage}: the loss is {total.item()}. "
                "Scale the features or lower learning_rate."
            )
        total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        record: Record = {"stage": stage, "epoch": epoch, "loss": total.item()}
        return record | {name: value.item() for name, value in terms.items()}


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
