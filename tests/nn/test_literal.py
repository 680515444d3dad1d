import torch
from torch.autograd import gradcheck

from glnn.nn import GraphLearningLayer


def test_the_output_is_the_symmetric_part_of_the_free_matrix(rng):
    layer = GraphLearningLayer(4, generator=rng)
    out = layer().to_dense()
    assert torch.equal(out, (layer.matrix + layer.matrix.T) / 2)
    assert layer().asymmetry() == 0


def test_the_start_is_uniform_below_its_highest_value(rng):
    matrix = GraphLearningLayer(200, generator=rng, high=0.5).matrix
    assert 0 <= matrix.min() < 0.001
    assert 0.499 < matrix.max() <= 0.5
    assert abs(matrix.mean().item() - 0.25) < 0.005


def test_the_same_generator_state_gives_the_same_start():
    first, second = (
        GraphLearningLayer(3, generator=torch.Generator().manual_seed(1)).matrix for _ in range(2)
    )
    assert torch.equal(first, second)


def test_the_gradient_to_every_free_entry_agrees_with_finite_differences(rng):
    layer = GraphLearningLayer(3, generator=rng).double()
    x = torch.randn(3, 2, generator=rng, dtype=torch.float64)

    def product(matrix):
        return torch.func.functional_call(layer, {"matrix": matrix}, ()) @ x

    assert gradcheck(product, (layer.matrix,))
