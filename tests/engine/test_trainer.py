"""Training loop, captured epochs and Adam, on small tasks with known results."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glnn.distributed import SINGLE_PROCESS, Peers
from glnn.engine.callbacks import Callback, ProgressLog
from glnn.engine.inputs import make_generator
from glnn.engine.settings import HeadSettings
from glnn.engine.tasks import ClassifierTask, Labels, RampedTask
from glnn.engine.trainer import Adam, CapturedEpochs, Trainer, clip_gradients
from glnn.exceptions import GlnnError, SlowPathWarning
from glnn.nn import Features

SUMMIT = 0.32


class Climb(RampedTask):
    """One parameter that Adam raises by the learning rate each epoch; best near ``SUMMIT``.

    Far above it the score of its class rises again, higher than at the summit.
    """

    def __init__(self, device="cpu", diverges_at=None, asks=False):
        self.module = nn.Module()
        self.module.height = nn.Parameter(torch.zeros((), device=device))
        self.module.unused = nn.Parameter(torch.ones((), device=device))
        self.diverges_at, self.asks = diverges_at, asks

    def ramp(self, epoch):
        return float(epoch)

    def generators(self):
        return []

    def terms(self, ramp):
        height = self.module.height
        if self.asks:
            float(height.detach())
        slope = 1.0 if self.diverges_at is None else 1 / (ramp - torch.tensor(self.diverges_at))
        return {"climb": -height * slope, "flat": height * 0 + 2}

    def scores(self):
        height = self.module.height
        score = -(height - SUMMIT).square() + 10 * torch.relu(height - 0.85)
        return torch.stack([score, height * 0])[None]

    @property
    def height(self):
        return pytest.approx(self.module.height.item(), abs=1e-5)


def class_0(device="cpu"):
    return Labels([0], [0], 1, 2).to(device)


def replay(task, validation, trainer, read_every=4):
    """Train with epochs as they are captured, here run eagerly; return the history."""
    deadlines = [trainer._deadline(epoch) for epoch in range(trainer.n_epochs)]
    lazy = CapturedEpochs(
        task,
        trainer.learning_rate,
        validation,
        deadlines,
        read_every,
        mean_from=trainer._mean_from,
        capture=False,
    )
    trainer._try_capture = lambda *given: lazy
    task.n_taken = lambda: int(lazy._epoch)
    return trainer.fit(task, validation)


def run_eagerly(task, validation, trainer):
    return trainer.fit(task, validation)


every_way = pytest.mark.parametrize("fit", [run_eagerly, replay])


# The loop, with epochs one by one and as they are captured


@every_way
def test_the_best_validation_epoch_is_kept_and_without_validation_the_last(fit):
    task = Climb()
    history = fit(task, class_0(), Trainer(n_epochs=6, learning_rate=0.1))
    assert int(np.argmin(history.column("validation_loss"))) == 2  # 0.3 is nearest to 0.32
    assert task.height == 0.3
    task = Climb()
    history = fit(task, None, Trainer(n_epochs=6, learning_rate=0.1))
    assert task.height == 0.6
    assert len(history) == 6
    assert "validation_loss" not in history[-1]
    assert task.module.unused == 1  # no term uses it
    assert task.module.height.grad is None


@every_way
@pytest.mark.parametrize(("share", "mean"), [(0.5, 0.5), (0.2, 0.6), (0.99, 0.4)])
def test_without_validation_the_mean_over_the_last_epochs_can_be_kept(fit, share, mean):
    trainer = Trainer(n_epochs=6, learning_rate=0.1, averaged_share=share)
    averaged, validated = Climb(), Climb()
    fit(averaged, None, trainer)
    assert averaged.height == mean  # of 0.4, 0.5, 0.6; of the last; of all but the first
    fit(validated, class_0(), Trainer(n_epochs=6, learning_rate=0.1, averaged_share=share))
    assert validated.height == 0.3


@every_way
@pytest.mark.parametrize("patience", [2, 3])
def test_no_epoch_is_taken_that_no_longer_counts(fit, patience):
    task = Climb()
    history = fit(task, class_0(), Trainer(n_epochs=50, learning_rate=0.1, patience=patience))
    assert len(history) == 3 + patience  # the third is the best
    assert task.height == 0.3
    if fit is replay:
        assert task.n_taken() == 4 + patience  # one more has judged the last


@pytest.mark.parametrize("patience", [None, 2, 3])
@pytest.mark.parametrize("read_every", [1, 3, 4, 100])
def test_the_chosen_epoch_is_that_of_the_plain_loop_however_seldom_it_is_read(patience, read_every):
    trainer = Trainer(n_epochs=12, learning_rate=0.1, patience=patience)
    plain, lazy = Climb(), Climb()
    wanted = trainer.fit(plain, class_0())
    found = replay(lazy, class_0(), trainer, read_every)
    np.testing.assert_equal(list(found), list(wanted))
    assert lazy.module.height.item() == plain.module.height.item()
    assert lazy.height == (1.2 if patience is None else 0.3)  # its second rise comes too late


@every_way
def test_a_loss_that_is_not_finite_ends_in_one_line_that_names_its_term_and_epoch(fit):
    task = Climb(diverges_at=4.0)
    trainer = Trainer(n_epochs=12, learning_rate=0.1)
    with pytest.raises(GlnnError, match=r"^training diverged in epoch 4 .* climb is ") as caught:
        fit(task, None, trainer)
    assert "\n" not in str(caught.value)
    assert "flat" not in str(caught.value)


class Watch(Callback):
    def __init__(self, stop_at=None, events=None, name="", may_lag=False):
        self.stop_at, self.name, self.may_lag = stop_at, name, may_lag
        self.events = [] if events is None else events

    def on_stage_begin(self, stage, n_epochs):
        self.events.append((self.name, "begin", stage, n_epochs))

    def on_epoch_end(self, stage, record):
        self.events.append((self.name, "epoch", stage, record["epoch"]))
        return record["epoch"] == self.stop_at

    def on_stage_end(self, stage):
        self.events.append((self.name, "end", stage))


@every_way
def test_callbacks_are_called_in_their_order_until_one_asks_to_stop(fit):
    events = []
    callbacks = [Watch(1, events, "a", may_lag=True), Watch(None, events, "b", may_lag=True)]
    fit(Climb(), None, Trainer(n_epochs=9, learning_rate=0.1, callbacks=callbacks))
    stage = "classifier"
    told = [("begin", stage, 9), ("epoch", stage, 0), ("epoch", stage, 1), ("end", stage)]
    assert events == [(name, *event) for event in told for name in "ab"]


def test_processes_stop_together_where_one_callback_asks(together):
    def work(peers):
        task = Climb()
        task.peers = peers
        callbacks = [Watch(stop_at=3 if peers.rank else None)]
        history = Trainer(n_epochs=9, learning_rate=0.1, callbacks=callbacks).fit(task)
        return len(history), task.module.height.item()

    assert together(2, work) == [(4, pytest.approx(0.4, abs=1e-5))] * 2


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


@pytest.mark.slow
def test_a_first_step_imports_no_compiler():
    code = (
        "import sys, torch; from glnn.engine.trainer import Adam; "
        "p = torch.ones(2, requires_grad=True); p.grad = torch.ones(2); "
        "Adam([{'params': [p]}], 0.1).step(); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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


# Captured epochs of a classifier

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


@every_head
def test_a_classifier_trained_by_lazy_epochs_is_the_same(make, problem, head):
    trainer = Trainer(n_epochs=30, learning_rate=0.02, patience=5)
    plain, lazy = make(head), make(head)
    wanted = trainer.fit(plain, problem.validation)
    found = replay(lazy, problem.validation, trainer)
    assert len(found) == len(wanted)
    for name in ("loss", *plain.losses(0), "validation_loss"):
        assert_close(torch.tensor(found.column(name)), torch.tensor(wanted.column(name)))
    assert_close(lazy.scores(), plain.scores())


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
    for callback, is_recorded in ((Watch(), False), (ProgressLog(seen.append), True)):
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
