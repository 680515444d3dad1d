import numpy as np
from sklearn.preprocessing import normalize

from glnn.objective import Weights
from glnn.solver import working_set
from glnn.solver.pairs import Pairs
from glnn.solver.problem import build_problem
from glnn.solver.working_set import SolveSettings, solve_problem


def test_every_start_ends_at_the_same_graph(rng, make_features, monkeypatch):
    signal = normalize(make_features(40, 4, rng))
    problem = build_problem(signal, None, Weights(ridge=1.0, row_sums=0.5), "trace")
    every = Pairs.union(40, [np.triu_indices(40)])
    loops = Pairs.union(40, [(np.arange(40), np.arange(40))])
    settings = SolveSettings()
    full = solve_problem(problem, every, settings)
    assert full.rounds == 1
    monkeypatch.setattr(working_set, "_MOST_JOINING", 50)
    grown = solve_problem(problem, loops, settings)
    assert grown.rounds > 2
    difference = full.pairs.to_csr(full.solution.values) - grown.pairs.to_csr(grown.solution.values)
    assert np.abs(difference.toarray()).max() < 1e-8
