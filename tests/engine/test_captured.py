"""Replayed epochs are the epochs that the plain loop takes; only the asking differs."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glnn.engine.callbacks import EarlyStopping, GiveUp, ProgressLog
from glnn.engine.captured import CapturedEpochs, CaptureError
from glnn.engine.classifier import ClassifierTask
from glnn.engine.epochs import Epochs, Schedule
from glnn.engine.seeding import generator_for
from glnn.engine.settings import HeadSettings
from glnn.engine.task import RampedTask
from glnn.engine.trainer import Trainer, Validation
from glnn.exceptions import GlnnError, SlowPathWarning
from glnn.nn import Features
from glnn.peers import ALONE, Peers

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
SUMMIT = 0.32


class Climb(RampedTask):
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


def replayed(task, validation, trainer, read_every=4, records=False):
    """What the trainer does with recorded epochs, here without the recording."""
    epochs = trainer._epochs(task, validation)
    return trainer._replay(CapturedEpochs(epochs, read_every, records=records), "classifier")


@pytest.fixture
def make(problem):
    def build(head, device="cpu"):
        return ClassifierTask(
            problem.graph,
            Features.of(problem.features, device=device),
            problem.labels,
            head,
            init=generator_for(0, 1),
            noise=generator_for(0, 2, device=device),
        )

    return build


@pytest.mark.parametrize("patience", [None, 2, 3])
@pytest.mark.parametrize("read_every", [1, 3, 4, 100])
def test_the_chosen_epoch_is_that_of_the_plain_loop_however_seldom_it_is_read(patience, read_every):
    trainer = Trainer(n_epochs=12, learning_rate=0.1, patience=patience)
    plain, lazy = Climb(), Climb()
    wanted = trainer.fit(plain, class_0())
    found = replayed(lazy, class_0(), trainer, read_every)
    assert found.to_jsonl() == wanted.to_jsonl()
    assert lazy.module.height.item() == plain.module.height.item()
    is_early = patience is not None  # the second rise comes after the deadline
    assert lazy.module.height.item() == pytest.approx(0.3 if is_early else 1.2, abs=1e-5)


def test_no_epoch_is_taken_that_no_longer_counts():
    trainer = Trainer(n_epochs=50, learning_rate=0.1, patience=2)
    lazy = CapturedEpochs(trainer._epochs(Climb(), class_0()), read_every=4, records=False)
    history = trainer._replay(lazy, "classifier")
    assert len(history) == 5  # the third is the best, two more are waited for
    assert int(lazy._epochs._epoch) == 6  # one more has judged the last


def test_who_lags_behind_a_rival_is_given_up_at_the_epoch_of_the_plain_loop():
    wanted = []
    for fit in (Trainer.fit, lambda t, task, judges: replayed(task, judges, t, read_every=3)):
        trainer = Trainer(n_epochs=100, learning_rate=0.1, callbacks=[GiveUp(1.1, grace=7)])
        wanted.append(len(fit(trainer, Climb(), class_0())))
    assert wanted == [8, 8]


def test_without_validation_nodes_the_last_epoch_counts():
    task = Climb()
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
        replayed(Climb(diverges=True), class_0(), trainer)


def test_what_cannot_be_recorded_leaves_the_task_as_it_was(make, problem):
    task, untouched = make(HEADS["propagation"]), make(HEADS["propagation"])
    schedule = Schedule(0.1, (math.inf,) * 20)
    with pytest.raises(CaptureError):  # the host is no CUDA device
        CapturedEpochs(Epochs(task, schedule, problem.validation.measure))
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
    wanted = trainer._step_by_step(plain, validation, "classifier")
    recorded = trainer._recorded(fast, validation)
    assert recorded is not None
    found = trainer._replay(recorded, "classifier")
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
    here, there = Climb(), Climb("cuda")
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
    task = Climb("cuda", asks=True)
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
        assert (trainer._recorded(task, validation) is not None) == is_recorded
    task.peers = Peers()
    task.peers.size = 2  # they wait for each other inside an epoch
    assert trainer._recorded(task, validation) is None
    task.peers = ALONE
    trainer.fit(task, validation)
    assert [event.epoch for event in seen] == list(range(31))


@pytest.mark.gpu
@needs_gpu
def test_a_fit_on_the_gpu_is_as_accurate_as_on_the_host():
    from glnn import GLNNClassifier
    from glnn.data.scale import attributed_graph, sized

    size = sized(1500, 8, n_classes=4, n_features=32, misfits=0.05, homophily=0.6)
    data = attributed_graph(size, seed=3)
    train, val, test = (data.splits[name] for name in ("train", "val", "test"))
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
