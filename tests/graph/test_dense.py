import torch
from torch.autograd import gradcheck

from glnn.graph import DenseAdjacency


def test_entries_are_listed_row_by_row():
    adj = DenseAdjacency(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    listed = zip(adj.rows().tolist(), adj.columns().tolist(), adj.values().tolist(), strict=True)
    assert list(listed) == [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 3.0), (1, 1, 4.0)]


def test_each_of_the_two_entries_of_a_pair_has_its_own_gradient():
    matrix = torch.zeros(2, 2, requires_grad=True)
    x = torch.tensor([[1.0], [2.0]])
    (DenseAdjacency(matrix) @ x)[0].sum().backward()
    assert matrix.grad.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_asymmetry_counts_each_pair_twice():
    assert DenseAdjacency(torch.tensor([[5.0, 1.0], [4.0, 0.0]])).asymmetry() == 2 * 3.0**2


def test_the_gradient_of_asymmetry_agrees_with_finite_differences(rng):
    matrix = torch.rand(4, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda m: DenseAdjacency(m).asymmetry(), (matrix,))
