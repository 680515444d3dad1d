import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.graph import SparseAdjacency
from glnn.peers import ALONE, Partition
from glnn.solver import TaskTerm


def test_the_term_has_the_costs_of_both_factors(rng, make_graph):
    u, v = rng.standard_normal((2, 6, 2))
    graph, offset = make_graph(6, rng), make_graph(6, rng)
    term = TaskTerm(u, v, offset).term(Partition(6, ALONE))
    costs = (u @ v.T + v @ u.T) / 2 + offset.toarray()
    assert np.isclose(
        float(term.value(SparseAdjacency.from_scipy(graph))), (costs * graph.toarray()).sum()
    )


@pytest.mark.parametrize("factors", [(np.ones((5, 1)), np.ones((6, 1))), (np.ones(6), np.ones(6))])
def test_factors_that_do_not_fit_are_refused(factors):
    with pytest.raises(InputError, match="two factors with 6 rows"):
        TaskTerm(*factors).term(Partition(6, ALONE))


def test_rows_over_processes_are_those_of_each(together):
    def work(peers):
        part = Partition(6, peers)
        offset = sp.eye(6, format="csr")[part.rows]
        return TaskTerm(np.ones((part.n_rows, 1)), np.ones((part.n_rows, 1)), offset).term(part)

    terms = together(2, work)
    assert sum(len(term.offset.pairs) for term in terms) == 6


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_costs_of_single_pairs_must_be_finite(bad):
    task = TaskTerm(np.ones((2, 1)), np.ones((2, 1)), sp.csr_matrix([[0, bad], [bad, 0]]))
    with pytest.raises(InputError, match="task must have a finite matrix"):
        task.term(Partition(2, ALONE))
