import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize

from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.exceptions import InputError, ProblemError
from glnn.graph import prior_graph
from glnn.objective import READINGS, Weights
from glnn.solver import FeatureSignal, candidates, learn_graph
from glnn.solver.learn import GraphRequest, solve_graph

# learn_graph

WITH_PRIOR = Weights(smoothness=1.0, sparsity=0.1, row_sums=0.1, loops=0.001, closeness=2.0)
NO_PRIOR = Weights(smoothness=1.0, sparsity=0.2, row_sums=0.5, loops=0.01, closeness=0.0, ridge=1.0)


def largest_difference(learned, dense):
    return np.abs(learned.adjacency.toarray() - dense).max()


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("with_prior", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_answer_is_that_of_a_dense_solver(
    reading, with_prior, sparse, rng, dense_problem, make_graph, make_features
):
    n = 40
    x, graph = make_features(n, 6, rng, sparse=sparse), make_graph(n, rng)
    weights = WITH_PRIOR if with_prior else NO_PRIOR
    learned = learn_graph(x, graph if with_prior else None, weights=weights, reading=reading)
    signal = normalize(x.toarray() if sparse else x)
    prior = prior_graph(graph, "renormalized").toarray() if with_prior else None
    oracle = dense_problem(signal, weights, reading, prior).solve()
    assert largest_difference(learned, oracle) < 1e-6
    assert learned.certificate.max_violation < 1e-6
    assert learned.certificate.pairs_checked == 1.0


ODD_FEATURES = {
    "as they are": lambda x: x,
    "duplicate rows": lambda x: np.repeat(x[::3], 3, axis=0)[: len(x)],
    "rows of zeros": lambda x: x * (np.arange(len(x)) % 4 > 0)[:, None],
    "constant columns": lambda x: np.hstack([np.full((len(x), 2), 3.0), x]),
    "a huge scale": lambda x: 1e8 * x,
    "a tiny scale": lambda x: 1e-8 * x,
}


@pytest.mark.parametrize("odd", ODD_FEATURES.values(), ids=ODD_FEATURES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("signal", "support"), [("l2", "all"), ("standardized", "candidates")])
def test_odd_features_have_the_optimum_of_the_dense_solver(
    odd, signal, reading, support, rng, dense_problem, make_graph, make_features
):
    x, graph = odd(make_features(18, 4, rng)), make_graph(18, rng)
    learned = learn_graph(
        x,
        graph,
        weights=WITH_PRIOR,
        reading=reading,
        signal=signal,
        support=support,
        n_candidates=3,
    )
    prior = prior_graph(graph, "renormalized").toarray()
    rows = FeatureSignal.fit(signal, x).transform(x)
    oracle = dense_problem(rows, WITH_PRIOR, reading, prior, allowed=allowed_by(learned))
    assert largest_difference(learned, oracle.solve_pairs()) < 1e-6
    assert learned.certificate.converged


def allowed_by(learned):
    """Return the support as a matrix of zeros and ones, or ``None`` for all pairs."""
    support = learned.problem.support
    if support is None:
        return None
    return support.to_scipy(torch.ones(len(support), dtype=torch.float64)).toarray()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("support", ["all", "candidates"])
def test_weights_over_six_orders_of_magnitude_have_the_optimum_of_the_dense_solver(
    seed, reading, support, dense_problem, make_graph, make_features
):
    rng = np.random.default_rng(seed)
    x, graph = make_features(18, 4, rng, sparse=seed % 2 == 1), make_graph(18, rng)
    names = ("smoothness", "sparsity", "row_sums", "loops", "closeness", "ridge")
    weights = Weights(**{name: 10.0 ** rng.uniform(-3, 3) for name in names})
    learned = learn_graph(
        x, graph, weights=weights, reading=reading, support=support, n_candidates=4
    )
    signal = normalize(x.toarray() if sp.issparse(x) else x)
    prior = prior_graph(graph, "renormalized").toarray()
    oracle = dense_problem(signal, weights, reading, prior, allowed=allowed_by(learned))
    assert largest_difference(learned, oracle.solve_pairs()) < 1e-6
    assert learned.certificate.converged


@pytest.mark.parametrize("smoothness", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("reading", READINGS)
def test_300_nodes_with_weak_and_strong_smoothness_leave_no_residual(
    smoothness, reading, rng, dense_problem, make_graph, make_features
):
    x, graph = make_features(300, 5, rng), make_graph(300, rng)
    weights = WITH_PRIOR.replace(smoothness=smoothness)
    learned = learn_graph(x, graph, weights=weights, reading=reading, n_candidates=5)
    prior = prior_graph(graph, "renormalized").toarray()
    a = learned.adjacency.toarray()
    residual = dense_problem(normalize(x), weights, reading, prior).residual(a)
    assert learned.certificate.converged, learned.certificate.notes
    assert residual <= 1e-6 * max(1.0, a.max())


@pytest.mark.parametrize("reading", READINGS)
def test_task_term_and_predictions_enter_as_written(
    reading, rng, dense_problem, make_graph, make_features
):
    n = 30
    x, graph = make_features(n, 5, rng), make_graph(n, rng)
    u, v = rng.standard_normal((2, n, 3)) / 3
    p = rng.dirichlet(np.ones(3), size=n)
    request = GraphRequest(
        x,
        graph,
        weights=WITH_PRIOR,
        reading=reading,
        predictions=p,
        prediction_weight=2.0,
        task=(u, v),
    )
    learned = solve_graph(request)
    signal = np.hstack([normalize(x), np.sqrt(2.0) * (p - 1 / 3) * np.sqrt(3 / 2)])
    oracle = dense_problem(
        signal,
        WITH_PRIOR,
        reading,
        prior_graph(graph, "renormalized").toarray(),
        cost=(u @ v.T + v @ u.T) / 2,
    ).solve()
    assert largest_difference(learned, oracle) < 1e-6


def test_no_penalty_at_all_gives_the_closed_form(rng, make_features):
    x = make_features(30, 4, rng)
    weights = Weights(sparsity=0.3, row_sums=0.0, loops=0.0, closeness=0.0, ridge=0.5)
    signal = normalize(x)
    expected = np.maximum(signal @ signal.T - 0.3, 0)
    assert largest_difference(learn_graph(x, weights=weights), expected) < 1e-12


@pytest.mark.parametrize("reading", READINGS)
def test_block_size_does_not_change_the_answer(
    reading, rng, make_graph, make_features, monkeypatch
):
    x, graph = make_features(60, 5, rng), make_graph(60, rng)
    big = learn_graph(x, graph, weights=WITH_PRIOR, reading=reading)
    monkeypatch.setattr("glnn.graph.rows.BLOCK_BYTES", 4096)
    small = learn_graph(x, graph, weights=WITH_PRIOR, reading=reading)
    assert np.abs((big.adjacency - small.adjacency).toarray()).max() < 1e-8
    assert small.certificate.converged


def test_two_runs_give_the_same_bits(rng, make_graph, make_features):
    x, graph = make_features(80, 5, rng), make_graph(80, rng)
    one, two = (learn_graph(x, graph, n_neighbors=4) for _ in range(2))
    assert one.adjacency.data.tobytes() == two.adjacency.data.tobytes()
    assert one.adjacency.indices.tobytes() == two.adjacency.indices.tobytes()


@pytest.mark.parametrize("reading", READINGS)
def test_a_problem_without_prior_and_ridge_is_refused(reading, rng, make_features):
    with pytest.raises(ProblemError, match="no unique minimum") as caught:
        learn_graph(make_features(10, 3, rng), weights=Weights(), reading=reading)
    assert "\n" not in str(caught.value)


def make_request(**arguments):
    """Build a request whose types are not checked, as they are in tests alone."""
    request = object.__new__(GraphRequest)
    defaults = {f.name: f.default for f in dataclasses.fields(GraphRequest)}
    request.__dict__.update(defaults | arguments)
    inspect.unwrap(GraphRequest.__post_init__)(request)
    return request


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"X": np.ones((1, 3))}, "at least two rows"),
        ({"X": np.full((4, 2), np.nan)}, "must be finite"),
        ({"reading": "chanel"}, "Did you mean 'channel'"),
        ({"support": "everything"}, "support must be one of"),
        ({"signal": "L2"}, "signal must be one of"),
        ({"n_neighbors": 0}, "n_neighbors must be finite, greater than 0"),
        ({"device": "gpu"}, "device must be one of this machine"),
        ({"n_candidates": -1}, "n_candidates must be at least 0"),
        ({"predictions": np.ones((3, 2))}, "predictions must have 4 rows"),
        ({"predictions": np.full((4, 2), np.nan)}, "between 0 and 1"),
        ({"predictions": np.full((4, 2), 7.0)}, "between 0 and 1, got 7 to 7"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, said):
    with pytest.raises(InputError, match=said) as caught:
        solve_graph(make_request(**{"X": np.eye(4), **arguments}))
    assert "\n" not in str(caught.value)


