import pytest
import torch

from glnn.graph import row_kernel
from glnn.nn import gcn_kernels

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def masked(n_entries, n_dropped, seed=5, epoch=0):
    """The mask that dropout draws for the values of a column of ones."""
    cuda = {"device": "cuda"}
    offsets = torch.arange(n_entries + 1, dtype=torch.int32, **cuda)
    columns = torch.zeros(n_entries, dtype=torch.int32, **cuda)
    ones, out = torch.ones(n_entries, **cuda), torch.empty(n_entries, 1, **cuda)
    counters = (torch.tensor([number], **cuda) for number in (seed, epoch))
    gcn_kernels.first_products[(n_entries,)](
        offsets, columns, ones, torch.ones(1, **cuda), out, *counters, n_dropped,
        256 / (256 - n_dropped), 1, DROPS=True, ENTRIES=32, HIDDEN=16,
    )  # fmt: skip
    return out[:, 0]


def test_without_triton_a_kernel_is_the_function_it_was(monkeypatch):
    monkeypatch.setattr(row_kernel, "triton", None)
    assert row_kernel.kernel(masked) is masked


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("n_dropped", [26, 128, 230])
def test_dropout_keeps_its_share_and_the_mean_and_neighbours_are_independent(n_dropped):
    mask = masked(100_000, n_dropped)
    kept = (mask > 0).float()
    share = 1 - n_dropped / 256
    assert kept.mean().item() == pytest.approx(share, abs=0.008)
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / share])
    for lag in (1, 2, 3, 4, 7):
        both = ((kept[lag:] - share) * (kept[:-lag] - share)).mean().item()
        assert both == pytest.approx(0.0, abs=0.002)


@pytest.mark.gpu
@needs_gpu
def test_masks_of_two_epochs_or_seeds_agree_by_chance_alone():
    mask = masked(50_000, 128) > 0
    assert torch.equal(mask, masked(50_000, 128) > 0)
    for other in (masked(50_000, 128, epoch=1), masked(50_000, 128, seed=10**15)):
        assert (mask == (other > 0)).float().mean().item() == pytest.approx(0.5, abs=0.01)
