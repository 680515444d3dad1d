import pytest

from glnn.report.page.data import Measure, Method
from glnn.report.page.numbers import interval_scale, lead, measure, plain_measure


@pytest.mark.parametrize("write", [measure, lead, plain_measure])
def test_an_unknown_number_is_a_dash(write):
    assert write(Measure("x", None)) == "–"


def test_the_scale_holds_every_interval_and_all_without_a_number():
    methods = tuple(
        Method(str(k), Measure("accuracy", v, v - 0.07, v + 0.04))
        for k, v in enumerate((0.5, 0.96))
    )
    assert interval_scale(methods) == (0.4, 1.0)
    assert interval_scale(()) == (0.0, 1.0)