@pytest.mark.dataset
def test_cora_with_all_pairs_is_proven_optimal_in_little_memory(load_npz):
    load_npz("cora")  # skips where the data are not
    code = (
        "import os, resource, sys, numpy as np, scipy.sparse as sp, torch\n"
        "from glnn.solver import learn_graph\n"
        "z = np.load(os.path.join(os.environ['GLNN_DATA'], 'cora.npz'), allow_pickle=False)\n"
        "parts = (z['features_data'], z['features_indices'], z['features_indptr'])\n"
        "x = sp.csr_matrix(parts, shape=tuple(z['features_shape']))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "c = learn_graph(x, z['edge_index'], support='all').certificate\n"
        "extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "sys.stdout.write(f'{c.max_violation} {c.pairs_checked} {extra / 1024}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    violation, checked, megabytes = map(float, done.stdout.split())
    assert violation <= 1e-6
    assert checked == 1.0
    assert megabytes < 500


@pytest.mark.gpu
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("support", ["all", "candidates"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("degree", [None, 5])
def test_a_gpu_gives_the_same_answer(
    reading, support, sparse, degree, rng, make_graph, make_features
):
    x, graph = make_features(200, 7, rng, sparse=sparse), make_graph(200, rng)
    common = {"weights": WITH_PRIOR, "reading": reading, "support": support, "n_neighbors": degree}
    here = learn_graph(x, graph, **common)
    there = learn_graph(x, graph, device="cuda", **common)
    assert np.abs((here.adjacency - there.adjacency).toarray()).max() < 1e-6
    assert there.certificate.converged
    new = make_features(5, 7, rng, sparse=sparse)
    links = [learned.connect(new).links.toarray() for learned in (here, there)]
    assert np.abs(links[0] - links[1]).max() < 1e-6


@pytest.mark.parametrize("reading", READINGS)
def test_nodes_that_no_candidate_joins_get_their_edges(reading, rng, make_features, dense_problem):
    x = make_features(14, 3, rng)
    x[:4] = 0
    weights = Weights(smoothness=1.0, sparsity=0.0, row_sums=1.0, loops=0.0, ridge=1.0)
    learned = learn_graph(x, weights=weights, reading=reading, n_candidates=0)
    best = dense_problem(normalize(x), weights, reading).solve()
    assert learned.certificate.converged
    assert np.abs(learned.adjacency.toarray() - best).max() < 1e-6


def test_a_graph_that_rounding_keeps_from_its_optimum_says_so(rng, make_features):
    weights = Weights(row_sums=0.1, closeness=0.0, ridge=1.0)
    x = 1e3 * make_features(20, 4, rng)
    found = learn_graph(x, weights=weights, reading="channel", signal="raw").certificate
    assert not found.converged
    assert len(found.notes) == 1 and found.notes[0].startswith("not optimal: ")


# Several processes

WEIGHTS = Weights(smoothness=0.3, sparsity=0.1, row_sums=0.1, loops=0.001, closeness=2.0)
NONE = np.empty(0, dtype=np.int64)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("support", "sparse"), [("all", True), ("candidates", False)])
def test_the_graph_is_the_same_for_any_number_of_processes(
    size, reading, support, sparse, together, rng, make_graph, make_features
):
    n = 90
    x, graph = make_features(n, 6, rng, sparse=sparse), make_graph(n, rng)
    p, (u, v) = rng.dirichlet(np.ones(3), n), rng.standard_normal((2, n, 2)) / 3
    common = {"weights": WEIGHTS, "reading": reading, "support": support, "n_candidates": 5}

    def learned_by(peers):
        layout = Partition(n, peers)
        rows = layout.rows
        request = GraphRequest(
            x[rows],
            graph[rows],
            predictions=p[rows],
            task=(u[rows], v[rows]),
            column_weights=np.arange(1.0, 7.0),
            layout=layout,
            **common,
        )
        return solve_graph(request)

    alone, parts = learned_by(SINGLE_PROCESS), together(size, learned_by)
    whole = sp.vstack([part.adjacency for part in parts])
    assert np.abs((whole - alone.adjacency).toarray()).max() < 1e-6
    for part in parts:
        assert part.certificate.converged
        assert part.certificate.objective == pytest.approx(alone.certificate.objective, rel=1e-9)
        assert part.certificate.n_pairs_checked == alone.certificate.n_pairs_checked
        assert part.mean_added_degree == alone.mean_added_degree


@pytest.mark.parametrize("exact_up_to", [0, 400], ids=["clusters", "exact"])
def test_a_wanted_degree_is_reached_alike_by_any_number_of_processes(
    exact_up_to, together, rng, make_features, monkeypatch
):
    monkeypatch.setattr(candidates, "EXACT_UP_TO", exact_up_to)
    x = make_features(400, 6, rng)
    common = {"n_neighbors": 6, "support": "candidates"}

    def learned_by(peers, **more):
        layout = Partition(400, peers)
        return solve_graph(GraphRequest(x[layout.rows], layout=layout, **common, **more))

    alone = learned_by(SINGLE_PROCESS)
    parts = together(3, learned_by)
    whole = sp.vstack([part.adjacency for part in parts])
    assert np.abs((whole - alone.adjacency).toarray()).max() < 1e-6
    assert parts[0].weights.sparsity == pytest.approx(alone.weights.sparsity, rel=1e-6)

    def again_by(peers):
        known = alone.candidates if peers.rank == 0 else (NONE, NONE)
        return learned_by(peers, candidates=known)

    again = together(2, again_by)
    assert np.abs((sp.vstack([p.adjacency for p in again]) - whole).toarray()).max() < 1e-6
