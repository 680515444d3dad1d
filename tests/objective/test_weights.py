import dataclasses
import math

import pytest

from glnn.exceptions import InputError
from glnn.objective import Weights

NAMES = [field.name for field in dataclasses.fields(Weights)]


def test_the_default_weights_are_the_papers():
    published = {"smoothness": 1.0, "sparsity": 0.1, "row_sums": 0.1, "loops": 1e-3}
    published |= {"closeness": 10.0, "symmetry": 0.0, "ridge": 0.0}
    assert dataclasses.asdict(Weights()) == published
    assert Weights.paper() == Weights()
    assert Weights.paper(0.3) == Weights(smoothness=0.3)


def test_weights_without_a_prior_make_the_problem_strictly_convex():
    assert Weights.without_prior() == Weights(
        smoothness=1.0, sparsity=0.1, row_sums=1.0, closeness=0.0, ridge=0.5
    )


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
