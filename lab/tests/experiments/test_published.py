import pytest

from glnn_lab.experiments.published import (
    COLUMNS,
    LAMBDA0,
    NUMBERS,
    ROBUSTNESS,
    TABLE1,
    TABLE2,
    published,
)


def test_every_place_has_one_number():
    assert len({(n.table, n.row, n.column) for n in NUMBERS}) == len(NUMBERS)
    assert sum(n.table == TABLE1 for n in NUMBERS) == 9 * 5 - 3
    assert sum(n.table == TABLE2 for n in NUMBERS) == 5 * 6


@pytest.mark.parametrize("column", COLUMNS)
def test_glnn_is_the_best_of_its_table_and_the_best_of_the_other(column):
    first = [n.value for n in NUMBERS if n.table == TABLE1 and n.column == column]
    second = [n.value for n in NUMBERS if n.table == TABLE2 and n.row == column]
    assert published(TABLE1, "GLNN", column) == max(first) == max(second)


def test_columns_of_the_second_table_are_values_of_the_weight():
    assert published(TABLE2, "cora", str(0.01)) == 83.4
    assert all(str(float(value)) == value for value in LAMBDA0)


def test_where_the_paper_has_nothing_there_is_nothing():
    assert published(TABLE1, "Planetoid", "terrorattack") is None
    assert published(TABLE1, None, "cora") is None
    assert published(ROBUSTNESS, "GLNN", "cora") == 58.0
