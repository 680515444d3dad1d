import numpy as np
import pytest
import scipy.sparse as sp

from glnn import learn_graph
from glnn.engine.presets import resolve_settings
from glnn.exceptions import ProblemError
from glnn.graph.prior import prior_graph
from glnn.objective import Weights
from glnn.parallel.graph_step import GraphInputs, learn_rows
from glnn.peers import ALONE, Partition
from glnn.solver import TaskTerm


@pytest.mark.parametrize("has_graph", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_the_graph_is_that_of_one_process(words, together, has_graph, size):
    features, graph, classes = words
    settings = resolve_settings("paper").graph_settings(has_graph)
    rng = np.random.default_rng(2)
    signals = rng.random((150, 3))
    probabilities, factors = np.eye(3)[classes], (0.1 * signals, signals)
    weights = rng.random(45)
    expected = learn_graph(
        features,
        graph if has_graph else None,
        weights=settings.weights,
        n_neighbors=settings.n_neighbors,
        signal=settings.signal,
        column_weights=weights,
        predictions=probabilities,
        prediction_weight=settings.prediction_weight,
        support="candidates",
        n_candidates=settings.n_candidates,
        task=TaskTerm(*factors),
    )

    def work(peers):
        part = Partition(150, peers)
        prior = prior_graph(graph, settings.prior)[part.rows] if has_graph else None
        task = TaskTerm(*(factor[part.rows] for factor in factors))
        own = (features[part.rows], prior, probabilities[part.rows], task, weights)
        return learn_rows(part, GraphInputs(*own), settings)

    parts = together(size, work)
    assert abs(sp.vstack([part.adjacency for part in parts]) - expected.adjacency).max() < 1e-9
    for part in parts:
        certificate = part.certificate
        assert certificate.converged
        assert certificate.n_pairs_checked == expected.certificate.n_pairs_checked
        assert certificate.objective == pytest.approx(expected.certificate.objective, rel=1e-9)
        found, wanted = part.new_rows.share.packed(), expected.new_rows.share.packed()
        assert found[1].pop("couplings") == wanted[1].pop("couplings")
        assert found[1] == pytest.approx(wanted[1], abs=1e-8)
        np.testing.assert_allclose(found[0]["edges"], wanted[0]["edges"], atol=1e-8)


def test_a_problem_without_a_minimum_is_refused(words):
    settings = resolve_settings("paper", changes={"weights": Weights(ridge=0.0)}).graph
    with pytest.raises(ProblemError, match="no unique minimum"):
        learn_rows(Partition(150, ALONE), GraphInputs(words[0]), settings)
