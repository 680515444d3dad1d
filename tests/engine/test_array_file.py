import io

import numpy as np
import pytest
from safetensors.numpy import load

from glnn.engine import array_file
from glnn.engine.array_file import Spread, write_arrays
from glnn.exceptions import InputError
from glnn.peers import Partition

WHOLE = {
    "a": np.arange(7, dtype=np.uint8),
    "b": np.arange(12.0).reshape(4, 3),
    "c": np.array(2.5),
    "d": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "e": np.empty((0, 3), dtype=np.int64),
    "f": np.array([True, False]),
}


def same(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_any_reader_of_safetensors_finds_what_was_written():
    file = io.BytesIO()
    write_arrays(file.write, WHOLE)
    same(load(file.getvalue()), WHOLE)


@pytest.mark.parametrize("piece", [1, 2**26])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_spread_arrays_follow_each_other_in_the_file_of_the_first(
    together, monkeypatch, size, piece
):
    monkeypatch.setattr(array_file, "PIECE", piece)
    rng = np.random.default_rng(0)
    spread = {"x": rng.random((11, 2)), "y": np.arange(11, dtype=np.uint8)}

    def work(peers):
        rows = Partition(11, peers).rows
        file = io.BytesIO() if peers.rank == 0 else None
        parts = {name: Spread(array[rows]) for name, array in spread.items()}
        own = WHOLE if peers.rank == 0 else {}
        digest = write_arrays(file and file.write, {**own, **parts}, peers)
        return digest, file.getvalue() if file else b""

    (digest, written), *_ = together(size, work)
    same(load(written), WHOLE | spread)
    alone = io.BytesIO()
    assert write_arrays(alone.write, WHOLE | spread) == digest
    assert alone.getvalue() == written


def test_arrays_that_the_format_lacks_are_refused_in_one_line():
    with pytest.raises(InputError, match="complex128 cannot be saved, got one named 'z'"):
        write_arrays(io.BytesIO().write, {"z": np.zeros(1, dtype=complex)})


@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcdefgh"])
def test_arrays_begin_at_a_multiple_of_eight(name):
    parts = []
    write_arrays(parts.append, {name: np.arange(3.0)})
    whole = b"".join(parts)
    assert int.from_bytes(whole[:8], "little") % 8 == 0
    np.testing.assert_array_equal(load(whole)[name], np.arange(3.0))
