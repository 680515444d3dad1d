"""Fused epochs are those of the plain loop: the same losses, gradients and choices."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional
from torch.testing import assert_close

from glnn.engine.captured import CapturedEpochs
from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.epochs import Schedule
from glnn.engine.fused import FusedEpochs, _table, fused_epochs
from glnn.engine.seeding import generator_for
from glnn.engine.settings import HeadSettings
from glnn.engine.trainer import Trainer, Validation
from glnn.nn import Features

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
PLAIN = HeadSettings(dropout=0.0, weight_decay=5e-3)
N_NODES, N_FEATURES, N_CLASSES = 301, 12, 3


def make(head=PLAIN, device="cuda"):
    features = sp.random(N_NODES, N_FEATURES, 0.3, format="csr", random_state=1)
    links = sp.random(N_NODES, N_NODES, 0.01, random_state=2)
    graph = sp.csr_matrix(links + links.T + sp.eye(N_NODES))
    rng = np.random.default_rng(0)
    nodes = rng.permutation(N_NODES)[:40]
    return ClassifierTask(
        graph,
        Features.of(features.astype(np.float32), device=device, stays_sparse=True),
        Labels(nodes, rng.integers(0, N_CLASSES, 40), N_NODES, N_CLASSES),
        head,
        init=generator_for(0, 1),
        noise=generator_for(0, 2, device=device),
    )


def judges(device="cuda"):
    nodes = torch.arange(3, N_NODES, 2)
    return Validation(nodes, nodes % N_CLASSES).to(torch.device(device))


def test_the_table_has_what_adam_takes_from_the_number_of_the_epoch():
    place = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.Adam([place], lr=0.3)
    table = _table(Schedule(0.3, (5.0, math.inf, 7)))
    assert table[:, 0].tolist() == [5.0, math.inf, 7.0]
    m = v = 0.0
    for gradient, (_, size, root) in zip((2.0, -1.0, 4.0), table.tolist()):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        before, place.grad = place.item(), torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        change = before - place.item()
        assert size * m / (math.sqrt(v) / root + 1e-8) == pytest.approx(change, rel=1e-6)


def test_on_the_host_nothing_is_fused():
    assert fused_epochs(make(device="cpu"), Schedule(0.1, (math.inf,) * 3), None) is None


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(
    "changes",
    [
        {"head": "propagation"},
        {"smoothness_weight": 1.0},
        {"consistency_weight": 1.0},
        {"n_views": 2},
        {"n_hidden": 200},
    ],
    ids=str,
)
def test_tasks_with_other_losses_or_networks_are_not_fused(changes):
    schedule = Schedule(0.1, (math.inf,) * 3)
    assert fused_epochs(make(), schedule, None) is not None
    assert fused_epochs(make(dataclasses.replace(PLAIN, **changes)), schedule, None) is None


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("patience", [None, 4])
@pytest.mark.parametrize("n_hidden", [5, 16, 64])
def test_fused_epochs_are_those_of_the_plain_loop(n_hidden, patience):
    head = dataclasses.replace(PLAIN, n_hidden=n_hidden)
    trainer = Trainer(n_epochs=50, learning_rate=0.02, patience=patience)
    plain, fast, validation = make(head), make(head), judges()
    wanted = trainer._step_by_step(plain, validation, "classifier")
    recorded = trainer._recorded(fast, validation)
    assert isinstance(recorded._epochs, FusedEpochs)
    found = trainer._replay(recorded, "classifier")
    assert len(found) == len(wanted)
    for name in ("loss", "cross_entropy", "validation_loss", "validation_accuracy"):
        columns = (torch.tensor(h.column(name)) for h in (found, wanted))
        assert_close(*columns, atol=1e-4, rtol=1e-4)
    for a, b in zip(fast.module.parameters(), plain.module.parameters()):
        assert_close(a, b, atol=1e-4, rtol=1e-3)


@pytest.mark.gpu
@needs_gpu
def test_without_validation_nodes_the_last_parameters_are_left():
    trainer = Trainer(n_epochs=20, learning_rate=0.02)
    plain, fast = make(), make()
    trainer._step_by_step(plain, None, "classifier")
    trainer.fit(fast)
    for a, b in zip(fast.module.parameters(), plain.module.parameters()):
        assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@needs_gpu
def test_gradients_go_through_the_masks_of_the_pass_forth():
    task = make(dataclasses.replace(PLAIN, dropout=0.5))
    epochs = FusedEpochs(task, Schedule(0.05, (math.inf,) * 5), None)
    weight, bias, second, last = (p.detach().clone() for p in epochs._parameters)
    theta, n_first = epochs._theta.clone(), weight.numel()
    unit = torch.eye(N_FEATURES, weight.shape[1], device="cuda")
    epochs._theta[:n_first] = unit.reshape(-1)  # shows the features as they were dropped
    epochs.train()
    masked = epochs._first[:, :N_FEATURES].clone()
    epochs._theta.copy_(theta)
    epochs.train()
    parameters = [p.requires_grad_() for p in (weight, bias, second, last)]
    adj = task.adj_hat.to_dense()
    hidden = torch.relu(adj @ (masked @ weight) + bias) * (epochs._hidden > 0) * 2
    assert_close(hidden, epochs._hidden)
    logits = (adj @ (hidden @ second) + last)[task.labels.nodes]
    loss = functional.cross_entropy(logits, task.labels.classes)
    grads = torch.autograd.grad(loss, parameters)
    epochs.step()
    decayed = [g + 5e-3 * p.detach() * (k < 2) for k, (g, p) in enumerate(zip(grads, parameters))]
    wanted = torch.cat([g.reshape(-1) for g in decayed])
    assert_close(epochs._moments[: len(wanted)] * 10, wanted, atol=1e-6, rtol=1e-4)
    assert_close(epochs.losses[0, 0], loss.detach())


@pytest.mark.gpu
@needs_gpu
def test_every_epoch_draws_new_masks_and_a_seed_the_same_ones():
    head = dataclasses.replace(PLAIN, dropout=0.5)
    trainer = Trainer(n_epochs=40, learning_rate=1e-9)  # parameters stand still
    losses, again = (trainer.fit(make(head)).column("loss") for _ in range(2))
    assert len(set(losses)) > 35
    assert losses == again


@pytest.mark.gpu
@needs_gpu
def test_fused_epochs_that_are_undone_leave_no_trace():
    task, untouched = make(), make()
    epochs = FusedEpochs(task, Schedule(0.1, (math.inf,) * 5), None)
    for _ in zip(range(2), CapturedEpochs(epochs, records=False).run("classifier")):
        pass
    epochs.undo()
    assert torch.equal(task.scores(), untouched.scores())
    assert torch.equal(*(t.generators()[0].get_state() for t in (task, untouched)))
