import numpy as np
import pytest
import torch
from sklearn.preprocessing import normalize

from glnn.exceptions import InputError
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


@pytest.mark.parametrize("change", [{"tol": 0}, {"max_iter": 0}, {"block_bytes": 1023}])
def test_settings_out_of_range_are_refused_in_one_line(change):
    (name,) = change
    with pytest.raises(InputError, match=f"^{name} must be"):
        SolveSettings(**change)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "tpu"])
def test_a_device_that_is_not_there_is_refused(device, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=r"^device must be 'cpu', or 'cuda' where torch finds"):
        SolveSettings(device=device)
    assert SolveSettings(device="cpu").device == "cpu"
