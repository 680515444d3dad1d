import io
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import npz, read_data
from glnn.data.npz import (
    NpzFile,
    read_graph_npz,
    read_node_npz,
    write_graph_npz,
    write_node_npz,
    write_npz,
)
from glnn.exceptions import DataFormatError, InputError

# Arrays


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


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "SMALL_BYTES", 2**20)
    zeros = b"\0" * 2**21
    path = archive(tmp_path / "bomb.npz", {"x.npy": header((len(zeros),), "|u1") + zeros})
    with pytest.raises(DataFormatError, match="Nothing was unpacked"):
        NpzFile(path)


ODD = rb"{'descr': '<f8\o', 'fortran_order': False, 'shape': ()}"


@pytest.mark.parametrize(
    "members",
    [
        {"x.txt": b"hello"},
        {"x.npy": b"hello"},
        {"x.npy": b""},
        {"x.npy": b"\x93NUMPY\x01\x00" + len(ODD).to_bytes(2, "little") + ODD},
        {"x.npy": header((1,), "<U1") + b"\xff" * 4},  # beyond Unicode
    ],
)
def test_what_is_no_array_is_refused(tmp_path, members):
    path = archive(tmp_path / "a.npz", members)
    with pytest.raises(DataFormatError), NpzFile(path) as file:
        file.read("x", kinds="fU", ndim=1)


# Records

SETTINGS = settings(settings.get_profile("records"))


@SETTINGS
@given(st.data())
def test_write_then_read_is_the_identity(records, any_text, tmp_path_factory, data):
    record = records(data, text=any_text, sorted_classes=False)
    path = tmp_path_factory.mktemp("npz") / "record.npz"
    write_node_npz(record, path)
    again = read_node_npz(path)
    assert again.equals(record)
    assert again.name == record.name


def test_name_provenance_and_fillers_are_kept(small, tmp_path):
    record = small.replace(provenance={"from": "a test", "on": "purpose"})
    write_node_npz(record, tmp_path / "r.npz")
    again = read_node_npz(tmp_path / "r.npz")
    assert (again.name, dict(again.provenance)) == ("small", dict(record.provenance))
    with np.load(tmp_path / "r.npz") as file:
        assert file["unlabeled_idx"].tolist() == [2]
        assert file["labels"].min() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features_shape": np.array([10**13, 10**13])}, "sensible"),
        ({"features_shape": np.array([10**9, 2])}, "row starts"),
        ({"features_shape": np.array([6, 10**12])}, "sensible|columns"),
        ({"features_shape": np.array([6])}, "sensible"),
        ({"labels": np.zeros(5, dtype=int)}, "shape"),
        ({"labels": np.full(6, 10**15)}, "below"),
        ({"features_indices": np.full(11, 99, dtype=np.int32)}, "columns|row starts"),
        ({"features_data": np.full(9, np.nan, dtype=np.float32)}, "finite"),
        ({"edge_index": np.array([[0], [99]])}, "node numbers"),
        ({"edge_index": np.array([[0, 1]])}, "two rows"),
        ({"unlabeled_idx": np.array([77])}, "node numbers"),
        ({"train_idx": np.array([-1])}, "node numbers"),
        ({"class_names": np.array([1, 2, 3])}, "dtype"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(small, tmp_path, change, message):
    write_node_npz(small, tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as file:
        arrays = {**file, **change}
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises((DataFormatError, InputError), match=message):
        read_node_npz(tmp_path / "bad.npz")


def test_mutated_archives_give_a_record_or_one_clear_line(small, tmp_path, survives_mutation):
    path = tmp_path / "r.npz"
    write_node_npz(small, path)
    survives_mutation(lambda: read_node_npz(path), [path], count=200)


def test_mutated_arrays_in_a_sound_archive_do_too(small, tmp_path, survives_mutation, mutation):
    path = tmp_path / "r.npz"
    write_node_npz(small, path)

    def mutate_one_array(content, rng):
        with zipfile.ZipFile(io.BytesIO(content)) as old:
            members = {name: old.read(name) for name in old.namelist()}
        victim = rng.choice(list(members))
        members[victim] = mutation(members[victim], rng)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as new:
            for name, member in members.items():
                new.writestr(name, member)
        return out.getvalue()

    survives_mutation(lambda: read_node_npz(path), [path], count=300, mutate=mutate_one_array)


# Graphs without features


def test_scipy_and_glnn_read_the_same_graph(small, tmp_path):
    write_graph_npz(tmp_path / "g.npz", small.graph, small.ids)
    again, ids = read_graph_npz(tmp_path / "g.npz")
    assert (again != small.graph).nnz == 0
    assert ids.tolist() == small.ids.tolist()
    assert (sp.load_npz(tmp_path / "g.npz") != small.graph).nnz == 0


def test_mutated_archives_give_a_graph_or_one_clear_line(small, tmp_path, survives_mutation):
    path = tmp_path / "g.npz"
    write_graph_npz(path, small.graph, small.ids)
    survives_mutation(lambda: read_data(path), [path])
