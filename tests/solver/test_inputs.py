import numpy as np
import pytest

from glnn.exceptions import ProblemError
from glnn.graph import prior_graph
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


def test_one_row_is_refused():
    with pytest.raises(ProblemError, match="at least two rows"):
        GraphInputs.read(np.ones((1, 2)), None)


def test_a_prepared_graph_gives_the_same_inputs(rng, make_features, make_graph):
    x, graph = make_features(8, 3, rng), make_graph(8, rng)
    plain = GraphInputs.read(x, graph, prior="symmetric")
    ready = GivenGraph.of(graph, 8, "symmetric")
    shared = GraphInputs.read(x, ready)
    assert shared.prior is ready.prior
    assert (shared.prior != plain.prior).nnz == 0
    assert shared.prior_rows.kind == "symmetric"
    assert np.array_equal(shared.prior_rows.degrees, plain.prior_rows.degrees)
