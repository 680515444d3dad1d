import pytest
import torch
from torch.testing import assert_close

from glnn.nn.dropout import dropped, keep_mask, mask_of, random_bytes, rescaling

RATES = [0.1, 0.5, 0.9]


@pytest.mark.parametrize("rate", RATES)
def test_the_mask_is_zero_or_one_rescaling(rate, rng):
    found = keep_mask(torch.ones(1000, 3), rate, rng).unique()
    assert len(found) == 2
    assert found[0] == 0
    assert_close(found[1].item(), 1 / (1 - rate), rtol=0.02, atol=0)  # the rate may be rounded


@pytest.mark.parametrize("rate", [0.001, *RATES, 0.99])
def test_a_byte_is_kept_if_it_reaches_the_rate(rate):
    drawn = torch.arange(256, dtype=torch.uint8)
    kept = mask_of(drawn, torch.ones(256), rate)
    wanted = [rescaling(rate) if byte >= round(256 * rate) else 0.0 for byte in range(256)]
    assert kept.tolist() == torch.tensor(wanted).tolist()


@pytest.mark.parametrize("rate", RATES)
def test_the_expectation_is_kept(rate, rng):
    mask = keep_mask(torch.ones(400_000, dtype=torch.float64), rate, rng)
    deviation = (rate / (1 - rate) / mask.numel()) ** 0.5
    assert abs(mask.mean().item() - 1) < 4 * deviation


@pytest.mark.parametrize("rate", RATES)
def test_the_share_of_zeros_is_the_rate(rate, rng):
    zeros = keep_mask(torch.ones(400_000), rate, rng) == 0
    assert abs(zeros.double().mean().item() - rate) < 0.005


def test_neighbouring_entries_are_dropped_independently(rng):
    kept = (keep_mask(torch.ones(50_000, 8), 0.5, rng) > 0).double()
    correlation = torch.corrcoef(kept.T) - torch.eye(8, dtype=torch.float64)
    assert correlation.abs().max() < 0.03
    assert (kept.mean(0) - 0.5).abs().max() < 0.015


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_mask_has_the_shape_and_precision_of_what_it_masks(shape, dtype, rng):
    mask = keep_mask(torch.ones(shape, dtype=dtype), 0.5, rng)
    assert mask.shape == shape
    assert mask.dtype == dtype


def test_a_rate_of_zero_changes_nothing_and_draws_nothing(rng):
    x, before = torch.ones(4), rng.get_state()
    assert dropped(x, 0.0, rng) is x
    assert torch.equal(rng.get_state(), before)
    assert torch.equal(keep_mask(x, 0.0, rng), x)


def test_the_same_generator_state_drops_the_same_entries():
    x = torch.ones(100)
    first, second = (dropped(x, 0.5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_the_gradient_is_the_mask(rng):
    x = torch.full((50,), 2.0, requires_grad=True)
    out = dropped(x, 0.5, rng)
    out.sum().backward()
    assert_close(x.grad, out.detach() / 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("rate", RATES)
def test_a_mask_on_the_gpu_has_the_rate_and_the_rescaling_of_the_host(rate, rng):
    generator = torch.Generator("cuda").manual_seed(0)
    mask = keep_mask(torch.ones(400_000, device="cuda"), rate, generator).cpu()
    assert_close(mask.unique(), keep_mask(torch.ones(400_000), rate, rng).unique())
    assert abs((mask == 0).double().mean().item() - rate) < 0.005


def test_on_the_host_a_byte_is_drawn_for_each_entry():
    x, made, wanted = torch.ones(5, 3), torch.Generator(), torch.Generator()
    assert_close(keep_mask(x, 0.3, made), mask_of(random_bytes(15, wanted), x, 0.3))
