import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from glnn.distributed import Partition
from glnn.exceptions import GraphWarning, InputError
from glnn.graph import as_adjacency
from glnn.graph.pairs import as_adjacency_rows

PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
UNIT_PATH = (PATH > 0).astype(float)


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.ndarray.tolist,
        sp.csr_matrix,
        sp.csc_array,
        sp.coo_matrix,
        sp.lil_matrix,
        lambda m: m.astype(np.float16),
        lambda m: m.astype(np.int8),
        lambda m: sp.csr_matrix(m, dtype=np.int64),
        lambda m: nx.from_numpy_array(m),
    ],
    ids=["array", "list", "csr", "csc", "coo", "lil", "half", "int8", "int-csr", "networkx"],
)
def test_a_symmetric_matrix_in_any_form_is_kept_as_it_is(convert):
    found = as_adjacency(convert(PATH), 3)
    assert np.array_equal(found.toarray(), PATH)
    assert found.dtype == np.float64
    assert found.has_canonical_format


@pytest.mark.parametrize(
    "edges",
    [[[0, 1], [1, 2]], [[0, 1, 1, 2], [1, 0, 2, 1]], [[1, 2], [0, 1]]],
    ids=["one way", "both ways", "backwards"],
)
def test_an_edge_list_may_name_either_or_both_directions(edges):
    for dtype in (np.int64, np.uint8):
        assert np.array_equal(as_adjacency(np.array(edges, dtype=dtype), 3).toarray(), UNIT_PATH)


@pytest.mark.parametrize(
    "nothing",
    [np.empty((2, 0), dtype=int), np.array([[], []]), sp.csr_matrix((4, 4)), np.zeros((4, 4))],
    ids=["int edges", "float edges", "csr", "dense"],
)
def test_a_graph_without_edges_is_a_graph_of_isolated_nodes(nothing):
    assert as_adjacency(nothing, 4).nnz == 0


def test_the_given_matrix_is_not_changed():
    loop = sp.csr_matrix((np.array([2.0, 1.0, 2.0]), [1, 0, 0], [0, 2, 3]), shape=(2, 2))
    before = (loop.data.copy(), loop.indices.copy(), loop.indptr.copy())
    with pytest.warns(GraphWarning):
        as_adjacency(loop, 2)
    assert all(map(np.array_equal, before, (loop.data, loop.indices, loop.indptr)))


ONE_WAY = np.array([[0.0, 3.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
LOOPS = PATH + np.diag([1.0, 0.0, 1.0])
REPAIRED = {
    "one way": (ONE_WAY, np.maximum(ONE_WAY, ONE_WAY.T), "not symmetric in 4 entries"),
    "directed": (nx.DiGraph([(0, 1), (1, 2)]), UNIT_PATH, "not symmetric in 4 entries"),
    "loops": (LOOPS, PATH, "2 self loops; they are dropped"),
    "networkx": (nx.from_numpy_array(LOOPS), PATH, "2 self loops; they are dropped"),
    "twice": (np.array([[0, 0, 1], [1, 1, 2]]), UNIT_PATH, "1 edges more than once"),
}


@pytest.mark.parametrize(("graph", "expected", "said"), REPAIRED.values(), ids=REPAIRED)
def test_what_is_repaired_is_said(graph, expected, said):
    with pytest.warns(GraphWarning, match=said):
        assert np.array_equal(as_adjacency(graph, 3).toarray(), expected)


@pytest.mark.parametrize(
    "graph",
    [
        -PATH,
        sp.csr_matrix(-PATH),
        PATH * np.nan,
        np.zeros((3, 4)),
        sp.csr_matrix((4, 4)),
        np.array([[0, 1], [1, 3]]),
        np.array([[-1, 1], [1, 2]]),
        np.array([[0.0, 1.0], [1.0, 2.0]]),
        sp.csr_matrix(PATH.astype(complex)),
        PATH.astype(str),
        [[0, 1], [1]],
        np.zeros((3, 3, 1)),
        sp.coo_array(np.zeros(3)),
        "cora",
        None,
        nx.path_graph(4),
        nx.Graph([(0, 1, {"weight": "a"}), (1, 2)]),
        nx.Graph([(0, 1, {"weight": -1.0}), (1, 2)]),
        nx.relabel_nodes(nx.from_numpy_array(PATH), {0: "a", 1: "b", 2: "c"}),
    ],
)
def test_a_bad_graph_is_refused_in_one_line(graph):
    with pytest.raises(InputError, match=r"^graph .*must .+") as caught:
        as_adjacency(graph, 3)
    assert "\n" not in str(caught.value)


def test_two_edges_are_read_one_a_row_and_said_where_columns_would_be_others():
    with pytest.warns(GraphWarning, match="one edge a row, 0-1 and 2-3. List both directions"):
        found = as_adjacency(np.array([[0, 1], [2, 3]]), 5)
    assert found[0, 1] == found[2, 3] == 1 and found.nnz == 4
    assert as_adjacency(np.array([[0, 3], [3, 0]]), 5)[0, 3] == 1  # both directions: no word


@pytest.mark.parametrize("size", [2, 3])
def test_rows_of_an_uneven_matrix_with_loops_are_made_those_of_the_whole(size, together):
    rng = np.random.default_rng(0)
    matrix = sp.csr_matrix(rng.random((40, 40)) * (rng.random((40, 40)) < 0.1))
    with pytest.warns(GraphWarning):
        whole = as_adjacency(matrix, 40)

    def work(peers):
        part = Partition(40, peers)
        return as_adjacency_rows(matrix[part.rows], part)

    assert (sp.vstack(together(size, work)) != whole).nnz == 0


@pytest.mark.parametrize("weighted", [True, False])
def test_asymmetry_of_a_large_graph_is_found_wherever_it_is(weighted):
    rng = np.random.default_rng(0)
    upper = sp.random(5000, 5000, 0.005, rng=rng, data_rvs=None if weighted else np.ones)
    graph = sp.csr_matrix(upper.maximum(upper.T))
    graph.setdiag(0)
    assert (as_adjacency(graph, 5000) != graph).nnz == 0
    i, j = (ends[7] for ends in sp.triu(graph, 1).nonzero())
    graph[i, j] = 3.0
    with pytest.warns(GraphWarning, match="not symmetric in 2 entries"):
        assert as_adjacency(graph, 5000)[j, i] == 3.0


def test_rows_of_another_shape_are_refused(together):
    with pytest.raises(InputError, match=r"sparse matrix of the \d+ rows"):
        together(2, lambda peers: as_adjacency_rows(sp.eye(40, format="csr"), Partition(40, peers)))
