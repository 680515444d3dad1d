"""The work of an epoch on a device, in parts that ask the host nothing: so it can be recorded."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.engine.adam import Adam
from glnn.engine.task import Measure, RampedTask

READ_EVERY = 25
"""Epochs between two reads, where somebody waits for the numbers."""


@dataclass(frozen=True)
class Schedule:
    """What a training is told before it begins.

    Parameters
    ----------
    learning_rate
        Adam's step size.
    deadlines
        One number an epoch: the last epoch that still counts if this one is the best so far.
    """

    learning_rate: float
    deadlines: tuple[float | int, ...]


class Epochs:
    """Epochs of a task whose losses are a function of tensors alone, its state on a device.

    ``losses`` and ``measured`` have a row an epoch: the sum of the terms and the terms as in
    ``names``, and loss and accuracy on the validation nodes. Judging an epoch after its deadline
    changes nothing, so the parameters kept are those that looking after each epoch would keep.

    Parameters
    ----------
    task
        The task.
    schedule
        The optimiser's settings and when epochs stop to count.
    measure
        Loss and accuracy of all nodes' scores; ``None``: nothing is judged or kept.
    """

    def __init__(self, task: RampedTask, schedule: Schedule, measure: Measure | None) -> None:
        self._task, self._measure = task, measure
        self.judges, self.n_epochs = measure is not None, len(schedule.deadlines)
        self.names: list[str] = []
        groups = task.parameter_groups()
        self._parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self.device = device = self._parameters[0].device
        self._optimizer = Adam(groups, schedule.learning_rate)
        table = [(task.ramp(e), schedule.deadlines[e]) for e in range(self.n_epochs)]
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
        """Return the last epoch that counts if none is better than the best that was judged."""
        return float(self._deadline)

    def generators(self) -> list[torch.Generator]:
        """Return the generators that an epoch draws from."""
        return self._task.generators()

    def train(self) -> None:
        """Compute losses and gradients; no node of autograd outlives the epoch."""
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
    def judge(self) -> None:
        """Measure the parameters of the epoch before; keep them if they are the best in time."""
        assert self._measure is not None  # the callers have looked
        loss, accuracy = self._task.judged(self._measure)
        before = self._epoch - 1
        self.measured.index_copy_(0, before, torch.stack([loss, accuracy])[None])
        extended = self._table.index_select(0, before)[0, 1]
        is_better = (loss < self._best_loss) & (before[0] <= self._deadline)
        kept = [self._best_loss, self._deadline, *self._best]
        for old, new in zip(kept, [loss, extended, *self._live]):
            torch.where(is_better, new, old, out=old)

    def step(self) -> None:
        """Change the parameters and count the epoch."""
        if self._task.max_gradient is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._task.max_gradient)
        self._optimizer.step()
        self._epoch.add_(1)

    def finish(self) -> None:
        """Give the task the best parameters, or the last ones if nothing was judged."""
        if self.judges:
            self._give(self._best)
        self._forget()

    def undo(self) -> None:
        """Leave the task as it was before the first epoch."""
        for generator, state in zip(self._task.generators(), self._states):
            generator.set_state(state)
        self._give(self._first)
        self._forget()

    def _give(self, tensors: list[Tensor]) -> None:
        for live, wanted in zip(self._live, tensors):
            live.copy_(wanted)

    def _forget(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
