import dataclasses
import json

import numpy as np
import pytest

from glnn.objective import Weights
from glnn.solver import Certificate, certify, learn_graph

READINGS = ["trace", "channel", "frobenius"]


def planted(adjacency, entries):
    a = adjacency.tolil()
    for (i, j), value in entries.items():
        a[i, j] = value
    return a.tocsr()


@pytest.fixture(params=["all", "candidates"])
def learned(request, rng, make_graph, make_features):
    return learn_graph(
        make_features(40, 4, rng),
        make_graph(40, rng),
        weights=Weights(closeness=2.0),
        support=request.param,
        n_candidates=4,
    )


def test_the_true_optimum_passes(learned):
    again = certify(learned.problem, learned.adjacency)
    assert again.converged
    assert again.max_violation == learned.certificate.max_violation < 1e-8
    assert abs(again.relative_gap) < 1e-8


def test_a_raised_weight_is_caught(learned):
    i, j = learned.adjacency.nonzero()
    k = np.flatnonzero(i != j)[5]
    value = learned.adjacency[i[k], j[k]] + 1e-3
    wrong = planted(learned.adjacency, {(i[k], j[k]): value, (j[k], i[k]): value})
    found = certify(learned.problem, wrong)
    assert found.max_violation > 5e-4
    assert found.gap > learned.certificate.gap
    assert not found.converged


def test_a_removed_edge_is_caught(learned):
    i, j = learned.adjacency.nonzero()
    k = np.flatnonzero(i != j)[np.argmax(learned.adjacency.data[i != j])]
    wrong = planted(learned.adjacency, {(i[k], j[k]): 0.0, (j[k], i[k]): 0.0})
    wrong.eliminate_zeros()
    assert not certify(learned.problem, wrong).converged


def test_an_extra_edge_outside_the_working_set_is_caught(learned):
    absent = np.argwhere(np.triu(learned.adjacency.toarray() == 0, 1))
    for i, j in absent[[0, len(absent) // 2, -1]]:
        wrong = planted(learned.adjacency, {(i, j): 1e-3, (j, i): 1e-3})
        assert certify(learned.problem, wrong).max_violation > 5e-4


def test_asymmetric_and_negative_entries_are_caught(learned):
    i, j = (int(v[0]) for v in np.nonzero(np.triu(learned.adjacency.toarray(), 1)))
    lopsided = planted(learned.adjacency, {(j, i): learned.adjacency[i, j] + 1e-3})
    assert certify(learned.problem, lopsided).max_violation >= 1e-3 - 1e-12
    negative = planted(learned.adjacency, {(i, j): -0.1, (j, i): -0.1})
    assert certify(learned.problem, negative).max_violation >= 0.1


def test_a_loop_where_loops_are_excluded_is_caught(rng, make_features):
    learned = learn_graph(make_features(20, 3, rng), n_neighbors=3, loops=False)
    wrong = planted(learned.adjacency, {(2, 2): 1e-3})
    assert certify(learned.problem, wrong).max_violation >= 1e-3 - 1e-12


@pytest.mark.parametrize("reading", READINGS)
def test_the_gap_bounds_the_distance_to_the_optimal_value(reading, rng, make_features):
    weights = Weights(ridge=1.0, row_sums=0.5)
    learned = learn_graph(make_features(25, 3, rng), weights=weights, reading=reading)
    wrong = learned.adjacency * 1.05
    found = certify(learned.problem, wrong)
    excess = found.objective - learned.certificate.objective
    assert 0 < excess <= found.gap + 1e-9


def test_it_can_be_written_and_read_back(learned):
    text = json.dumps(learned.certificate.to_dict())
    assert Certificate.from_dict(json.loads(text)) == learned.certificate


def test_it_reads_as_one_line(learned):
    assert "\n" not in str(learned.certificate)
    assert str(learned.certificate).startswith("optimal")
    failed = dataclasses.replace(learned.certificate, converged=False)
    assert str(failed).startswith("NOT optimal")
