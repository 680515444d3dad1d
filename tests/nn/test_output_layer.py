import pytest
import torch
from torch.testing import assert_close

from glnn.nn.output_layer import layer_by_layer, view_logits

SHAPES = [(1, 6, 4, 3), (2, 6, 4, 3), (3, 5, 2, 2), (2, 300, 32, 7)]


def parts(n_views, n_nodes, width, n_classes, dtype):
    generator = torch.Generator().manual_seed(3)
    shapes = [(n_nodes, n_views * width), (width,), (width, n_classes), (n_classes,)]
    made = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    return [part.requires_grad_() for part in made]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.5])
def test_values_and_gradients_are_those_of_autograd(shape, dropout):
    given = parts(*shape, torch.float32)
    ours = view_logits(*given, dropout, torch.Generator().manual_seed(5))
    theirs = layer_by_layer(*given, dropout, torch.Generator().manual_seed(5))
    assert_close(ours, theirs)
    weight = torch.linspace(-1, 1, ours.numel()).reshape(ours.shape)
    for mine, wanted in zip(
        torch.autograd.grad((ours * weight).sum(), given),
        torch.autograd.grad((theirs * weight).sum(), given),
    ):
        assert_close(mine, wanted)


def test_gradients_are_those_of_finite_differences():
    given = parts(2, 6, 4, 3, torch.float64)
    assert torch.autograd.gradcheck(lambda *p: view_logits(*p, 0.0, torch.Generator()), given)


def test_what_comes_in_is_left_as_it_was():
    spread, *rest = parts(2, 6, 4, 3, torch.float32)
    before = spread.detach().clone()
    view_logits(spread, *rest, 0.5, torch.Generator().manual_seed(0)).sum().backward()
    assert torch.equal(spread.detach(), before)
