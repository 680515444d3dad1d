import numpy as np
import pytest
import scipy.sparse as sp

from glnn._validation import check_features
from glnn.exceptions import InputError, ProblemError
from glnn.graph import prior_graph
from glnn.peers import ALONE, Partition
from glnn.solver.inputs import GivenGraph, GraphInputs


def test_without_a_graph_there_is_no_prior(rng, make_features):
    inputs = GraphInputs.read(make_features(6, 3, rng), None)
    assert inputs.prior is None and inputs.prior_rows is None
    assert inputs.signals is inputs.base


def test_prior_and_signals_are_of_the_named_kinds(rng, make_features, make_graph):
    x, graph = make_features(6, 3, rng), make_graph(6, rng)
    p = np.full((6, 2), 0.5)
    inputs = GraphInputs.read(x, graph, signal="raw", prior="binary", predictions=(p, 3.0))
    assert np.array_equal(inputs.base, x)
    assert inputs.signals.shape == (6, 5)
    assert (inputs.prior != prior_graph(graph, "binary")).nnz == 0


def test_two_rows_are_enough():
    assert GraphInputs.read(np.ones((2, 2)), None).partition.n_nodes == 2


def test_one_row_is_refused():
    with pytest.raises(ProblemError, match="at least two rows"):
        GraphInputs.read(np.ones((1, 2)), None)


def test_a_prepared_graph_gives_the_same_inputs(rng, make_features, make_graph):
    x, graph = make_features(8, 3, rng), make_graph(8, rng)
    plain = GraphInputs.read(x, graph, prior="symmetric")
    ready = GivenGraph.of(graph, Partition(8, ALONE), "symmetric")
    shared = GraphInputs.read(x, ready)
    assert shared.prior is ready.prior
    assert (shared.prior != plain.prior).nnz == 0
    assert shared.prior_rows.kind == "symmetric"
    assert np.array_equal(shared.prior_rows.degrees, plain.prior_rows.degrees)


def test_canonical_features_are_not_copied(rng, make_features):
    sparse = make_features(8, 3, rng, sparse=True)
    sparse.sum_duplicates()
    assert np.shares_memory(check_features("X", sparse).data, sparse.data)
    dense = make_features(8, 3, rng)
    assert check_features("X", dense) is dense
    twice = sp.csr_matrix((np.ones(2), [1, 1], [0, 2]), shape=(1, 2))
    assert check_features("X", twice).toarray().tolist() == [[0.0, 2.0]]
    assert twice.nnz == 2  # the caller's matrix is as it was


def test_rows_that_are_cut_otherwise_are_refused(together):
    def work(peers):
        return GraphInputs.read(np.ones((10 + 5 * peers.rank, 2)), None, peers=peers)

    with pytest.raises(InputError, match="Cut them as"):
        together(2, work)


def test_signals_over_processes_are_those_of_the_whole(together, rng, make_features, make_graph):
    x, graph = make_features(40, 3, rng), make_graph(40, rng)
    whole = GraphInputs.read(x, graph, signal="standardized")

    def work(peers):
        rows = Partition(40, peers).rows
        return GraphInputs.read(x[rows], graph[rows], signal="standardized", peers=peers)

    parts = together(3, work)
    assert np.allclose(np.vstack([part.signals for part in parts]), whole.signals)
    assert np.allclose(sp.vstack([part.prior for part in parts]).toarray(), whole.prior.toarray())
    assert np.array_equal(parts[1].prior_rows.degrees, whole.prior_rows.degrees)
