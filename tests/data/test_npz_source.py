import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import NodeData, npz
from glnn.data.arrays import no_values
from glnn.data.node_npz import write_node_npz
from glnn.data.npz_source import NpzSource, can_be_read_by_rows
from glnn.exceptions import DataFormatError


@pytest.fixture
def stored(monkeypatch):
    """Every array is large enough to be written without compression."""
    monkeypatch.setattr(npz, "STORED_BYTES", 1)


def test_rows_of_the_file_are_rows_of_the_record(small, tmp_path, stored):
    weighted = small.replace(graph=small.graph * 3)
    write_node_npz(weighted, tmp_path / "s.npz")
    source = NpzSource(tmp_path / "s.npz")
    without = small.replace(features=no_values(6, 2), graph=None)
    assert source.record.equals(without)
    assert source.record.name == "small"
    for rows in (slice(0, 2), slice(2, 6), slice(3, 3)):
        assert (source.features(rows) != weighted.features[rows]).nnz == 0
        assert (source.graph_rows(rows) != weighted.graph[rows]).nnz == 0


def test_a_file_without_graph_and_ids_has_none(tmp_path, stored):
    write_node_npz(NodeData.from_arrays(np.eye(3), [0, 1, -1]), tmp_path / "s.npz")
    source = NpzSource(tmp_path / "s.npz")
    assert source.graph_rows(slice(0, 3)) is None
    assert source.record.node_ids.tolist() == [0, 1, 2]


def test_small_features_are_compressed_and_read_whole(small, tmp_path):
    write_node_npz(small, tmp_path / "s.npz")
    assert not can_be_read_by_rows(tmp_path / "s.npz")
    with pytest.raises(DataFormatError, match="without compression"):
        NpzSource(tmp_path / "s.npz")


def test_the_digest_changes_with_the_arrays(small, tmp_path, stored):
    other = small.replace(features=sp.csr_matrix(np.ones((6, 2))))
    for name, data in {"a": small, "b": small, "c": other}.items():
        write_node_npz(data, tmp_path / f"{name}.npz")
    a, b, c = (NpzSource(tmp_path / f"{name}.npz").digest for name in "abc")
    assert a == b != c


def test_the_memory_of_some_rows_follows_their_number(tmp_path, stored):
    n_nodes, n_features = 4000, 200
    features = np.random.default_rng(0).random((n_nodes, n_features), dtype=np.float32)
    write_node_npz(NodeData.from_arrays(features, [-1] * n_nodes), tmp_path / "big.npz")
    source = NpzSource(tmp_path / "big.npz")
    peaks = []
    for n_rows in (40, 400):
        tracemalloc.start()
        part = source.features(slice(1000, 1000 + n_rows))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert np.array_equal(part.toarray(), features[1000 : 1000 + n_rows])
    entry = 4 + 8  # a value and a column
    assert peaks[0] < 6 * entry * 40 * n_features + 200_000
    assert peaks[1] < 6 * entry * 400 * n_features + 200_000
    assert peaks[1] < features.nbytes * 2


def test_a_file_whose_row_starts_lie_is_refused(small, tmp_path, stored):
    write_node_npz(small, tmp_path / "s.npz")
    starts = np.array(small.features.indptr)
    starts[1:3] = [7, 2]
    with (
        zipfile.ZipFile(tmp_path / "s.npz") as old,
        zipfile.ZipFile(tmp_path / "t.npz", "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "features_indptr.npy":
                content = content[: -starts.nbytes] + starts.tobytes()
            new.writestr(name, content)
    with pytest.raises(DataFormatError, match="row starts"):
        NpzSource(tmp_path / "t.npz")


def test_mutated_files_give_rows_or_one_clear_line(small, tmp_path, stored, survives_mutation):
    path = tmp_path / "s.npz"
    write_node_npz(small, path)

    def read():
        source = NpzSource(path)
        source.features(slice(1, 4))
        source.graph_rows(slice(1, 4))

    survives_mutation(read, [path])
