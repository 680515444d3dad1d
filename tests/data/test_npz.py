import io
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from glnn.data import npz
from glnn.data.npz import MAX_HEADER, NpzFile, write_npz
from glnn.exceptions import DataFormatError, InputError


class Runs:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


def test_what_is_written_is_read_and_numpy_agrees(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "t": np.array(["x", "yy"]), "s": np.array(3)}
    write_npz(tmp_path / "a.npz", arrays)
    with NpzFile(tmp_path / "a.npz") as file:
        assert np.array_equal(file.read("a", kinds="f", ndim=2), arrays["a"])
        assert file.read("t", kinds="U", ndim=1).tolist() == ["x", "yy"]
        assert file.read("s", kinds="i", ndim=0) == 3
        with pytest.raises(DataFormatError, match="must hold the array 'b'"):
            file.read("b", kinds="f", ndim=1)
        with pytest.raises(DataFormatError, match="dimension"):
            file.read("a", kinds="i", ndim=1)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as loaded:
        assert np.array_equal(loaded["a"], arrays["a"])


def test_equal_arrays_give_equal_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_npz(tmp_path / name, {"x": np.arange(5)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_object_array_is_refused_and_nothing_runs(tmp_path):
    trap = tmp_path / "ran"
    np.savez(tmp_path / "bad.npz", x=np.array([Runs(f"touch {trap}")], dtype=object))
    with pytest.raises(DataFormatError, match="Python objects") as caught:
        NpzFile(tmp_path / "bad.npz")
    assert "\n" not in str(caught.value)
    assert not trap.exists()


@pytest.mark.parametrize("shape", [(10**12,), (10**9, 10**9), (-1,), (3,)])
@pytest.mark.parametrize("dtype", ["<f8", "<U0"])
def test_absurd_sizes_are_refused_before_memory_is_taken(tmp_path, shape, dtype):
    path = archive(tmp_path / "big.npz", {"x.npy": header(shape, dtype) + b"12345678"})
    tracemalloc.start()
    with pytest.raises(DataFormatError):
        NpzFile(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path):
    zeros = b"\0" * (300 * 2**20)
    path = archive(tmp_path / "bomb.npz", {"x.npy": header((len(zeros),), "|u1") + zeros})
    with pytest.raises(DataFormatError, match="Nothing was unpacked"):
        NpzFile(path)


@pytest.mark.parametrize("members", [{"x.txt": b"hello"}, {"x.npy": b"hello"}, {"x.npy": b""}])
def test_what_is_no_array_is_refused(tmp_path, members):
    with pytest.raises(DataFormatError):
        NpzFile(archive(tmp_path / "a.npz", members))


def test_odd_escapes_in_a_header_are_one_clear_line(tmp_path):
    text = rb"{'descr': '<f8\o', 'fortran_order': False, 'shape': ()}"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with pytest.raises(DataFormatError, match="plain array"):
        NpzFile(archive(tmp_path / "a.npz", {"x.npy": content}))


@pytest.mark.parametrize(("excess", "refused"), [(0, False), (1, True)])
def test_a_header_longer_than_allowed_is_refused(tmp_path, excess, refused):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': ()}".ljust(MAX_HEADER + excess)
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
    path = archive(tmp_path / "a.npz", {"x.npy": content})
    if refused:
        with pytest.raises(DataFormatError, match="header of at most"):
            NpzFile(path)
    else:
        with NpzFile(path) as file:
            assert file.read("x", kinds="f", ndim=0) == 0


def test_too_many_members_are_refused(tmp_path):
    members = {f"{k}.npy": header((0,)) for k in range(300)}
    with pytest.raises(DataFormatError, match="at most 256"):
        NpzFile(archive(tmp_path / "a.npz", members))


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match="must be an existing file"):
        NpzFile(tmp_path / "none.npz")


def test_what_an_archive_may_unpack_to():
    assert (npz.MAX_BYTES, npz.MAX_EXPANSION) == (2**35, 250)
