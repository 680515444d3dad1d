import numpy as np
import torch
from sklearn.preprocessing import normalize

from glnn.graph.pairs import Pairs
from glnn.objective import Weights
from glnn.solver import working_set
from glnn.solver.dual import WorkingProblem
from glnn.solver.working_set import SolveSettings, solve_problem


def test_every_start_ends_at_the_same_graph(
    rng, make_features, make_problem, all_pairs, monkeypatch
):
    signal = normalize(make_features(40, 4, rng))
    problem = make_problem(signal, Weights(ridge=1.0, row_sums=0.5))
    loops = Pairs(problem.partition, torch.arange(40), torch.arange(40))

    def solved(pairs):
        return solve_problem(problem, WorkingProblem.of(problem, pairs), SolveSettings())

    full = solved(all_pairs(40))
    assert full.rounds == 1
    monkeypatch.setattr(working_set, "_MOST_JOINING", 50)
    grown = solved(loops)
    assert grown.rounds > 2
    difference = full.pairs.to_csr(full.solution.values) - grown.pairs.to_csr(grown.solution.values)
    assert np.abs(difference.toarray()).max() < 1e-8
