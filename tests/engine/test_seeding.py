import pytest
import torch

from glnn.engine.seeding import check_device, generator_for
from glnn.exceptions import InputError


def draws(generator):
    return torch.rand(1000, generator=generator, dtype=torch.float64)


def test_the_same_seed_and_stream_give_the_same_numbers():
    assert torch.equal(draws(generator_for(3, 1, 4)), draws(generator_for(3, 1, 4)))


def test_every_seed_and_every_stream_is_its_own():
    keys = [(0,), (1,), (0, 1), (0, 2), (1, 2), (2, 1), (0, 1, 2), (0, 12)]
    rows = torch.stack([draws(generator_for(*key)) for key in keys])
    correlation = torch.corrcoef(rows) - torch.eye(len(keys), dtype=torch.float64)
    assert correlation.abs().max() < 0.2


def test_the_global_generator_is_neither_read_nor_moved():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = draws(generator_for(0))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(draws(generator_for(0)), first)


def test_the_largest_seed_of_scikit_learn_is_a_seed():
    assert len(draws(generator_for(2**32 - 1))) == 1000


def test_recorded_results_were_made_with_these_numbers():
    drawn = torch.randint(1000, (4,), generator=generator_for(200, 1, 2))
    assert drawn.tolist() == [114, 29, 801, 114]


def test_a_device_that_is_not_there_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=r"^device must exist, got 'cuda:1'"):
        check_device("cuda:1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert check_device("cuda:1") == "cuda:1"
    with pytest.raises(InputError, match=r"^device must be 'cpu' or 'cuda', got 'tpu'"):
        check_device("tpu")
