import torch

from glnn.engine.seeding import generator_for


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
