import numpy as np
import pytest
import torch
from sklearn.preprocessing import normalize

from glnn.graph.pairs import Pairs
from glnn.objective import Weights
from glnn.solver import learn_graph, working_set
from glnn.solver.problem import WorkingProblem
from glnn.solver.working_set import solve_problem

# Working set


def test_every_start_ends_at_the_same_graph(
    rng, make_features, make_problem, all_pairs, monkeypatch
):
    signal = normalize(make_features(40, 4, rng))
    problem = make_problem(signal, Weights(ridge=1.0, row_sums=0.5))
    loops = Pairs(problem.signal.layout, torch.arange(40), torch.arange(40))

    def solved(pairs):
        return solve_problem(problem, WorkingProblem.of(problem, pairs))

    full = solved(all_pairs(40))
    assert full.rounds == 1
    monkeypatch.setattr(working_set, "_MAX_JOINING", 50)
    grown = solved(loops)
    assert grown.rounds > 2
    difference = full.pairs.to_scipy(full.values) - grown.pairs.to_scipy(grown.values)
    assert np.abs(difference.toarray()).max() < 1e-8


# Sparsity weight for a wanted degree


@pytest.mark.parametrize("support", ["all", "candidates"])
@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("reading", ["trace", "channel"])
def test_the_wanted_number_of_neighbours_is_reached(
    support, with_graph, reading, rng, make_graph, make_features
):
    x, graph = make_features(150, 6, rng), make_graph(150, rng)
    learned = learn_graph(
        x,
        graph if with_graph else None,
        n_neighbors=5,
        support=support,
        reading=reading,
    )
    assert abs(learned.mean_added_degree - 5) < 0.25
    assert learned.certificate.converged
    added = learned.adjacency.toarray() > 0
    if with_graph:
        added &= learned.prior.toarray() == 0
    np.fill_diagonal(added, False)
    assert learned.mean_added_degree == added.sum() / 150


def test_the_found_weight_gives_the_same_graph_directly(rng, make_features):
    x = make_features(80, 5, rng)
    found = learn_graph(x, n_neighbors=4)
    direct = learn_graph(x, weights=found.weights)
    assert np.abs((found.adjacency - direct.adjacency).toarray()).max() < 1e-7


def test_a_degree_out_of_reach_is_told(rng, make_features):
    learned = learn_graph(make_features(30, 3, rng), n_neighbors=100)
    assert learned.weights.sparsity == 0
    assert "should be 100" in learned.certificate.notes[0]
