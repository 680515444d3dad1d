import numpy as np
import pytest
import scipy.sparse as sp

from glnn.graph.prior import prior_graph
from glnn.graph.trust import edge_trust


@pytest.fixture
def prior():
    upper = np.triu(np.random.default_rng(0).random((9, 9)) < 0.4, 1)
    return prior_graph(sp.csr_matrix((upper | upper.T).astype(np.float64)), "renormalized")


def test_a_graph_trusts_itself(prior):
    trust = edge_trust(prior, prior)
    assert (trust.data == 1).all()
    assert trust.nnz == np.count_nonzero(prior.toarray()) - np.count_nonzero(prior.diagonal())


def test_trust_is_the_share_that_was_kept_whatever_else_was_added(prior):
    more = sp.csr_matrix(0.25 * prior + sp.csr_matrix(np.full((9, 9), 1e-12)))
    np.testing.assert_allclose(edge_trust(more, prior).data, 0.25, rtol=1e-9)


def test_dropped_edges_are_stored_with_no_trust(prior):
    trust = edge_trust(sp.csr_matrix((9, 9)), prior)
    assert trust.nnz > 0
    assert (trust.data == 0).all()
