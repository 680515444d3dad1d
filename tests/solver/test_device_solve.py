"""The graph step in tensors has the answers of that in NumPy; here the tensors lie on the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.solver import TaskTerm, learn_graph, solve
from glnn.solver.device_solve import can_be_resident, device_problem, solve_on_device
from glnn.solver.problem import build_problem

PRIOR = Weights(smoothness=0.3, closeness=1.0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture
def on_device(monkeypatch):
    """Return ``learn_graph`` on candidate pairs, solved in tensors on the CPU."""

    def learn(*arguments, **more):
        with monkeypatch.context() as patch:
            patch.setattr(
                solve, "_solve_on_host", lambda asked, _, *rest: solve_on_device(asked, *rest)
            )
            return learn_graph(*arguments, support="candidates", **more)

    return learn


def random_task(n_nodes, rng):
    offset = sp.random(n_nodes, n_nodes, 0.02, random_state=rng, format="csr")
    left, right = 0.1 * rng.standard_normal((2, n_nodes, 3))
    return TaskTerm(left, right, sp.csr_matrix(offset + offset.T))


def assert_same(here, there, tol=1e-8):
    assert np.abs((here.adjacency - there.adjacency).toarray()).max() < tol
    assert there.adjacency.has_sorted_indices
    assert (there.adjacency.data > 0).all()
    assert np.array_equal(here.problem.support.keys, there.problem.support.keys)
    assert here.mean_added_degree == there.mean_added_degree
    assert here.weights.sparsity == pytest.approx(there.weights.sparsity, rel=1e-9)
    one, other = here.certificate, there.certificate
    assert other.converged
    assert one.objective == pytest.approx(other.objective, rel=1e-10)
    assert abs(other.relative_gap) < 1e-10
    assert (one.n_pairs_checked, one.support, one.notes) == (
        other.n_pairs_checked,
        other.support,
        other.notes,
    )
    assert np.allclose(here.row_sums, there.row_sums, atol=tol)
    for name, part in here.dual.items():
        assert np.allclose(part, there.dual[name], atol=1e-6)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_graph_is_that_of_the_host(
    sparse, with_graph, loops, on_device, rng, make_graph, make_features
):
    x, graph = make_features(150, 7, rng, sparse=sparse), make_graph(150, rng)
    more = {
        "graph": graph if with_graph else None,
        "weights": PRIOR if with_graph else Weights.without_prior(),
        "predictions": rng.dirichlet(np.ones(3), 150),
        "column_weights": rng.random(7),
        "task": random_task(150, rng),
        "loops": loops,
    }
    assert_same(learn_graph(x, support="candidates", **more), on_device(x, **more))


@pytest.mark.parametrize("with_graph", [True, False])
def test_the_wanted_degree_is_found_as_on_the_host(
    with_graph, on_device, rng, make_graph, make_features
):
    x, graph = make_features(200, 6, rng), make_graph(200, rng) if with_graph else None
    weights = Weights(smoothness=1.0, closeness=1.0) if with_graph else None
    here = learn_graph(x, graph, support="candidates", n_neighbors=6, weights=weights)
    there = on_device(x, graph, n_neighbors=6, weights=weights)
    assert_same(here, there)
    assert abs(there.mean_added_degree - 6) < 0.3


def test_a_degree_out_of_reach_is_told(on_device, rng, make_features):
    learned = on_device(make_features(30, 3, rng), n_neighbors=100)
    assert learned.weights.sparsity == 0
    assert "wanted 100" in learned.certificate.notes[0]


@pytest.mark.parametrize(
    "changes",
    [{"row_sums": 0.0}, {"loops": 0.0}, {"row_sums": 0.0, "loops": 0.0}, {"loops": 5.0}],
)
def test_penalties_may_be_missing(changes, on_device, rng, make_graph, make_features):
    x, graph, weights = make_features(60, 5, rng), make_graph(60, rng), PRIOR.replace(**changes)
    here = learn_graph(x, graph, support="candidates", weights=weights)
    assert_same(here, on_device(x, graph, weights=weights))


def test_an_earlier_answer_and_an_earlier_graph_are_taken(
    on_device, rng, make_graph, make_features
):
    x, graph = make_features(80, 5, rng), make_graph(80, rng)
    first = learn_graph(x, graph, support="candidates", weights=PRIOR)
    warm = on_device(x, graph, weights=PRIOR, start=first)
    assert warm.certificate.iterations == 0
    near = (0.5, first.adjacency)
    here = learn_graph(x, graph, support="candidates", weights=PRIOR, proximal=near)
    assert_same(here, on_device(x, graph, weights=PRIOR, proximal=near, start=first))


def test_weights_of_closeness_alone_give_the_prior_graph(on_device, rng, make_graph, make_features):
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    learned = on_device(
        make_features(50, 4, rng),
        make_graph(50, rng),
        weights=Weights.closeness_alone(),
        candidates=nothing,
    )
    assert np.abs((learned.adjacency - learned.prior).toarray()).max() < 1e-15
    assert learned.certificate.converged


def test_offsets_are_those_of_the_problem_whatever_the_blocks(
    rng, make_graph, make_features, monkeypatch
):
    monkeypatch.setattr("glnn.solver.implicit.DEVICE_BYTES", 2 * 16 * 40)  # two columns at a time
    x, graph = make_features(40, 5, rng), make_graph(40, rng)
    problem = build_problem(x, graph, PRIOR, "trace", task=random_task(40, rng))
    ends = tuple(rng.integers(0, 40, (2, 90)))
    resident = device_problem(problem, ends, "cpu")
    expected = problem.linear.on_pairs(resident.pairs.to_host())
    assert np.allclose(resident.offsets.numpy(), expected, atol=1e-13)


def test_only_row_sums_and_loops_are_known_there(rng, make_features):
    x = make_features(20, 3, rng)
    for reading, expected in (("trace", True), ("channel", False), ("frobenius", False)):
        problem = build_problem(x, None, Weights.without_prior(), reading)
        assert can_be_resident(problem) is expected


def test_candidates_outside_the_nodes_are_refused(on_device, rng, make_features):
    with pytest.raises(InputError, match="candidates must hold node numbers"):
        on_device(make_features(20, 3, rng), candidates=(np.array([1]), np.array([20])))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("n_neighbors", [None, 6])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_graph_of_the_gpu_is_that_of_the_host(
    sparse, n_neighbors, rng, make_graph, make_features
):
    x, graph = make_features(400, 9, rng, sparse=sparse), make_graph(400, rng)
    more = {
        "weights": PRIOR,
        "n_neighbors": n_neighbors,
        "predictions": rng.dirichlet(np.ones(3), 400),
        "task": random_task(400, rng),
        "support": "candidates",
    }
    candidates = learn_graph(x, graph, **more).candidates
    here, there = (
        learn_graph(x, graph, **more, candidates=candidates, device=device)
        for device in ("cpu", "cuda")
    )
    assert_same(here, there)
