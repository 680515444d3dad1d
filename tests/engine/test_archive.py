import dataclasses
import io
import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load

from glnn.data import files
from glnn.distributed import Partition
from glnn.engine import archive
from glnn.engine.archive import (
    ShardedArray,
    compute_digest,
    drop_repeats,
    fill_networks,
    pack_matrix,
    pack_networks,
    pack_new_rows,
    parse_settings,
    parse_track,
    read_archive,
    read_checked_json,
    restore_repeats,
    unpack_matrix,
    unpack_new_rows,
    write_archive,
    write_arrays,
    write_checked_json,
)
from glnn.engine.settings import PRESETS
from glnn.engine.tasks import build_head
from glnn.exceptions import CheckpointError, InputError
from glnn.solver import learn_graph

# Folder of a saved model


@pytest.fixture
def saved(tmp_path):
    write_archive(tmp_path / "m", {"a": np.arange(3.0)}, {"note": "x"})
    return tmp_path / "m"


def test_what_is_written_is_read_again(saved):
    arrays, page = read_archive(saved)
    np.testing.assert_array_equal(arrays["a"], np.arange(3.0))
    assert page["note"] == "x"


def test_a_model_that_is_replaced_is_the_old_or_the_new_one_whenever_the_power_fails(
    saved, power_cuts, monkeypatch
):
    (saved / "mine.txt").write_text("mine")
    cuts = power_cuts(saved.parent)
    with monkeypatch.context() as patch:
        cuts.watch(patch, (files, "exchange_folders"))
        write_archive(saved, {"a": np.arange(9.0)}, {"note": "y"})
    assert list(saved.parent.iterdir()) == [saved]
    for state in cuts.states():
        arrays, page = read_archive(state / "m")
        assert (page["note"], len(arrays["a"])) in (("x", 3), ("y", 9))
        assert (state / "m" / "mine.txt").exists()


@pytest.mark.parametrize("matrix", [np.eye(3), sp.csr_matrix(np.eye(3)), None])
def test_matrices_survive_packing(matrix):
    arrays: dict[str, np.ndarray] = {}
    pack_matrix("m", matrix, arrays)
    again = unpack_matrix("m", arrays)
    assert (again is None) == (matrix is None)
    if matrix is not None:
        assert sp.issparse(again) == sp.issparse(matrix)
        assert abs(again - matrix).max() == 0


@pytest.mark.parametrize("place", ["indices", "indptr", "shape"])
def test_a_matrix_that_points_beyond_its_end_is_refused(place):
    arrays = {}
    pack_matrix("m", sp.csr_matrix(np.eye(3)), arrays)
    arrays[f"m.{place}"] = arrays[f"m.{place}"] + (5 if place == "indices" else -2)
    with pytest.raises((ValueError, IndexError)):
        unpack_matrix("m", arrays)


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
        (damage_page({"version": 99}), "of format 5, got '99'"),
        (damage_page({"note": "y"}), "damaged"),
        (lambda f: (f / "model.safetensors").write_bytes(b"abc"), "damaged"),
    ],
)
def test_a_broken_folder_is_refused_in_one_line(saved, damage, words):
    damage(saved)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_archive(saved)
    assert "\n" not in str(caught.value)


def test_no_partial_file_is_left_beside_the_model(saved):
    assert sorted(p.name for p in saved.iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize(("n_columns", "width"), [(2**31 - 1, np.int32), (2**31, np.int64)])
def test_columns_beyond_32_bits_keep_their_numbers(n_columns, width):
    last = np.array([n_columns - 1], dtype=np.int64)
    matrix = sp.csr_matrix((np.ones(1), last, np.array([0, 1])), shape=(1, n_columns))
    arrays = {}
    pack_matrix("x", matrix, arrays)
    assert arrays["x.indices"].dtype == width
    assert unpack_matrix("x", arrays).indices.tolist() == [n_columns - 1]


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
    file = io.BytesIO()
    write_arrays(file.write, WHOLE)
    same(load(file.getvalue()), WHOLE)


@pytest.mark.parametrize("piece", [1, 2**26])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_spread_arrays_follow_each_other_in_the_file_of_the_first(
    together, monkeypatch, size, piece
):
    monkeypatch.setattr(archive, "CHUNK_BYTES", piece)
    rng = np.random.default_rng(0)
    spread = {"x": rng.random((11, 2)), "y": np.arange(11, dtype=np.uint8)}

    def work(peers):
        rows = Partition(11, peers).rows
        file = io.BytesIO() if peers.rank == 0 else None
        parts = {name: ShardedArray(array[rows]) for name, array in spread.items()}
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


# Equal arrays


def test_equal_arrays_are_kept_once_and_all_come_back():
    twice = {**WHOLE, "g": WHOLE["b"].copy(), "h": WHOLE["b"].copy(), "i": WHOLE["a"].copy()}
    kept = drop_repeats(twice)
    assert len(kept) == len(WHOLE) + 1  # and the names of those that are not kept
    assert {"g", "h", "i"}.isdisjoint(kept)
    same(restore_repeats(kept), twice)


def test_arrays_of_other_types_or_shapes_are_not_equal():
    zeros = {
        "a": np.zeros(4),
        "b": np.zeros((2, 2)),
        "c": np.zeros(4, dtype=np.int64),
        "d": np.zeros(8, dtype=np.float32),
        "e": np.array([0.0, 0.0, 0.0, -0.0]),
    }
    kept = drop_repeats(zeros)
    assert set(zeros) < set(kept)
    same(restore_repeats(kept), zeros)


def test_parts_that_are_equal_in_one_process_alone_are_two_arrays(together):
    first, other = np.arange(8.0), np.r_[np.arange(4.0), np.zeros(4)]

    def work(peers):
        rows = Partition(8, peers).rows
        spread = {"a": first, "b": other, "c": first.copy(), "d": other.copy()}
        return set(drop_repeats({n: ShardedArray(x[rows]) for n, x in spread.items()}, peers))

    for kept in together(2, work):
        assert {"a", "b"} < kept
        assert {"c", "d"}.isdisjoint(kept)


def test_the_folder_of_a_model_holds_equal_arrays_once(tmp_path):
    large = np.random.default_rng(0).random(10_000)
    write_archive(tmp_path / "one", {"a": large}, {})
    write_archive(tmp_path / "many", {name: large.copy() for name in "abcdef"}, {})
    arrays, _ = read_archive(tmp_path / "many")
    same(arrays, dict.fromkeys("abcdef", large))
    one, many = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("one", "many"))
    assert many < 1.05 * one


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"b": "missing"}'])
def test_a_list_of_equal_arrays_that_is_none_is_refused_in_one_line(tmp_path, monkeypatch, content):
    forged = {"a": np.zeros(2), "repeated": np.frombuffer(content, dtype=np.uint8)}
    monkeypatch.setattr(archive, "drop_repeats", lambda arrays, peers: forged)
    write_archive(tmp_path / "m", {}, {})
    with pytest.raises(CheckpointError, match="was damaged or is not complete") as caught:
        read_archive(tmp_path / "m")
    assert "\n" not in str(caught.value)


