import json

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import swap
from glnn.engine.archive import pack_matrix, read_archive, unpack_matrix, write_archive
from glnn.exceptions import CheckpointError


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
        cuts.watch(patch, (swap, "exchanged"))
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
        (damage_page({"version": 99}), "of format 4, got '99'"),
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
