import pytest
import torch

torch.set_num_threads(1)  # the tests' tensors are tiny, and two test processes share two cores


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)