# Parts of a fit


@pytest.mark.parametrize("preset", PRESETS)
def test_settings_survive_as_plain_values(preset):
    settings = PRESETS[preset]
    page = json.loads(json.dumps(dataclasses.asdict(settings)))
    assert parse_settings(page) == settings
    for tracks, pages in ((settings.tracks, "tracks"), (settings.no_graph, "no_graph")):
        assert tuple(map(parse_track, page[pages])) == tracks


@pytest.mark.parametrize("part", ["name", "head", "graph"])
def test_a_track_that_lacks_a_part_is_refused(part):
    page = dataclasses.asdict(PRESETS["default"].tracks[0])
    del page[part]
    with pytest.raises((KeyError, TypeError)):
        parse_track(page)


def test_networks_get_the_parameters_that_were_packed():
    heads = [track.head for track in PRESETS["default"].tracks]
    first, other = (
        [build_head(head, 4, 3, torch.Generator().manual_seed(seed)) for head in heads]
        for seed in (0, 1)
    )
    arrays: dict[str, np.ndarray] = {}
    pack_networks(first, arrays)
    fill_networks(other, arrays)
    for one, two in zip(first, other):
        assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters()))


@pytest.mark.parametrize("with_graph", [True, False])
def test_the_one_row_problem_gives_the_same_links_again(blocks, with_graph):
    features, graph, _ = blocks
    rows = learn_graph(features, graph if with_graph else None).new_rows
    arrays: dict[str, np.ndarray] = {}
    page = pack_new_rows(rows, arrays)
    again = unpack_new_rows(page, arrays)
    new = features[:3] + features[10:13]
    found, expected = again.connect(new), rows.connect(new)
    assert abs(found.links - expected.links).max() == 0
    np.testing.assert_array_equal(found.loops, expected.loops)


# JSON files with a checksum

PAGE = {"numbers": [0.1, 2e-300, -5], "text": "é", "none": None, "nested": {"b": 1, "a": 2}}


@pytest.fixture
def path(tmp_path):
    write_checked_json(tmp_path / "page.json", "test", 4, PAGE)
    return tmp_path / "page.json"


def test_a_page_that_is_written_is_read_again(path):
    assert read_checked_json(path, "test", 4) == {"format": "test", "version": 4, **PAGE}


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


@pytest.mark.parametrize(("kind", "version"), [("test", 5), ("other", 4)])
def test_another_kind_or_version_is_named(path, kind, version):
    with pytest.raises(CheckpointError, match=r"must be a .* of format"):
        read_checked_json(path, kind, version)


def test_a_page_of_many_brackets_is_one_line(path):
    path.write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checked_json(path, "test", 4)


def test_a_page_beyond_the_limit_is_refused_unread(path):
    with path.open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(CheckpointError, match="at most"):
        read_checked_json(path, "test", 4)


def test_the_digest_knows_names_types_shapes_and_values():
    array = np.arange(6.0)
    same = compute_digest("x", {"a": array, "b": array})
    assert same == compute_digest("x", {"b": array, "a": array.copy()})
    others = [
        compute_digest("y", {"a": array, "b": array}),
        compute_digest("x", {"a": array, "c": array}),
        compute_digest("x", {"a": array, "b": array.reshape(2, 3)}),
        compute_digest("x", {"a": array, "b": array.view(np.int64)}),
        compute_digest("x", {"a": array, "b": array + 1e-9}),
    ]
    assert len({same, *others}) == 6


def test_the_page_is_plain_json(path):
    assert json.loads(path.read_text())["numbers"] == PAGE["numbers"]
