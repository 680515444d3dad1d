import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glnn.report.page.pack import packed, scaled_to, unpacked

KINDS = st.sampled_from([np.uint8, np.uint16, np.uint32, np.float32])


@given(st.lists(st.tuples(KINDS, st.integers(0, 7)), max_size=4), st.text(max_size=9))
def test_what_is_packed_comes_back_whatever_its_length(blocks, text):
    arrays = {f"a{k}": np.arange(n, dtype=kind) for k, (kind, n) in enumerate(blocks)}
    words, found = unpacked(packed({"text": text}, arrays))
    assert words == {"text": text}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_the_same_input_gives_the_same_text():
    arrays = {"a": np.arange(5, dtype=np.uint8)}
    assert packed({}, arrays) == packed({}, arrays)


def test_a_kind_that_the_script_does_not_know_is_refused():
    with pytest.raises(TypeError, match="float64"):
        packed({}, {"a": np.zeros(2)})


@given(hnp.arrays(np.float64, 6, elements=st.floats(0, 3)))
def test_scaled_numbers_are_off_by_half_a_step_at_most(values):
    back = scaled_to(values, np.uint16, 3.0) / 65535 * 3.0
    assert np.abs(back - values).max() <= 0.5 * 3.0 / 65535 + 1e-12
