import math

import pytest
import torch

from glnn.solver.accuracy import largest, unit


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([], 0.0), ([-2.0], 0.0), ([1.0, 3.0], 3.0), ([1.0, math.nan], math.inf)],
)
def test_the_largest_number_is_at_least_zero_and_infinite_beside_nan(numbers, expected):
    assert largest(torch.tensor(numbers)) == expected


def test_violations_of_usual_graphs_are_measured_against_one():
    assert {unit(entry, 1.0) for entry in (0.01, 0.3, 1.0)} == {1.0}


def test_larger_entries_and_tiny_ones_are_their_own_measure():
    assert unit(50.0, 1.0) == 50.0
    assert unit(1e-7, 1e-7) == pytest.approx(1e-5)
    assert unit(0.0, 2.0) == pytest.approx(2e-6)
    assert unit(math.inf, 2.0) == 0
