"""The loop on tasks so small that every epoch is known beforehand."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glnn.engine.callbacks import Callback, EarlyStopping
from glnn.engine.task import Task
from glnn.engine.trainer import Trainer, Validation
from glnn.exceptions import GlnnError, InputError

SUMMIT = 0.32


class Climb(Task):
    """One parameter that Adam raises by the learning rate each epoch: its gradient is constant.

    The score of class 0 is highest where the parameter is nearest to ``SUMMIT``.
    """

    def __init__(self, losses_at=None):
        self.module = nn.Module()
        self.module.height = nn.Parameter(torch.zeros(()))
        self.losses_at = losses_at or {}

    def losses(self, epoch):
        height = self.module.height
        return {"climb": -height * self.losses_at.get(epoch, 1.0), "flat": height * 0 + 2}

    def scores(self):
        height = self.module.height
        return torch.stack([-(height - SUMMIT).square(), height * 0])[None]


class Watch(Callback):
    def __init__(self, task=None, stop_at=None, events=None, name=""):
        self.task, self.stop_at, self.name = task, stop_at, name
        self.events = [] if events is None else events
        self.heights = []

    def on_stage_begin(self, stage, n_epochs):
        self.events.append((self.name, "begin", stage, n_epochs))

    def on_epoch_end(self, stage, record):
        self.events.append((self.name, "epoch", stage, record["epoch"]))
        if self.task is not None:
            self.heights.append(self.task.module.height.item())
        return record["epoch"] == self.stop_at

    def on_stage_end(self, stage):
        self.events.append((self.name, "end", stage))


ON_CLASS_0 = Validation(torch.tensor([0]), torch.tensor([0]))


def trainer(n_epochs=6, callbacks=()):
    return Trainer(n_epochs=n_epochs, learning_rate=0.1, callbacks=callbacks)


def test_the_parameters_of_the_best_validation_epoch_are_restored():
    task = Climb()
    watch = Watch(task)
    history = trainer(callbacks=[watch]).fit(task, ON_CLASS_0)
    losses = history.column("validation_loss")
    assert losses.index(min(losses)) == 2  # 0.1, 0.2, 0.3 is nearest to 0.32
    assert task.module.height.item() == watch.heights[2]
    assert_close(task.module.height.item(), 0.3, atol=1e-6, rtol=0)


def test_without_validation_nodes_the_last_epoch_counts():
    task = Climb()
    history = trainer().fit(task)
    assert_close(task.module.height.item(), 0.6, atol=1e-6, rtol=0)
    assert "validation_loss" not in history[-1]


def test_the_first_of_equally_good_epochs_is_kept():
    task = Climb()
    task.scores = lambda: torch.zeros(1, 2)
    trainer().fit(task, ON_CLASS_0)
    assert_close(task.module.height.item(), 0.1, atol=1e-6, rtol=0)


def test_the_history_names_every_term_and_their_sum():
    history = trainer(n_epochs=2).fit(Climb(), ON_CLASS_0, stage="classifier 3")
    assert [record["epoch"] for record in history] == [0, 1]
    for record in history:
        assert record["stage"] == "classifier 3"
        assert_close(record["loss"], record["climb"] + record["flat"])
    assert_close(history.column("climb"), [0.0, -0.1], atol=1e-6, rtol=0)


def test_training_is_adam_on_the_sum_of_the_terms(rng):
    start, target = torch.randn(2, 4, generator=rng)

    class Quadratic(Task):
        def __init__(self):
            self.module = nn.Module()
            self.module.w = nn.Parameter(start.clone())

        def losses(self, epoch):
            w = self.module.w
            return {"near": (w - target).square().sum(), "small": 0.5 * w.square().sum()}

        def scores(self):
            return self.module.w.reshape(2, 2)

        def parameter_groups(self):
            return [{"params": [self.module.w], "weight_decay": 0.1}]

    task = Quadratic()
    Trainer(n_epochs=20, learning_rate=0.05).fit(task)
    w = nn.Parameter(start.clone())
    adam = torch.optim.Adam([w], lr=0.05, weight_decay=0.1)
    for _ in range(20):
        adam.zero_grad()
        ((w - target).square().sum() + 0.5 * w.square().sum()).backward()
        adam.step()
    assert_close(task.module.w, w)


def test_callbacks_are_told_in_their_order_at_every_event():
    events = []
    callbacks = [Watch(events=events, name="a"), Watch(events=events, name="b")]
    trainer(n_epochs=2, callbacks=callbacks).fit(Climb(), stage="s")
    told = [("begin", "s", 2), ("epoch", "s", 0), ("epoch", "s", 1), ("end", "s")]
    assert events == [(name, *event) for event in told for name in "ab"]


def test_a_request_to_stop_is_honoured_after_its_epoch_and_every_callback_hears_the_end():
    first, second = Watch(stop_at=2), Watch()
    history = trainer(callbacks=[first, second]).fit(Climb())
    assert len(history) == 3
    assert second.events == first.events
    assert first.events[-1] == ("", "end", "classifier")


def test_stopping_early_still_restores_the_best_epoch():
    task = Climb()
    history = trainer(n_epochs=50, callbacks=[EarlyStopping(2)]).fit(task, ON_CLASS_0)
    assert len(history) == 5  # best at index 2, then two without improvement
    assert_close(task.module.height.item(), 0.3, atol=1e-6, rtol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_in_one_line_that_says_what_to_do(value):
    task = Climb(losses_at={2: value})
    with pytest.raises(GlnnError, match=r"^training diverged in epoch 2 of classifier") as caught:
        trainer().fit(task)
    assert "\n" not in str(caught.value)
    assert "learning_rate" in str(caught.value)
    assert "climb is " in str(caught.value)  # the term that broke, and no other
    assert "flat" not in str(caught.value)
    assert math.isfinite(task.module.height.item())


def test_validation_is_cross_entropy_and_the_share_of_right_answers():
    scores = torch.tensor([[9.0, 9.0], [0.0, math.log(3)], [math.log(3), 0.0]])
    found = Validation(torch.tensor([1, 2]), torch.tensor([1, 1])).evaluate(scores)
    expected = (-math.log(3 / 4) - math.log(1 / 4)) / 2
    assert_close(found["validation_loss"], expected, atol=1e-6, rtol=0)
    assert found["validation_accuracy"] == 0.5


def test_validation_leaves_no_gradient_behind():
    task = Climb()
    trainer(n_epochs=1).fit(task, ON_CLASS_0)
    assert_close(task.module.height.grad, torch.tensor(-1.0))  # of the training loss alone


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_epochs": 0, "learning_rate": 0.1}, "n_epochs must be at least 1; got 0"),
        ({"n_epochs": 1, "learning_rate": 0.0}, "learning_rate must be finite, greater than 0"),
        ({"n_epochs": 1, "learning_rate": math.nan}, "learning_rate must be finite"),
    ],
)
def test_a_schedule_that_cannot_train_is_refused_in_one_line(settings, match):
    with pytest.raises(InputError, match=match):
        Trainer(**settings)
