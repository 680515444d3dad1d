import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data.pickle_parts import Part, build_array, build_csr, is_whole
from glnn.data.pickles import read_pickle
from glnn.exceptions import DataFormatError

FLOAT = Part("dtype", ("f8", 0, 1))


def array_part(shape, dtype=FLOAT, raw=b"\0" * 16):
    part = Part("new_array", ())
    part.state = (1, shape, dtype, False, raw)
    return part


def test_bytes_become_an_array_of_their_shape():
    raw = np.array([1.0, 2.0]).tobytes()
    assert build_array(array_part((2,), raw=raw)).tolist() == [1.0, 2.0]
    assert build_array(array_part((1, 2), raw=raw.decode("latin1"))).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "part",
    [
        array_part((10**12,)),
        array_part((-1, -2)),
        array_part((1, 1, 2)),
        array_part((2,), raw=None),
        array_part((2,), dtype=None),
        array_part((2,), dtype=Part("dtype", ("O8", 0, 1))),
        array_part((2,), dtype=Part("dtype", ())),
        array_part([2]),
        Part("new_array", ()),
    ],
)
def test_sizes_and_types_that_do_not_fit_are_refused(part):
    with pytest.raises(DataFormatError):
        build_array(part)


def test_an_object_array_in_a_pickle_is_refused():
    with pytest.raises(DataFormatError):
        read_pickle(pickle.dumps(np.array([None, 1], dtype=object), protocol=2))


def test_big_endian_numbers_keep_their_value():
    array = np.array([1, 256], dtype=">i4")
    assert read_pickle(pickle.dumps(array, protocol=2)).tolist() == [1, 256]


def test_a_matrix_with_indices_beyond_its_shape_is_refused():
    matrix = sp.csr_matrix(np.eye(3))
    matrix._shape = (3, 2)
    with pytest.raises(DataFormatError, match="columns"):
        read_pickle(pickle.dumps(matrix, protocol=2))
    with pytest.raises(DataFormatError):
        build_csr(Part("csr", ()))


def test_only_plain_whole_numbers_count():
    assert is_whole([1, 2])
    assert not is_whole([True, 1.0])
