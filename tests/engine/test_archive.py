import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load, save
from torch import Tensor

from glnn.data import files
from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.engine import archive
from glnn.engine.archive import (
    Packer,
    compute_digest,
    pack_arrays,
    read_archive,
    read_checked_json,
    unpack,
    unpack_arrays,
    write_archive,
    write_checked_json,
)
from glnn.engine.settings import PRESETS, FitSettings
from glnn.exceptions import CheckpointError, InputError
from glnn.solver import NewRowProblem, learn_graph

# Dataclasses, arrays and plain values


def round_trip(kind, value):
    packer = Packer()
    page = json.loads(json.dumps(packer.pack(value)))
    return unpack(kind, page, packer.arrays)


@pytest.mark.parametrize("preset", PRESETS)
def test_settings_come_back(preset):
    assert round_trip(FitSettings, PRESETS[preset]) == PRESETS[preset]
    either = FitSettings | dict[str, Any] | None
    for value in (PRESETS[preset], {"scaling": "none", "tracks": ["hops"]}, None):
        assert round_trip(either, value) == value


@dataclass(frozen=True, eq=False)
class Whole:
    dense: np.ndarray
    sparse: sp.csr_matrix | None
    either: Any
    names: np.ndarray
    tensors: dict[str, Tensor]
    pairs: tuple[tuple[str, float], ...]
    partition: Partition


@pytest.mark.parametrize("is_sparse", [True, False])
def test_arrays_tensors_text_and_matrices_come_back(is_sparse):
    csr = sp.csr_matrix(np.eye(3))
    either = csr if is_sparse else np.eye(2, dtype=np.float32)
    tensors = {"a.b": torch.arange(3), "c": torch.tensor(2.5)}
    pairs = (("x", 0.5), ("y", np.float64(1.5)))
    whole = Whole(
        np.arange(3), csr if is_sparse else None, either, np.array(["ä", ""]), tensors, pairs,
        Partition(3, SINGLE_PROCESS),
    )  # fmt: skip
    again = round_trip(Whole, whole)
    np.testing.assert_array_equal(again.dense, whole.dense)
    assert sp.issparse(again.either) == is_sparse and (again.sparse is None) != is_sparse
    assert abs(again.either - either).max() == 0 and again.either.dtype == either.dtype
    assert again.names.tolist() == ["ä", ""] and again.pairs == pairs
    assert all(torch.equal(part, again.tensors[name]) for name, part in tensors.items())
    assert again.partition.n_nodes == 3


def test_objects_that_are_no_text_are_refused_in_one_line():
    with pytest.raises(InputError, match="classes must be numbers or text to be saved, got tuple"):
        Packer().pack({"classes": np.array([("a", 1), None], dtype=object)})


@pytest.mark.parametrize("place", ["indices", "indptr", "shape"])
def test_a_matrix_that_points_beyond_its_end_is_refused(place):
    packer = Packer()
    page, arrays = packer.pack(sp.csr_matrix(np.eye(3)), "m"), packer.arrays
    arrays[f"m.{place}"] = arrays[f"m.{place}"] + (5 if place == "indices" else -2)
    with pytest.raises((ValueError, IndexError)):
        unpack(Any, page, arrays)


@pytest.mark.parametrize(("n_columns", "width"), [(2**31 - 1, np.int32), (2**31, np.int64)])
def test_columns_beyond_32_bits_keep_their_numbers(n_columns, width):
    last = np.array([n_columns - 1], dtype=np.int64)
    matrix = sp.csr_matrix((np.ones(1), last, np.array([0, 1])), shape=(1, n_columns))
    packer = Packer()
    page = packer.pack(matrix, "x")
    assert packer.arrays["x.indices"].dtype == width
    assert unpack(Any, page, packer.arrays).indices.tolist() == [n_columns - 1]


@pytest.mark.parametrize("with_graph", [True, False])
def test_the_one_row_problem_gives_the_same_links_again(blocks, with_graph):
    features, graph, _ = blocks
    rows = learn_graph(features, graph if with_graph else None).new_rows
    again = round_trip(NewRowProblem, rows)
    new = features[:3] + features[10:13]
    found, expected = again.connect(new), rows.connect(new)
    assert abs(found.links - expected.links).max() == 0
    np.testing.assert_array_equal(found.loops, expected.loops)


def test_the_digest_knows_names_types_shapes_and_values():
    array = np.arange(6.0)
    same = compute_digest(["x", {"a": array, "b": array}])
    assert same == compute_digest(["x", {"b": array, "a": array.copy()}])
    others = [
        compute_digest(["y", {"a": array, "b": array}]),
        compute_digest(["x", {"a": array, "c": array}]),
        compute_digest(["x", {"a": array, "b": array.reshape(2, 3)}]),
        compute_digest(["x", {"a": array, "b": array.view(np.int64)}]),
        compute_digest(["x", {"a": array, "b": array + 1e-9}]),
    ]
    assert len({same, *others}) == 6


# Folder of a saved model


@dataclass(frozen=True, eq=False)
class Kept:
    a: np.ndarray
    note: str


@pytest.fixture
def saved(tmp_path):
    write_archive(tmp_path / "m", Kept(np.arange(3.0), "x"))
    return tmp_path / "m"


