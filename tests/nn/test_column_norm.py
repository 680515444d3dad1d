import pytest
import torch
from torch.testing import assert_close

from glnn.nn.column_norm import ColumnNorm


@pytest.fixture
def norm():
    made = ColumnNorm(3)
    with torch.no_grad():
        made.scale.copy_(torch.tensor([1.0, -2.0, 0.5]))
        made.shift.copy_(torch.tensor([0.0, 1.0, 3.0]))
    made.measure(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 0.5, 0.0]))
    return made


def test_a_batch_of_all_rows_is_what_counts_after_training(norm):
    rows = torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    deviation, mean = torch.std_mean(rows, 0, correction=0)
    norm.measure(mean, deviation)
    standardized = norm.standardized(rows)
    assert_close(norm(standardized), norm.settled(standardized), atol=1e-4, rtol=1e-4)


def test_a_batch_is_normalised_whatever_its_place_and_size(norm):
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    assert_close(norm(1000 * rows + 7), norm(rows), atol=1e-4, rtol=1e-3)


def test_folded_scale_and_shift_are_the_settled_columns_of_raw_rows(norm):
    rows = torch.randn(5, 3)
    scale, shift = norm.folded()
    assert_close(scale * rows + shift, norm.settled(norm.standardized(rows)))


def test_a_constant_column_says_nothing(norm):
    rows = torch.randn(5, 3)
    other = rows.clone()
    other[:, 2] += 10
    assert_close(norm.standardized(rows), norm.standardized(other))


@pytest.mark.gpu
def test_one_kernel_on_a_gpu_normalises_as_the_host_does(norm):
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    found = {}
    for device in ("cpu", "cuda"):
        batch = rows.to(device, copy=True).requires_grad_()
        made = norm.to(device)
        made.zero_grad()
        out = made(batch)
        (out * out.detach().roll(1, 0)).sum().backward()
        parts = (out, batch.grad, made.scale.grad, made.shift.grad)
        found[device] = [part.detach().cpu().clone() for part in parts]
    assert_close(found["cuda"], found["cpu"], atol=1e-4, rtol=1e-4)
