"""The parts of an epoch do what the trainer's loop does, without asking the host."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glnn.engine.epochs import Epochs, Schedule
from glnn.engine.task import RampedTask


class Pull(RampedTask):
    """Two numbers drawn to 1 and to ``ramp``, with noise in a third term."""

    def __init__(self):
        self.module = nn.Module()
        self.module.place = nn.Parameter(torch.zeros(2))
        self.noise = torch.Generator().manual_seed(3)

    def ramp(self, epoch):
        return epoch / 10

    def generators(self):
        return [self.noise]

    def terms(self, ramp):
        first, second = self.module.place
        drawn = torch.rand((), generator=self.noise)
        return {"one": (first - 1).square(), "two": (second - ramp).square(), "noise": drawn * 1}

    def scores(self):
        return self.module.place[None]


def measure(scores):
    return scores[0, 0].square(), scores[0, 1]  # best where the first number is 0


def epochs_of(task, deadlines=(math.inf,) * 6, judge=measure):
    return Epochs(task, Schedule(0.1, deadlines), judge)


def test_three_parts_are_a_step_of_adam_with_its_losses_written_down():
    task, plain = Pull(), Pull()
    epochs = epochs_of(task)
    optimizer = torch.optim.Adam(plain.parameter_groups(), lr=0.1, fused=True)
    for epoch in range(3):
        epochs.train()
        epochs.step()
        terms = plain.losses(epoch)
        optimizer.zero_grad()
        sum(terms.values()).backward()
        optimizer.step()
        assert_close(epochs.losses[epoch, 1:], torch.stack(list(terms.values())).detach())
    assert epochs.names == ["loss", "one", "two", "noise"]
    assert_close(epochs.losses[:3, 0], epochs.losses[:3, 1:].sum(1))
    assert epochs.losses[3:].isnan().all()
    assert_close(task.module.place, plain.module.place)


@pytest.mark.parametrize(("deadlines", "best"), [((math.inf,) * 3, 2), ((0, 9, 9), 0)])
def test_an_epoch_is_kept_if_it_is_the_best_before_the_deadline_of_the_best(deadlines, best):
    task = Pull()
    epochs = epochs_of(task, deadlines)
    places = [3.0, 2.0, 1.0]  # each has a lower loss than the one before
    for place in places:
        epochs._epoch.add_(1)
        task.module.place.data.fill_(place)
        epochs.judge()
    assert_close(epochs.measured, torch.tensor([[9.0, 3.0], [4.0, 2.0], [1.0, 1.0]]))
    epochs.finish()
    assert task.module.place.tolist() == [places[best]] * 2
    assert task.module.place.grad is None


def test_undone_epochs_leave_no_trace():
    task = Pull()
    epochs = epochs_of(task, judge=None)
    epochs.train()
    epochs.step()
    assert task.module.place.abs().sum() > 0
    epochs.undo()
    assert task.module.place.tolist() == [0.0, 0.0]
    assert task.module.place.grad is None
    assert torch.equal(task.noise.get_state(), Pull().noise.get_state())


class Idle(Pull):
    """The same with a number that no term looks at."""

    def __init__(self):
        super().__init__()
        self.module.idle = nn.Parameter(torch.ones(1))


def test_a_parameter_that_no_term_uses_stays_as_it_is():
    task = Idle()
    epochs = epochs_of(task)
    for _ in range(2):
        epochs.train()
        epochs.step()
    assert task.module.idle.item() == 1
    assert (task.module.place != 0).any()
