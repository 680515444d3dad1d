import os
import pickle
import struct

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data.pickles import read_pickle
from glnn.exceptions import DataFormatError


class Calls:
    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_matrices_and_lists_come_back(protocol):
    matrix = sp.random(5, 7, density=0.4, format="csr", dtype=np.float32, random_state=0)
    again = read_pickle(pickle.dumps(matrix, protocol=protocol))
    assert (again != matrix).nnz == 0
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.eye(3)),
        np.zeros((0, 4), int),
    ):
        assert np.array_equal(read_pickle(pickle.dumps(array, protocol=protocol)), array)
    graph = {0: [1, 70000], 1: [], 2: [2**40]}
    assert read_pickle(pickle.dumps(graph, protocol=protocol)) == graph


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_that_calls_the_system_is_refused_and_nothing_runs(tmp_path, protocol):
    trap = tmp_path / "ran"
    raw = pickle.dumps(Calls(os.system, f"touch {trap}"), protocol=protocol)
    with pytest.raises(DataFormatError, match="Nothing was run") as caught:
        read_pickle(raw)
    assert "\n" not in str(caught.value)
    assert not trap.exists()


@pytest.mark.parametrize(
    "name",
    [
        b"builtins\neval",
        b"numpy\nload",
        b"os\nsystem",
        b"numpy.core.multiarray\nscalar",
        b"a.b\nc d",
    ],
)
def test_a_name_that_is_not_listed_is_refused(name):
    with pytest.raises(DataFormatError, match="may name NumPy and SciPy arrays only"):
        read_pickle(b"\x80\x02c" + name + b"\n.")


def test_dotted_names_do_not_reach_further():
    raw = b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93."
    with pytest.raises(DataFormatError, match="may name"):
        read_pickle(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x02cnumpy\nndarray\n.",  # a name is no data
        b"\x80\x02cnumpy\nndarray\n)R.",  # an admitted name, called in another way
        b"\x80\x02(.",
        b"\x80\x02]q\x01]q\x02.",
        b"\x80\x02]K\x01]a.",
        b"\x80\x02}K\x01s.",
        b"\x80\x02}(K\x01u.",
        b"\x80\x02K\x01.",
        b"\x80\x02](K\x01K\x02",
        b"\x80\x02N)b.",
        b"\x80\x022.",  # DUP is a byte code no data file needs
    ],
)
def test_other_byte_codes_and_shapes_are_refused(raw):
    with pytest.raises((DataFormatError, ValueError, LookupError)):
        read_pickle(raw)


def test_odd_escapes_in_old_text_are_passed_over_in_silence():
    with pytest.raises(DataFormatError, match="array, a matrix, or lists"):
        read_pickle(b"S'\\o'\n.")


def test_a_huge_memo_number_takes_no_memory():
    raw = b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b"(K\x01e."
    assert read_pickle(raw) == [1]


def test_one_list_under_many_names_is_refused():
    raw = b"\x80\x02}(K\x00](K\x01K\x02eq\x01K\x01h\x01u."
    with pytest.raises(DataFormatError, match="each list once"):
        read_pickle(raw)


def test_the_modern_numpy_buffer_protocol_is_refused_in_one_line():
    with pytest.raises(DataFormatError):
        read_pickle(pickle.dumps(np.arange(3), protocol=5))
