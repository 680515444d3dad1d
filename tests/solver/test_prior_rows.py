import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.graph import prior_graph
from glnn.solver.prior_rows import _TELEPORT, PriorRows


def rows_for(graph, kind):
    return PriorRows(kind, np.asarray(graph.sum(1)).ravel(), prior_graph(graph, kind))


@pytest.mark.parametrize("kind", ["binary", "symmetric", "renormalized"])
def test_row_is_that_of_the_enlarged_graph(kind, rng, make_graph):
    graph = make_graph(12, rng)
    links = np.zeros((2, 12))
    links[0, [1, 5, 7]] = [1.0, 2.0, 0.5]
    rows, loops = rows_for(graph, kind).rows(links, 2)
    for k in range(2):
        enlarged = sp.bmat([[graph, links[k : k + 1].T], [links[k : k + 1], None]], format="csr")
        expected = prior_graph(enlarged, kind).toarray()[-1]
        assert np.allclose(rows.toarray()[k], expected[:-1])
        assert np.isclose(loops[k], expected[-1])


def test_pagerank_spreads_over_the_neighbours_of_neighbours(rng, make_graph):
    graph = make_graph(12, rng)
    links = np.eye(12)[:1]
    rows, loops = rows_for(graph, "pagerank").rows(links, 1)
    assert rows.nnz > 1
    assert rows.data.min() > 0
    assert loops[0] > 0


@pytest.mark.parametrize("weight", [0.5, 1.0, 4.0])
def test_pagerank_over_a_single_link_to_an_isolated_node_keeps_all_its_mass(weight):
    links = np.array([[0.0, weight, 0.0]])
    rows, loops = rows_for(sp.csr_matrix((3, 3)), "pagerank").rows(links, 1)
    assert np.isclose(rows.sum() + loops[0], 1.0)
    assert rows[0, 1] / (rows[0, 1] + loops[0] - _TELEPORT) == pytest.approx(weight / (1 + weight))


@pytest.mark.parametrize("links", [np.ones((1, 3)), -np.ones((1, 12)), np.full((1, 12), np.nan)])
def test_bad_links_are_refused(links, rng, make_graph):
    with pytest.raises(InputError, match="links must have"):
        rows_for(make_graph(12, rng), "binary").rows(links, 1)
