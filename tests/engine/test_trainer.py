"""Training loop, captured epochs and Adam, on small tasks with known results."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glnn.distributed import SINGLE_PROCESS, Peers
from glnn.engine.callbacks import Callback, EarlyStopping, ProgressLog
from glnn.engine.inputs import make_generator
from glnn.engine.settings import HeadSettings
from glnn.engine.tasks import ClassifierTask, RampedTask, TrainingTask
from glnn.engine.trainer import (
    Adam,
    CapturedEpochs,
    CaptureError,
    Epochs,
    Trainer,
    Validation,
    clip_gradients,
)
from glnn.exceptions import GlnnError, InputError, SlowPathWarning
from glnn.nn import Features

# Trainer

SUMMIT = 0.32


class Climb(TrainingTask):
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

    class Quadratic(TrainingTask):
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
    picked = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0]])
    loss, accuracy = Validation(torch.tensor([1, 2]), torch.tensor([1, 1])).measure(picked)
    expected = (-math.log(3 / 4) - math.log(1 / 4)) / 2
    assert_close(loss.item(), expected, atol=1e-6, rtol=0)
    assert accuracy == 0.5


def test_no_gradient_is_left_behind():
    task = Climb()
    trainer(n_epochs=1).fit(task, ON_CLASS_0)
    assert task.module.height.grad is None


def test_gradients_are_clipped_as_torch_does(rng):
    shapes = [(3, 2), (4,)]
    ours, theirs = ([nn.Parameter(torch.zeros(s)) for s in shapes] for _ in range(2))
    for one, other in zip(ours, theirs):
        one.grad = torch.randn(one.shape, generator=rng)
        other.grad = one.grad.clone()
    for limit in (100.0, 0.1):
        clip_gradients(ours, limit)
        torch.nn.utils.clip_grad_norm_(theirs, limit)
        assert_close([p.grad for p in ours], [p.grad for p in theirs])


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


# Epochs


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


class FirstNumber(Validation):
    """Stands for validation nodes: best where the first number is 0."""

    def measure(self, picked):
        return picked[0, 0].square(), picked[0, 1]


FIRST_NUMBER = FirstNumber(torch.tensor([0]), torch.tensor([0]))


def epochs_of(task, deadlines=(math.inf,) * 6, judge=FIRST_NUMBER):
    return Epochs(task, 0.1, deadlines, judge)


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
        epochs.validate_previous()
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


# Captured epochs

HEADS = {
    "gcn": HeadSettings(head="gcn", dropout=0.0),
    "propagation": HeadSettings(
        head="propagation",
        dropout=0.0,
        n_views=2,
        consistency_weight=1.0,
        smoothness_weight=0.5,
        ramp_epochs=10,
        learning_rate=0.05,
    ),
}
every_head = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


class CapturedClimb(RampedTask):
    """One parameter that Adam raises by the learning rate each epoch; best near ``SUMMIT``.

    Far above it the score of its class rises again, higher than at the summit.
    """

    def __init__(self, device="cpu", diverges=False, asks=False):
        self.module = nn.Module()
        self.module.height = nn.Parameter(torch.zeros((), device=device))
        self.diverges, self.asks = diverges, asks

    def ramp(self, epoch):
        return float(epoch)

    def generators(self):
        return []

    def terms(self, ramp):
        height = self.module.height
        if self.asks:
            float(height.detach())
        slope = 1.0 / (ramp - 4) if self.diverges else 1.0
        return {"climb": -height * slope, "flat": height * 0 + 2}

    def scores(self):
        height = self.module.height
        score = -(height - SUMMIT).square() + 10 * torch.relu(height - 0.85)
        return torch.stack([score, height * 0])[None]


def class_0(device="cpu"):
    return Validation(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)).to(
        torch.device(device)
    )


def replayed(task, validation, trainer, read_every=4):
    """Train with epochs as they are captured, here run eagerly; return the history."""
    lazy = lazy_epochs(trainer, task, validation, read_every)
    trainer._try_capture = lambda *given: lazy
    return trainer.fit(task, validation)


def lazy_epochs(trainer, task, validation, read_every=4):
    deadlines = [trainer._deadline(epoch) for epoch in range(trainer.n_epochs)]
    epochs = Epochs(task, trainer.learning_rate, deadlines, validation)
    return CapturedEpochs(epochs, read_every, capture=False)


@pytest.fixture
def make(problem):
    def build(head, device="cpu"):
        return ClassifierTask(
            problem.graph,
            Features.of(problem.features, device=device),
            problem.labels,
            head,
            init=make_generator(0, 1),
            noise=make_generator(0, 2, device=device),
        )

    return build


@pytest.mark.parametrize("patience", [None, 2, 3])
@pytest.mark.parametrize("read_every", [1, 3, 4, 100])
def test_the_chosen_epoch_is_that_of_the_plain_loop_however_seldom_it_is_read(patience, read_every):
    trainer = Trainer(n_epochs=12, learning_rate=0.1, patience=patience)
    plain, lazy = CapturedClimb(), CapturedClimb()
    wanted = trainer.fit(plain, class_0())
    found = replayed(lazy, class_0(), trainer, read_every)
    assert found.to_jsonl() == wanted.to_jsonl()
    assert lazy.module.height.item() == plain.module.height.item()
    is_early = patience is not None  # the second rise comes after the deadline
    assert lazy.module.height.item() == pytest.approx(0.3 if is_early else 1.2, abs=1e-5)


def test_no_epoch_is_taken_that_no_longer_counts():
    trainer = Trainer(n_epochs=50, learning_rate=0.1, patience=2)
    task = CapturedClimb()
    lazy = lazy_epochs(trainer, task, class_0())
    trainer._try_capture = lambda *given: lazy
    history = trainer.fit(task, class_0())
    assert len(history) == 5  # the third is the best, two more are waited for
    assert int(lazy._epochs._epoch) == 6  # one more has judged the last


class StopsAtSeven(Callback):
    may_lag = True

    def on_epoch_end(self, stage, record):
        return record["epoch"] >= 7


def test_a_callback_that_may_lag_ends_a_training_at_the_epoch_of_the_plain_loop():
    wanted = []
    for fit in (Trainer.fit, lambda t, task, judges: replayed(task, judges, t, read_every=3)):
        trainer = Trainer(n_epochs=100, learning_rate=0.1, callbacks=[StopsAtSeven()])
        wanted.append(len(fit(trainer, CapturedClimb(), class_0())))
    assert wanted == [8, 8]


def test_without_validation_nodes_the_last_captured_epoch_counts():
    task = CapturedClimb()
    history = replayed(task, None, Trainer(n_epochs=7, learning_rate=0.1))
    assert task.module.height.item() == pytest.approx(0.7, abs=1e-6)
    assert len(history) == 7
    assert "validation_loss" not in history[0]


@every_head
def test_a_classifier_trained_by_lazy_epochs_is_the_same(make, problem, head):
    trainer = Trainer(n_epochs=30, learning_rate=0.02, patience=5)
    plain, lazy = make(head), make(head)
    wanted = trainer.fit(plain, problem.validation)
    found = replayed(lazy, problem.validation, trainer)
    assert len(found) == len(wanted)
    for name in ("loss", *plain.losses(0), "validation_loss"):
        assert_close(torch.tensor(found.column(name)), torch.tensor(wanted.column(name)))
    assert_close(lazy.scores(), plain.scores())


def test_a_loss_that_is_not_finite_is_told_with_its_epoch():
    trainer = Trainer(n_epochs=12, learning_rate=0.1)
    with pytest.raises(GlnnError, match="diverged in epoch 4 of classifier"):
        replayed(CapturedClimb(diverges=True), class_0(), trainer)


def test_what_cannot_be_recorded_leaves_the_task_as_it_was(make, problem):
    task, untouched = make(HEADS["propagation"]), make(HEADS["propagation"])
    with pytest.raises(CaptureError):  # the host is no CUDA device
        CapturedEpochs(Epochs(task, 0.1, (math.inf,) * 20, problem.validation))
    assert torch.equal(task.scores(), untouched.scores())
    assert task.losses(3).keys() == untouched.losses(3).keys()
    assert torch.equal(*(t.generators()[0].get_state() for t in (task, untouched)))
    assert all(p.grad is None for p in task.module.parameters())


def test_on_the_host_nothing_is_recorded(make, monkeypatch):
    monkeypatch.setattr("glnn.engine.trainer.CapturedEpochs", None)
    Trainer(n_epochs=12, learning_rate=0.1).fit(make(HEADS["gcn"]))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("patience", [None, 5])
@every_head
def test_recorded_epochs_leave_the_parameters_of_the_plain_loop(make, problem, head, patience):
    validation = problem.validation.to(torch.device("cuda"))
    trainer = Trainer(n_epochs=60, learning_rate=0.02, patience=patience)
    plain, fast = make(head, "cuda"), make(head, "cuda")
    assert trainer._try_capture(make(head, "cuda"), validation) is not None
    found = trainer.fit(fast, validation)
    trainer._try_capture = lambda *given: None
    wanted = trainer.fit(plain, validation)
    assert len(found) == len(wanted)
    for name in ("loss", "validation_loss", "validation_accuracy"):
        columns = (torch.tensor(h.column(name)) for h in (found, wanted))
        assert_close(*columns, atol=1e-4, rtol=1e-4)
    for a, b in zip(fast.module.parameters(), plain.module.parameters()):
        assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("patience", [None, 3])
def test_recorded_epochs_choose_the_epoch_of_the_plain_loop(patience):
    trainer = Trainer(n_epochs=60, learning_rate=0.02, patience=patience)
    here, there = CapturedClimb(), CapturedClimb("cuda")
    wanted, found = trainer.fit(here, class_0()), trainer.fit(there, class_0("cuda"))
    assert len(found) == len(wanted)
    assert there.module.height.item() == pytest.approx(here.module.height.item(), abs=1e-5)


@pytest.mark.gpu
@needs_gpu
def test_every_replay_draws_new_numbers(make, problem):
    head = HeadSettings(head="gcn", dropout=0.5, learning_rate=1e-9)  # parameters stand still
    trainer = Trainer(n_epochs=40, learning_rate=1e-9)
    losses = trainer.fit(make(head, "cuda")).column("loss")
    assert len(set(losses)) > 35
    again = trainer.fit(make(head, "cuda")).column("loss")
    assert losses == again  # from the same seed


@pytest.mark.gpu
@needs_gpu
def test_a_task_that_asks_the_device_is_run_step_by_step_with_a_warning():
    task = CapturedClimb("cuda", asks=True)
    with pytest.warns(SlowPathWarning, match="one by one"):
        history = Trainer(n_epochs=12, learning_rate=0.1).fit(task, class_0("cuda"))
    assert len(history) == 12
    assert task.module.height.item() == pytest.approx(1.2, abs=1e-5)


@pytest.mark.gpu
@needs_gpu
def test_a_callback_that_must_not_lag_keeps_the_plain_loop_and_a_bar_does_not(make, problem):
    validation, task = problem.validation.to(torch.device("cuda")), make(HEADS["gcn"], "cuda")
    seen = []
    for callback, is_recorded in ((EarlyStopping(3), False), (ProgressLog(seen.append), True)):
        trainer = Trainer(n_epochs=30, learning_rate=0.01, callbacks=[callback])
        assert (trainer._try_capture(task, validation) is not None) == is_recorded
    task.peers = Peers()
    task.peers.size = 2  # they wait for each other inside an epoch
    assert trainer._try_capture(task, validation) is None
    task.peers = SINGLE_PROCESS
    trainer.fit(task, validation)
    assert [event.epoch for event in seen] == list(range(31))


@pytest.mark.gpu
@needs_gpu
def test_a_fit_on_the_gpu_is_as_accurate_as_on_the_host():
    from glnn import GLNNClassifier
    from glnn.data.synthetic import block_model

    data = block_model(1500, 4, homophily=0.6, n_features=32, seed=3)
    train, val, test = np.split(np.random.default_rng(3).permutation(1500), [750, 1050])
    y = np.full(data.n_nodes, -1)
    y[train[:80]], y[val] = data.labels[train[:80]], data.labels[val]
    for preset in ("paper", "default"):
        accuracy = {}
        for device in ("cpu", "cuda"):
            model = GLNNClassifier(preset, random_state=0, device=device)
            model.fit(data.features, y, graph=data.graph, validation=val)
            accuracy[device] = (model.transduction_ == data.labels)[test].mean()
            assert model.certificate_.converged
        assert accuracy["cuda"] == pytest.approx(accuracy["cpu"], abs=0.03)
        assert accuracy["cuda"] > 0.6


# Adam


def grouped(parameters, decay):
    return [{"params": parameters[:1], "weight_decay": decay}, {"params": parameters[1:]}]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_the_optimiser_that_torch_documents(rng, decay):
    start = [torch.randn(3, 2, generator=rng), torch.randn(4, generator=rng), torch.ones(2)]
    ours = [t.clone().requires_grad_() for t in start]
    theirs = [t.clone().requires_grad_() for t in start]
    mine = Adam(grouped(ours, decay), 0.05)
    known = torch.optim.Adam(grouped(theirs, decay), lr=0.05)
    for _ in range(7):
        gradients = [torch.randn(t.shape, generator=rng) for t in start[:2]]
        for parameters in (ours, theirs):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient.clone()
        mine.step()
        known.step()
    for one, other in zip(ours, theirs):
        assert_close(one, other)
    assert torch.equal(ours[2], start[2])  # it never had a gradient


def test_a_first_step_imports_no_compiler():
    code = (
        "import sys, torch; from glnn.engine.trainer import Adam; "
        "p = torch.ones(2, requires_grad=True); p.grad = torch.ones(2); "
        "Adam([{'params': [p]}], 0.1).step(); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
