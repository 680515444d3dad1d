import numpy as np
import pytest
import scipy.sparse as sp

from glnn.distributed import Partition
from glnn.exceptions import InputError
from glnn.graph import SparseAdjacency
from glnn.objective import Weights
from glnn.solver import certify, learn_graph
from glnn.solver.learn import GraphRequest, solve_graph

READINGS = ["trace", "channel", "frobenius"]


def planted(adjacency, entries):
    a = adjacency.tolil()
    for (i, j), value in entries.items():
        a[i, j] = value
    return a.tocsr()


@pytest.fixture(params=[(s, r) for s in ("all", "candidates") for r in READINGS], ids=str)
def learned(request, rng, make_graph, make_features):
    support, reading = request.param
    return learn_graph(
        make_features(40, 4, rng),
        make_graph(40, rng),
        weights=Weights(closeness=2.0, smoothness=1.0 if reading == "trace" else 0.1),
        support=support,
        reading=reading,
        n_candidates=4,
    )


def test_the_true_optimum_passes(learned):
    again = certify(learned.problem, learned.adjacency)
    assert again.converged
    assert again.max_violation == learned.certificate.max_violation < 1e-8
    assert abs(again.relative_gap) < 1e-8


def edges(adjacency):
    """Return the edges i < j, the heaviest first."""
    upper = np.triu(adjacency.toarray(), 1)
    order = np.argsort(-upper, axis=None)[: np.count_nonzero(upper)]
    return [tuple(map(int, pair)) for pair in zip(*np.unravel_index(order, upper.shape))]


