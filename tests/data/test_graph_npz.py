import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import read_data
from glnn.data.graph_npz import read_graph_npz, write_graph_npz
from glnn.exceptions import DataFormatError


def test_scipy_and_glnn_read_the_same_graph(small, tmp_path):
    write_graph_npz(tmp_path / "g.npz", small.graph, small.ids)
    again, ids = read_graph_npz(tmp_path / "g.npz")
    assert (again != small.graph).nnz == 0
    assert ids.tolist() == small.ids.tolist()
    assert (sp.load_npz(tmp_path / "g.npz") != small.graph).nnz == 0


def test_what_scipy_wrote_is_read(small, tmp_path):
    sp.save_npz(tmp_path / "g.npz", small.graph)
    again, ids = read_graph_npz(tmp_path / "g.npz")
    assert (again != small.graph).nnz == 0
    assert ids is None


@pytest.mark.parametrize(
    "matrix", [sp.csr_matrix((2, 3)), sp.coo_matrix(np.eye(2)), sp.csc_matrix(np.eye(2))]
)
def test_other_matrices_are_refused(tmp_path, matrix):
    sp.save_npz(tmp_path / "g.npz", matrix)
    with pytest.raises(DataFormatError):
        read_graph_npz(tmp_path / "g.npz")


def test_mutated_archives_give_a_graph_or_one_clear_line(small, tmp_path, survives_mutation):
    path = tmp_path / "g.npz"
    write_graph_npz(path, small.graph, small.ids)
    survives_mutation(lambda: read_data(path), [path])