def test_a_model_that_is_replaced_is_the_old_or_the_new_one_whenever_the_power_fails(
    saved, power_cuts, monkeypatch
):
    (saved / "mine.txt").write_text("mine")
    cuts = power_cuts(saved.parent)
    with monkeypatch.context() as patch:
        cuts.watch(patch, (files, "exchange_folders"))
        write_archive(saved, Kept(np.arange(9.0), "y"))
    assert list(saved.parent.iterdir()) == [saved]
    for state in cuts.states():
        again = read_archive(state / "m", Kept)
        assert (again.note, len(again.a)) in (("x", 3), ("y", 9))
        assert (state / "m" / "mine.txt").exists()


def damage_page(change):
    def damage(folder):
        page = json.loads((folder / "model.json").read_text())
        page.update(change)
        (folder / "model.json").write_text(json.dumps(page))

    return damage


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / "model.json").unlink(), "cannot be read"),
        (lambda f: (f / "model.safetensors").unlink(), "cannot be read"),
        (lambda f: (f / "model.json").write_text("{"), "cannot be read"),
        (lambda f: (f / "model.json").write_bytes(b"\xff"), "cannot be read"),
        (lambda f: (f / "model.json").write_text("[]"), "cannot be read"),
        (damage_page({"version": 99}), "of format 6, got '99'"),
        (damage_page({"note": "y"}), "damaged"),
        (lambda f: (f / "model.safetensors").write_bytes(b"abc"), "damaged"),
    ],
)
def test_a_broken_folder_is_refused_in_one_line(saved, damage, words):
    damage(saved)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_archive(saved, Kept)
    assert "\n" not in str(caught.value)


# Arrays in a safetensors file

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
    found = load(pack_arrays(WHOLE))
    assert json.loads(found.pop("repeated").tobytes()) == {}
    same(found, WHOLE)


@dataclass(frozen=True, eq=False)
class Model:
    adjacency: sp.csr_matrix
    features: np.ndarray
    prior: sp.csr_matrix | None
    other: np.ndarray  # the same in every process


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rows_of_all_processes_come_together_in_the_file(together, tmp_path, size):
    rng = np.random.default_rng(0)
    graph = sp.random(11, 11, 0.3, format="csr", random_state=0)
    whole = Model(graph, rng.random((11, 2)), None, np.arange(3))
    write_archive(tmp_path / "alone", whole)

    def work(peers):
        layout = Partition(11, peers)
        rows = layout.rows
        part = Model(graph[rows], whole.features[rows], None, whole.other)
        write_archive(tmp_path / "several", part, layout)

    together(size, work)
    found = read_archive(tmp_path / "several", Model)
    assert (found.adjacency != graph).nnz == 0
    np.testing.assert_array_equal(found.features, whole.features)
    np.testing.assert_array_equal(found.other, whole.other)
    assert found.prior is None


# Equal arrays


def test_equal_arrays_are_kept_once_and_all_come_back():
    twice = {**WHOLE, "g": WHOLE["b"].copy(), "h": WHOLE["b"].copy(), "i": WHOLE["a"].copy()}
    packed = pack_arrays(twice)
    kept = load(packed)
    assert len(kept) == len(WHOLE) + 1  # and the names of those that are not kept
    assert {"g", "h", "i"}.isdisjoint(kept)
    same(unpack_arrays(packed), twice)


def test_arrays_of_other_types_or_shapes_are_not_equal():
    zeros = {
        "a": np.zeros(4),
        "b": np.zeros((2, 2)),
        "c": np.zeros(4, dtype=np.int64),
        "d": np.zeros(8, dtype=np.float32),
        "e": np.array([0.0, 0.0, 0.0, -0.0]),
    }
    packed = pack_arrays(zeros)
    assert set(zeros) < set(load(packed))
    same(unpack_arrays(packed), zeros)


@dataclass(frozen=True, eq=False)
class Many:
    parts: dict[str, np.ndarray]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"b": "missing"}'])
def test_a_list_of_equal_arrays_that_is_none_is_refused_in_one_line(tmp_path, monkeypatch, content):
    forged = {"a": np.zeros(2), "repeated": np.frombuffer(content, dtype=np.uint8)}
    monkeypatch.setattr(archive, "pack_arrays", lambda arrays: save(forged))
    write_archive(tmp_path / "m", Many({}))
    with pytest.raises(CheckpointError, match="was damaged or is not complete") as caught:
        read_archive(tmp_path / "m", Many)
    assert "\n" not in str(caught.value)


# JSON files with a checksum

PAGE = {"numbers": [0.1, 2e-300, -5], "text": "é", "none": None, "nested": {"b": 1, "a": 2}}


@pytest.fixture
def path(tmp_path):
    write_checked_json(tmp_path / "page.json", "test", 4, PAGE)
    return tmp_path / "page.json"


def test_any_flipped_bit_is_noticed(path):
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            try:
                assert read_checked_json(path, "test", 4) == {
                    "format": "test",
                    "version": 4,
                    **PAGE,
                }
            except CheckpointError as error:
                assert "\n" not in str(error)


def test_any_cut_is_noticed(path):
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_checked_json(path, "test", 4)


def test_a_page_beyond_the_limit_is_refused_unread(path):
    with path.open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(CheckpointError, match="at most"):
        read_checked_json(path, "test", 4)