def test_a_wrong_weight_is_caught_wherever_it_is(learned):
    adjacency, found = learned.adjacency, edges(learned.adjacency)
    absent = [tuple(pair) for pair in np.argwhere(np.triu(adjacency.toarray() == 0, 1))]
    raised = [(pair, adjacency[pair] + 1e-3) for pair in (found[0], found[5], found[-1])]
    extra = [(absent[k], 1e-3) for k in (0, len(absent) // 2, -1)]  # outside the working set
    for (i, j), value in [*raised, *extra, (found[0], 0.0), (found[0], -0.1)]:
        wrong = certify(learned.problem, planted(adjacency, {(i, j): value, (j, i): value}))
        assert wrong.max_violation > 5e-4
        assert not wrong.converged
        if (i, j) in found and value >= 0:  # else the graph is outside of the feasible set
            assert wrong.gap > learned.certificate.gap
    i, j = found[0]
    lopsided = planted(adjacency, {(j, i): adjacency[i, j] + 1e-3})
    assert certify(learned.problem, lopsided).max_violation >= 1e-3 - 1e-12


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_entry_that_is_not_finite_is_an_infinite_violation(learned, value):
    i, j = (int(v[3]) for v in np.nonzero(np.triu(learned.adjacency.toarray(), 1)))
    for entries in ({(i, j): value}, {(i, j): value, (j, i): value}, {(2, 2): value}):
        found = certify(learned.problem, planted(learned.adjacency, entries))
        assert found.max_violation == np.inf
        assert not found.converged
        assert str(found).startswith("NOT optimal")


def test_two_swapped_rows_are_caught(learned):
    order = np.arange(40)
    order[[3, 17]] = 17, 3
    swapped = learned.adjacency[order][:, order]
    assert not certify(learned.problem, swapped).converged


def wrong_graphs(adjacency):
    """Nothing, too much, and an edge where there was none."""
    absent = np.argwhere(np.triu(adjacency.toarray() == 0, 1))
    extra = [planted(adjacency, {(i, j): 0.3, (j, i): 0.3}) for i, j in absent[::150]]
    return [adjacency * 0, adjacency * 1.5, *extra]


def test_the_objective_of_any_graph_is_the_sum_of_its_terms(learned):
    def total(adjacency):
        graph = SparseAdjacency.from_scipy(adjacency)
        return sum(float(term.weight * term.value(graph)) for term in learned.problem.terms)

    for wrong in wrong_graphs(learned.adjacency):
        excess = certify(learned.problem, wrong).objective - learned.certificate.objective
        assert np.isclose(excess, total(wrong) - total(learned.adjacency), rtol=1e-9, atol=1e-9)


def test_pairs_that_are_stored_as_zero_count_like_pairs_that_are_not_stored(learned, monkeypatch):
    everywhere = sp.csr_matrix(np.ones((40, 40)))
    for wrong in wrong_graphs(learned.adjacency):
        filled = everywhere.copy()
        filled.data[:] = wrong.toarray().ravel()
        other = certify(learned.problem, filled)
        for block_bytes in (3200, 2**20):  # tiles beside the diagonal, and none
            monkeypatch.setattr("glnn.graph.rows.BLOCK_BYTES", block_bytes)
            one = certify(learned.problem, wrong)
            assert np.isclose(one.gap, other.gap, rtol=1e-9)
            assert np.isclose(one.max_violation, other.max_violation, rtol=1e-9)


def test_a_violation_counts_from_a_millionth_of_the_largest_entry_or_of_one(learned):
    i, j = (int(v) for v in np.argwhere(np.triu(learned.adjacency.toarray(), 1) > 1e-3)[0])

    def raised(by):
        value = learned.adjacency[i, j] + by
        return certify(learned.problem, planted(learned.adjacency, {(i, j): value, (j, i): value}))

    slope, largest = raised(1e-4).max_violation / 1e-4, learned.adjacency.max()
    accepted = 1e-6 * max(1.0, largest)
    between = (accepted + 1e-6 * largest) / 2 if largest < 1 else 0.9 * accepted
    assert raised(between / slope).converged
    assert not raised(1.1 * accepted / slope).converged


def test_a_graph_of_another_size_is_refused(learned):
    with pytest.raises(InputError, match="40 rows and 40 columns"):
        certify(learned.problem, learned.adjacency[:5])


def test_the_certificate_of_spread_rows_is_that_of_the_whole(
    together, rng, make_graph, make_features
):
    x, graph = make_features(50, 4, rng), make_graph(50, rng)
    whole = learn_graph(x, graph, weights=Weights(closeness=2.0))
    i, j = (int(v[5]) for v in np.nonzero(np.triu(whole.adjacency.toarray(), 1)))
    faults = [{}, {(i, j): 5.0}, {(i, j): np.nan}, {(i, j): -1.0, (j, i): -1.0}, {(0, 49): 0.1}]
    graphs = [planted(whole.adjacency, fault) for fault in faults]

    def work(peers):
        layout = Partition(50, peers)
        rows, weights = layout.rows, Weights(closeness=2.0)
        request = GraphRequest(x[rows], graph[rows], weights=weights, layout=layout)
        problem = solve_graph(request).problem
        return [certify(problem, wrong[rows]) for wrong in graphs]

    for found in together(3, work):
        for one, wrong in zip(found, graphs):
            expected = certify(whole.problem, wrong)
            assert one.converged == expected.converged
            assert np.isclose(one.max_violation, expected.max_violation, atol=1e-9)
            assert np.isclose(one.gap, expected.gap, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("reading", READINGS)
def test_the_gap_bounds_the_distance_to_the_optimal_value(reading, rng, make_features):
    weights = Weights(ridge=1.0, row_sums=0.5)
    learned = learn_graph(make_features(25, 3, rng), weights=weights, reading=reading)
    wrong = learned.adjacency * 1.05
    found = certify(learned.problem, wrong)
    excess = found.objective - learned.certificate.objective
    assert 0 < excess <= found.gap + 1e-9


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("size", [1e100, 1.7e308])
def test_a_graph_whose_arithmetic_overflows_is_not_optimal(reading, size, rng, make_features):
    learned = learn_graph(make_features(20, 4, rng), reading=reading, n_neighbors=4)
    wrong = learned.adjacency.copy()
    wrong.data[:] = size
    found = certify(learned.problem, wrong)
    assert not found.converged
    assert found.max_violation > 1e90


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("factor", [0.0, 0.999, 1.001, 3.0])
def test_errors_are_caught_at_every_scale_of_the_entries(scale, factor, rng, make_features):
    weights = Weights(sparsity=0.0, row_sums=0.0, loops=0.0, closeness=0.0, ridge=1.0)
    x = scale * make_features(20, 4, rng)
    learned = learn_graph(x, signal="raw", weights=weights)
    assert learned.certificate.converged
    assert not certify(learned.problem, factor * learned.adjacency).converged
