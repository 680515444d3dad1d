import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from glnn.engine.adam import Adam


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


def test_a_first_step_imports_no_compiler():
    code = (
        "import sys, torch; from glnn.engine.adam import Adam; "
        "p = torch.ones(2, requires_grad=True); p.grad = torch.ones(2); "
        "Adam([{'params': [p]}], 0.1).step(); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
