import dataclasses
import math

import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.exceptions import InputError
from glnn.graph import SparseAdjacency
from glnn.objective import READINGS, Objective, Weights, terms

NAMES = [field.name for field in dataclasses.fields(Weights)]


def graph(matrix):
    return SparseAdjacency.from_scipy(sp.csr_matrix(torch.tensor(matrix).double().numpy()))


A = graph([[0.5, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
G = graph([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
X = torch.tensor([[1, 0], [2, 1], [0, 3]], dtype=torch.float64)


def test_the_default_weights_are_the_papers():
    published = {"smoothness": 1.0, "sparsity": 0.1, "row_sums": 0.1, "loops": 1e-3}
    published |= {"closeness": 10.0, "symmetry": 0.0, "ridge": 0.0}
    assert dataclasses.asdict(Weights()) == published
    assert Weights.paper() == Weights()
    assert Weights.paper(0.3) == Weights(smoothness=0.3)


def test_weights_without_a_prior_make_the_problem_strictly_convex():
    weights = Weights.without_prior()
    assert weights.closeness == 0
    assert weights.ridge > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_negative_or_not_finite_is_refused_in_one_line(name, value):
    with pytest.raises(InputError, match=rf"^weights\.{name} must be finite, at least 0; got"):
        Weights(**{name: value})
    with pytest.raises(InputError, match=rf"^weights\.{name} must be finite"):
        Weights().replace(**{name: value})


def test_weights_cannot_be_changed_in_place():
    weights = Weights()
    with pytest.raises(dataclasses.FrozenInstanceError):
        weights.sparsity = 1.0
    assert weights.replace(sparsity=2.0) == Weights(sparsity=2.0)
    assert weights == Weights()


def test_an_unknown_weight_is_an_error():
    with pytest.raises(TypeError, match="smothness"):
        Weights(smothness=1.0)


@pytest.mark.parametrize("reading", READINGS)
def test_the_terms_are_the_papers_functions_under_their_names(reading):
    weights = Weights(**dict.fromkeys(NAMES, 1.0))
    named = Objective(weights, reading).terms(A, X, G)
    assert set(named) == set(NAMES)
    for name in set(NAMES) - {"smoothness", "closeness"}:
        assert_close(named[name], getattr(terms, name)(A))
    assert_close(named["smoothness"], READINGS[reading](A, X))
    assert_close(named["closeness"], terms.closeness(A, G))


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_scales_the_term_of_its_name_and_no_other(name):
    ones = Weights(**dict.fromkeys(NAMES, 1.0))
    before = Objective(ones).terms(A, X, G)
    after = Objective(ones.replace(**{name: 3.0})).terms(A, X, G)
    for other in NAMES:
        assert_close(after[other], (3 if other == name else 1) * before[other])


@pytest.mark.parametrize("prior", [None, G], ids=["no prior", "prior"])
def test_the_objective_is_the_sum_of_its_terms(prior):
    objective = Objective(Weights(ridge=0.5))
    assert_close(objective(A, X, prior), sum(objective.terms(A, X, prior).values()))


def test_without_a_prior_graph_there_is_no_closeness():
    assert "closeness" not in Objective(Weights()).terms(A, X)


@pytest.mark.parametrize("reading", READINGS)
def test_the_gradient_of_the_sum_agrees_with_finite_differences(reading):
    objective = Objective(Weights(ridge=0.5), reading)
    values = A.values().clone().requires_grad_()
    x = X.clone().requires_grad_()
    assert gradcheck(lambda v, x: objective(A.with_values(v), x, G), (values, x))


def test_an_unknown_reading_is_refused_with_the_one_probably_meant():
    with pytest.raises(InputError, match="Did you mean 'frobenius'"):
        Objective(Weights(), "frobenious")
