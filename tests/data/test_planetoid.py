import os
import pickle
import struct

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import load_dataset
from glnn.data.planetoid import PARTS, read_pickle, read_planetoid
from glnn.exceptions import DataFormatError, InputError

# Data sets

FILES = tuple(f"ind.toy.{part}" for part in (*PARTS, "test.index"))
SETTINGS = settings(settings.get_profile("records"))


def write_planetoid(folder, features, one_hot, graph, n_train, test, missing=(), name="toy"):
    """Write the eight files as Planetoid does; nodes in ``missing`` have no row."""
    known = min(test)
    rows = [node for node in test if node not in missing]
    parts = {
        "x": sp.csr_matrix(features[:n_train]),
        "allx": sp.csr_matrix(features[:known]),
        "tx": sp.csr_matrix(features[rows]),
        "y": one_hot[:n_train],
        "ally": one_hot[:known],
        "ty": one_hot[rows],
        "graph": graph,
    }
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in rows))


def toy(folder, missing=(7,), name="toy"):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 2, size=(9, 4)).astype(np.float32)
    one_hot = np.eye(3, dtype=np.int32)[np.arange(9) % 3]
    graph = {node: [(node + 1) % 9, node] for node in range(9)}
    write_planetoid(folder, features, one_hot, graph, 3, [8, 6, 7], missing, name)
    return features, one_hot


def test_rows_go_to_their_places_and_missing_ones_stay_empty(tmp_path):
    features, _ = toy(tmp_path)
    data = read_planetoid(tmp_path, "toy")
    features[7] = 0
    assert np.array_equal(data.features.toarray(), features)
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, -1, 2]
    assert {k: v.tolist() for k, v in data.splits.items()} == {
        "train": [0, 1, 2],
        "val": [3, 4, 5],
        "test": [6, 8],
    }
    assert data.n_edges == 9  # a ring; its self loops and second directions are gone


@SETTINGS
@given(st.data())
def test_what_planetoid_files_hold_comes_back(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("planetoid")
    n_known, n_test = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    n_nodes, n_classes = n_known + n_test, data.draw(st.integers(1, 3))
    values = st.floats(0, 8, width=16)
    features = np.array(
        data.draw(st.lists(values, min_size=2 * n_nodes, max_size=2 * n_nodes)), np.float32
    ).reshape(n_nodes, 2)
    labels = np.array([data.draw(st.integers(0, n_classes - 1)) for _ in range(n_nodes)])
    node = st.integers(0, n_nodes - 1)
    graph = {i: data.draw(st.lists(node, max_size=4)) for i in range(n_nodes)}
    test = data.draw(st.permutations(range(n_known, n_nodes)))
    n_train = data.draw(st.integers(0, n_known))
    write_planetoid(folder, features, np.eye(n_classes, dtype=int)[labels], graph, n_train, test)
    record = read_planetoid(folder)
    assert np.array_equal(record.features.toarray(), features)
    assert record.labels.tolist() == labels.tolist()
    assert record.splits["test"].tolist() == sorted(test)
    dense = np.zeros((n_nodes, n_nodes))
    for i, others in graph.items():
        dense[i, others] = dense[others, i] = 1
    np.fill_diagonal(dense, 0)
    assert np.array_equal(record.graph.toarray(), dense)


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_raw_files_give_the_arrays_of_the_npz(published, name):
    if not (published / "raw" / "planetoid").is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    raw = read_planetoid(published / "raw" / "planetoid", name)
    assert raw.equals(load_dataset(name))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("ally", np.eye(3)[:2], "must"),
        ("tx", sp.csr_matrix((1, 4)), "a row for each"),
        ("tx", sp.csr_matrix((2, 5)), "must"),
        ("ty", np.full((2, 3), 0.5), "at most one 1"),
        ("ty", np.zeros(3), "must"),
        ("allx", [1], "must"),
        ("graph", {0: [99]}, "name nodes"),
        ("graph", [1, 2], "list of neighbours"),
        ("y", np.zeros((9, 3)), "disjoint"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, part, value, message):
    toy(tmp_path)
    (tmp_path / f"ind.toy.{part}").write_bytes(pickle.dumps(value, protocol=2))
    with pytest.raises(InputError, match=message):
        read_planetoid(tmp_path)


@pytest.mark.parametrize("text", ["", "6\n6\n", "6\n-8\n", "6\n999999999\n", "1\n2\n", "6\n8e1\n"])
def test_a_bad_test_index_is_refused(tmp_path, text):
    toy(tmp_path)
    (tmp_path / "ind.toy.test.index").write_text(text)
    with pytest.raises(DataFormatError):
        read_planetoid(tmp_path)


def test_mutated_files_give_a_record_or_one_clear_line(tmp_path, survives_mutation):
    toy(tmp_path)
    files = [tmp_path / name for name in FILES]
    survives_mutation(lambda: read_planetoid(tmp_path, "toy"), files)


# Pickles


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
        np.array([1, 256], dtype=">i4"),
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
    "raw",
    [
        b"\x80\x02cbuiltins\neval\n.",
        b"\x80\x02cnumpy\nload\n.",
        b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
        b"\x80\x02ca.b\nc d\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93.",  # a dotted name
        pickle.dumps(np.arange(3), protocol=5),  # the buffer protocol
    ],
)
def test_a_name_that_is_not_listed_is_refused(raw):
    with pytest.raises(DataFormatError, match="may name NumPy and SciPy arrays only"):
        read_pickle(raw)


def test_names_that_are_listed_cannot_be_changed_by_a_file(tmp_path):
    toy(tmp_path)
    for name in (b"numpy\nndarray", b"numpy\ndtype", b"scipy.sparse.csr\ncsr_matrix"):
        raw = b"\x80\x02c" + name + b"\nN}X\x05\x00\x00\x00valueK\x01s\x86b."  # setattr
        (tmp_path / "ind.toy.ally").write_bytes(raw)
        with pytest.raises(DataFormatError):
            read_planetoid(tmp_path)
    toy(tmp_path)
    assert read_planetoid(tmp_path).n_nodes == 9


@pytest.mark.parametrize(
    "value", [np.array([None, 1], dtype=object), np.array(["a"]), np.array([1j])]
)
def test_arrays_of_anything_but_numbers_are_refused(value):
    with pytest.raises(DataFormatError, match="must hold numbers"):
        read_pickle(pickle.dumps(value, protocol=2))


def test_sizes_beyond_the_file_take_no_memory(tmp_path):
    with pytest.raises(DataFormatError, match="one by one"):
        read_pickle(b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b"(K\x01e.")
    matrix = sp.csr_matrix(np.eye(3))
    matrix._shape = (3, 2)
    with pytest.raises(DataFormatError, match="columns"):
        read_pickle(pickle.dumps(matrix, protocol=2))
    toy(tmp_path)
    shared = [1, 2]
    (tmp_path / "ind.toy.graph").write_bytes(pickle.dumps({0: shared, 1: shared}, protocol=2))
    with pytest.raises(DataFormatError, match="each list once"):
        read_planetoid(tmp_path)
