import dataclasses
import math

import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.exceptions import InputError, InputTypeError
from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.objective import READINGS, Objective, Term, Weights
from glnn.objective.base import RowCoefficients
from glnn.objective.terms import Ridge, Sparsity

# Objective

NAMES = [field.name for field in dataclasses.fields(Weights)]


def graph(matrix):
    return SparseAdjacency.from_scipy(sp.csr_matrix(torch.tensor(matrix).double().numpy()))


A = graph([[0.5, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
G = graph([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
X = torch.tensor([[1, 0], [2, 1], [0, 3]], dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_scales_the_term_of_its_name_and_no_other(name):
    ones = Weights(**dict.fromkeys(NAMES, 1.0))
    before = Objective.of(ones, X, G).terms(A)
    after = Objective.of(ones.replace(**{name: 3.0}), X, G).terms(A)
    for other in NAMES:
        assert_close(after[other], (3 if other == name else 1) * before[other])


@pytest.mark.parametrize("reading", READINGS)
def test_the_gradient_of_the_sum_agrees_with_finite_differences(reading):
    inputs = (A.to_dense().requires_grad_(), X.clone().requires_grad_())

    def value(matrix, x):
        objective = Objective.of(Weights(ridge=0.5), x, G, reading=reading)
        return objective(DenseAdjacency(matrix))

    assert gradcheck(value, inputs)


def test_two_terms_of_one_name_are_refused():
    with pytest.raises(InputError, match="different names, got ridge twice"):
        Objective.of(Weights(), X, more=[Ridge(1.0)])


@dataclasses.dataclass(frozen=True, eq=False)
class ValueAlone(Term):
    weight: float
    name: str = "value_alone"

    def value(self, adj):
        return adj.to_dense().sum()

    def new_row(self, dual):
        return RowCoefficients()


def test_a_term_that_has_no_part_in_the_solver_is_refused():
    with pytest.raises(InputError, match="the term value_alone must have a part in the solver"):
        Objective((ValueAlone(1.0),))


def test_a_term_that_forgets_new_nodes_cannot_be_made():
    class Forgetful(Ridge):
        new_row = Term.new_row

    with pytest.raises(TypeError, match="new_row"):
        Forgetful(1.0)


def test_a_wanted_degree_sets_one_weight():
    twice = Objective((Sparsity(0.1), Sparsity(0.2, name="more_sparsity")))
    with pytest.raises(InputError, match="weight of one term, got sparsity, more_sparsity"):
        twice.with_degree_weight(0.3)


@pytest.mark.parametrize("terms", [3, [3], "ab", [None], [Sparsity(1.0), object]])
def test_what_is_no_term_is_refused_in_one_line(terms):
    with pytest.raises(
        InputTypeError, match=r"^terms must be a list of glnn\.objective\.Term, got"
    ):
        Objective.of(Weights(), X, more=terms)


# Weights


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_negative_or_not_finite_is_refused(name, value):
    with pytest.raises(InputError, match=rf"^weights\.{name} must be finite"):
        Weights().replace(**{name: value})
    with pytest.raises(InputError, match="the weight of ridge must be"):
        Objective((Ridge(value),))
