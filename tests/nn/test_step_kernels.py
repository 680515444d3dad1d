import math

import pytest
import torch
from torch.testing import assert_close

from glnn.nn import step_kernels

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("n_labels", [1, 500, 3000])
@pytest.mark.parametrize(
    ("lowest", "deadline", "kept"),
    [(math.inf, math.inf, True), (1e9, 1.0, True), (1e9, 0.0, False), (0.0, 9.0, False)],
)
def test_the_best_epoch_before_its_deadline_is_kept(n_labels, lowest, deadline, kept):
    cuda = {"device": "cuda"}
    losses, hits = torch.rand(n_labels, **cuda) + 0.1, torch.ones(n_labels, **cuda)
    hits[: n_labels // 2] = 0
    epoch, table = torch.tensor([2], **cuda), torch.arange(9.0, **cuda).reshape(3, 3)
    measured, best = torch.zeros(3, 2, **cuda), torch.tensor([lowest, deadline, 7.0], **cuda)
    step_kernels.verdict[(1,)](losses, hits, epoch, table, measured, best, n_labels, LABELS=1024)
    assert_close(measured[1], torch.stack([losses.mean(), hits.mean()]))
    assert measured[[0, 2]].abs().sum() == 0
    wanted = [losses.mean().item(), 3.0, 1.0] if kept else [lowest, deadline, 0.0]
    assert best.tolist() == pytest.approx(wanted)
    theta, copy = torch.rand(2000, **cuda), torch.zeros(2000, **cuda)
    step_kernels.keep_best[(2,)](theta, copy, best, 2000, WIDTH=1024)
    assert torch.equal(copy, theta if kept else torch.zeros_like(theta))
