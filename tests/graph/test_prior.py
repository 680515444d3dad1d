import numpy as np
import pytest
import scipy.sparse as sp

from glnn.distributed import Partition
from glnn.exceptions import InputError
from glnn.graph import PRIORS, prior_graph
from glnn.graph.prior import PriorGraph

PATH_AND_HERMIT = np.array(
    [
        [0.0, 2.0, 0.0, 0.0],
        [2.0, 0.0, 0.5, 0.0],
        [0.0, 0.5, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],  # an isolated node
    ]
)


def dense_normalized(matrix):
    degree = matrix.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return scale[:, None] * matrix * scale


FORMULAS = {
    "binary": lambda matrix: 1.0 * (matrix > 0),
    "symmetric": dense_normalized,
    "renormalized": lambda matrix: dense_normalized(matrix + np.eye(4)),
}


@pytest.mark.parametrize("kind", PRIORS)
def test_every_prior_is_its_dense_formula(kind):
    found = prior_graph(sp.csr_matrix(PATH_AND_HERMIT), kind)
    np.testing.assert_allclose(found.toarray(), FORMULAS[kind](PATH_AND_HERMIT), rtol=1e-14)
    assert found.dtype == np.float64
    assert found.has_sorted_indices


@pytest.mark.parametrize("kind", PRIORS)
@pytest.mark.parametrize("size", [2, 3])
def test_the_prior_of_spread_rows_is_that_of_the_whole(kind, size, together):
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((50, 50)) * (rng.random((50, 50)) < 0.1), 1)
    graph = sp.csr_matrix(upper + upper.T)

    def work(peers):
        part = Partition(50, peers)
        rows = graph[part.rows]
        return prior_graph(rows, kind, part.row_sums(rows), part.start)

    found = sp.vstack(together(size, work)).toarray()
    np.testing.assert_allclose(found, prior_graph(graph, kind).toarray(), atol=1e-14)


# Prior graph rows of new nodes


def random_graph():
    upper = np.triu(np.random.default_rng(0).random((12, 12)) < 0.3, 1)
    return sp.csr_matrix((upper | upper.T).astype(float))


def rows_for(graph, kind):
    degrees = Partition(graph.shape[0]).row_sums(graph)
    return PriorGraph(kind, degrees, prior_graph(graph, kind))


@pytest.mark.parametrize("kind", PRIORS)
def test_row_is_that_of_the_enlarged_graph(kind):
    graph = random_graph()
    links = np.zeros((2, 12))
    links[0, [1, 5, 7]] = [1.0, 2.0, 0.5]
    rows, loops = rows_for(graph, kind).rows(links, 2)
    for k in range(2):
        enlarged = sp.bmat([[graph, links[k : k + 1].T], [links[k : k + 1], None]], format="csr")
        expected = prior_graph(enlarged, kind).toarray()[-1]
        assert np.allclose(rows.toarray()[k], expected[:-1])
        assert np.isclose(loops[k], expected[-1])


@pytest.mark.parametrize("links", [np.ones((1, 3)), -np.ones((1, 12)), np.full((1, 12), np.nan)])
def test_bad_links_are_refused(links):
    with pytest.raises(InputError, match="links must have"):
        rows_for(random_graph(), "binary").rows(links, 1)
