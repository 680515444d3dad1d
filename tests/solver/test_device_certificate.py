import dataclasses

import numpy as np
import pytest
import torch

from glnn.objective import Weights
from glnn.solver.certificate import certify
from glnn.solver.device_certificate import certify_on_device
from glnn.solver.device_pairs import DeviceGraph
from glnn.solver.device_solve import device_problem
from glnn.solver.problem import build_problem


@pytest.fixture
def setting(rng, make_graph, make_features):
    """Return a problem on the host and in tensors, and a graph on part of its support."""
    signal, graph = make_features(30, 4, rng), make_graph(30, rng)
    problem = build_problem(signal, graph, Weights(row_sums=0.7, loops=0.3), "trace")
    resident = device_problem(problem, tuple(rng.integers(0, 30, (2, 60))), "cpu")
    pairs = resident.pairs.to_host()
    values = rng.random(len(pairs)) * (rng.random(len(pairs)) < 0.6)
    return dataclasses.replace(problem, support=pairs), resident, pairs.to_csr(values)


def checked(setting, adjacency):
    problem, resident, _ = setting
    return certify_on_device(problem, resident, DeviceGraph.of(adjacency, "cpu"))


def test_it_is_the_certificate_of_the_host(setting):
    problem, _, adjacency = setting
    found, expected = checked(setting, adjacency), certify(problem, adjacency)
    assert not found.converged
    for name in ("max_violation", "gap", "relative_gap", "objective", "pairs_checked"):
        assert np.isclose(getattr(found, name), getattr(expected, name), rtol=1e-12), name
    assert found.n_pairs_checked == expected.n_pairs_checked
    assert found.support == "candidates"


def test_the_solution_is_optimal_and_a_changed_one_is_not(setting):
    problem, resident, _ = setting
    solution = resident.solve(None)
    graph = resident.pairs.compressed(solution.values)
    assert certify_on_device(problem, resident, graph).converged
    spoiled = graph.values.clone()
    spoiled[0] += 1e-3
    other = dataclasses.replace(graph, values=spoiled)
    assert not certify_on_device(problem, resident, other).converged


def test_negative_uneven_and_foreign_entries_are_violations(setting):
    problem, resident, adjacency = setting
    solution = resident.solve(None)
    best = resident.pairs.compressed(solution.values).to_host().toarray()
    outside = np.ones_like(best, dtype=bool)
    outside[problem.support.i, problem.support.j] = False
    outside &= outside.T
    i, j = np.argwhere(np.triu(outside, 1))[0]
    sp_graph = type(adjacency)
    foreign = best.copy()
    foreign[i, j] = foreign[j, i] = 0.25
    assert checked(setting, sp_graph(foreign)).max_violation >= 0.25
    row, column = np.argwhere(np.triu(best, 1))[0]
    for place in ((row, column), (column, row)):
        uneven = best.copy()
        uneven[place] += 0.5
        assert checked(setting, sp_graph(uneven)).max_violation >= 0.25
    negative = best.copy()
    negative[row, column] = negative[column, row] = -0.75
    assert checked(setting, sp_graph(negative)).max_violation >= 0.75


def test_an_empty_graph_is_checked_too(setting):
    problem, resident, adjacency = setting
    nothing = DeviceGraph(
        torch.zeros(31, dtype=torch.int64),
        torch.empty(0, dtype=torch.int32),
        torch.empty(0).double(),
    )
    found = certify_on_device(problem, resident, nothing)
    expected = certify(problem, type(adjacency)((30, 30)))
    assert np.isclose(found.max_violation, expected.max_violation)
