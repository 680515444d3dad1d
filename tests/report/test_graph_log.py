import numpy as np
import pytest

from glnn import GLNNClassifier, learn_graph
from glnn.graph.sparse import SparseAdjacency
from glnn.report.graph_log import GraphLog, logged_rounds, objective_terms


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)) + 3 * (np.arange(40) % 2)[:, None]


def test_terms_sum_to_the_objective(features):
    learned = learn_graph(features, n_neighbors=4)
    graph = SparseAdjacency.from_scipy(learned.adjacency)
    whole = float(learned.problem.objective(graph))
    assert sum(objective_terms(learned).values()) == pytest.approx(whole)


def test_a_fit_leaves_the_graph_of_every_round_and_the_last_is_its_own(features):
    log = GraphLog()
    model = GLNNClassifier(
        n_epochs=10, n_rounds=2, random_state=0, callbacks=[log], calibrate=None
    ).fit(features, np.arange(40) % 2)
    rounds = logged_rounds(model.callbacks)
    assert [one.name for one in rounds] == ["round 1", "round 2"]
    assert (rounds[-1].graph != model.graph_).nnz == 0
    assert all(one.terms for one in rounds)


def test_a_try_that_was_not_taken_leaves_no_trace(features):
    log, taken = GraphLog(), learn_graph(features, n_neighbors=4)
    log.on_graph(1, taken)
    log.on_graph(1, learn_graph(features, n_neighbors=2))
    log.on_round_end(1, taken.adjacency)
    (only,) = log.rounds
    assert only.graph is taken.adjacency
    assert only.terms == objective_terms(taken)


def test_a_graph_that_was_not_solved_for_has_no_terms(features):
    log = GraphLog()
    log.on_round_end(1, learn_graph(features, n_neighbors=4).adjacency)
    assert log.rounds[0].terms == {}


def test_without_a_log_nothing_is_known():
    assert logged_rounds(None) == ()
