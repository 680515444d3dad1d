import threading

import pytest

from glnn.engine.threads import mapped

MANY = 2**20


@pytest.mark.parametrize("n_numbers", [1, MANY])
def test_answers_come_in_the_order_of_the_items(n_numbers):
    assert mapped(lambda k: k**2, list(range(50)), n_numbers) == [k**2 for k in range(50)]
    assert mapped(lambda k: k, [], n_numbers) == []


def test_little_work_stays_in_this_thread():
    here = threading.get_ident()
    assert set(mapped(lambda _: threading.get_ident(), [1, 2, 3], 10)) == {here}


def test_an_error_in_a_thread_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        mapped(lambda k: 1 / k, [1, 0], MANY)
