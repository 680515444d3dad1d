import copy
import dataclasses
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.distributed import Partition
from glnn.engine import fit
from glnn.engine.fit import FIXED, check_memory, estimate_bytes, fit_problem
from glnn.engine.fit_problem import FitProblem, FitRecord
from glnn.engine.rounds import correct
from glnn.engine.settings import resolve_settings
from glnn.engine.tasks import Labels
from glnn.exceptions import GlnnError, InputError
from glnn.graph.operators import RandomWalk, add_loops, drop_loops
from glnn.graph.pairs import SparseAdjacency
from glnn.graph.prior import normalize_adjacency, prior_graph
from glnn.nn.features import Features
from glnn.objective import Weights
from glnn.solver import learn_graph
from glnn.solver.attribution import link_shares

# The fit

FAST = {"n_epochs": 30}


def accuracy(result, blocks):
    return (result.model.distributions.argmax(1) == blocks[2])[28:].mean()


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_two_communities_are_told_apart_with_a_certified_graph(problem, blocks, preset, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    result = fit_problem(problem, resolve_settings(preset, changes=FAST), seed=0)
    assert accuracy(result, blocks) > 0.8
    assert result.certificate.converged
    assert (result.model.prior is None) == (not with_graph)
    assert abs(result.model.adjacency - result.model.adjacency.T).max() == 0
    assert result.model.adjacency.data.min() > 0


def test_the_literal_method_gives_a_dense_symmetric_graph_and_no_certificate(problem):
    result = fit_problem(problem, resolve_settings("literal", changes={"n_epochs": 3}), seed=0)
    assert result.certificate is None
    (track,) = result.model.tracks
    assert (track.name, track.weight, track.new_rows) == ("learned", 1.0, None)
    assert result.weights == {"learned": 1.0}
    assert abs(result.model.adjacency - result.model.adjacency.T).max() == 0
    assert set(result.history.column("stage")) == {"literal"}
    assert "closeness" in result.history[0]


def answer_of(track, features):
    """The class probabilities of a network on the graph it was trained with, in doubles."""
    if track.head.is_on_rows:
        change = add_loops if track.head.head == "linear" else drop_loops
        graph = RandomWalk(change(track.graph), dtype=torch.float64)
    else:
        graph = SparseAdjacency.from_scipy(normalize_adjacency(track.graph))
    network = copy.deepcopy(track.network).double()
    with torch.no_grad():
        scores = network(graph, Features.of(features, dtype=torch.float64))
    return scores.softmax(1).numpy()


@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_a_mixture_is_the_mean_of_its_networks_on_their_graphs(
    problem, with_graph, all_tracks_count
):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings("default", changes={"n_epochs": 5, "n_rounds": 2})
    result = fit_problem(problem, settings, seed=0)
    assert len(result.model.tracks) == (4 if with_graph else 3)
    assert sum(track.weight for track in result.model.tracks) == pytest.approx(1)
    parts = [
        track.weight * answer_of(track, result.model.features) for track in result.model.tracks
    ]
    expected = correct(sum(parts), result.model.correction)
    np.testing.assert_allclose(result.model.distributions, expected, atol=1e-4)
    assert all(track.new_rows is not None for track in result.model.tracks)


def test_the_graph_that_is_shown_is_the_one_that_its_network_sees(problem, all_tracks_count):
    result = fit_problem(problem, resolve_settings("default", changes={"n_epochs": 5}), seed=0)
    shown = result.choices["learned graph"].removeprefix("that of the track ")
    graphs = {track.name: track.graph for track in result.model.tracks}
    assert (result.model.adjacency != graphs[shown]).nnz == 0
    assert (result.model.prior != prior_graph(problem.graph, "renormalized")).nnz == 0


def rows_of(problem, peers):
    """What one of several processes is given of a problem."""
    rows = Partition(60, peers).rows
    own = None if problem.graph is None else problem.graph[rows]
    return dataclasses.replace(problem, features=problem.features[rows], graph=own, peers=peers)


@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_several_processes_decide_alike_and_have_their_rows(problem, together, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings("default", changes={"n_epochs": 4, "n_rounds": 2})

    def work(peers):
        result = fit_problem(rows_of(problem, peers), settings, seed=0)
        assert result.model.partition.rows == Partition(60, peers).rows
        assert (
            len(result.model.distributions)
            == result.model.adjacency.shape[0]
            == result.model.partition.n_rows
        )
        networks = [track.network for track in result.model.tracks]
        parameters = [p.detach() for network in networks for p in network.parameters()]
        return result, parameters

    results, parameters = zip(*together(2, work))
    assert all(result.choices == results[0].choices for result in results)
    assert all(result.weights == results[0].weights for result in results)
    assert all(list(result.history) == list(results[0].history) for result in results)
    for others in parameters[1:]:
        assert all(torch.equal(p, q) for p, q in zip(parameters[0], others))
    graph = sp.vstack([result.model.adjacency for result in results])
    assert abs(graph - graph.T).max() == 0
    assert results[0].certificate.converged


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_over_ten_seeds_two_processes_are_as_accurate_as_one(problem, blocks, together, preset):
    features, graph, classes = blocks
    labels = Labels(np.arange(6), classes[:6], 60, 2)
    noisy = FitProblem(features, labels, graph, problem.validation)
    settings = resolve_settings(preset, changes={"n_epochs": 25, "n_rounds": 2, "dropout": 0.6})

    def accuracy_of(seed, size):
        def work(peers):
            return fit_problem(rows_of(noisy, peers), settings, seed=seed).model.distributions

        found = np.concatenate(together(size, work)).argmax(1)
        return (found == classes)[28:].mean()

    gains = np.array([accuracy_of(seed, 2) - accuracy_of(seed, 1) for seed in range(10)])
    assert abs(gains.mean()) <= 0.02 + 2 * gains.std() / np.sqrt(10)


def test_the_literal_method_wants_one_process_and_no_checkpoint(problem, tmp_path, together):
    settings = resolve_settings("literal", changes={"n_epochs": 2})
    with pytest.raises(InputError, match="'literal' must run in one process"):
        fit_problem(problem, settings, seed=0, checkpoint=tmp_path)
    with pytest.raises(InputError, match="'literal' must run in one process"):
        together(2, lambda peers: fit_problem(rows_of(problem, peers), settings, seed=0))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_a_fit_on_the_gpu_tells_them_apart_too(problem, blocks, preset, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings(preset, changes=FAST)
    result = fit_problem(problem, settings, seed=0, device="cuda")
    assert accuracy(result, blocks) > 0.8
    assert result.certificate.converged
    assert abs(result.model.adjacency - result.model.adjacency.T).max() == 0
    assert result.model.adjacency.data.min() > 0


def test_the_graph_of_the_printed_optimiser_has_no_negative_entries(problem, monkeypatch):
    trained = []
    monkeypatch.setattr(
        fit, "predict_probabilities", lambda task: trained.append(task) or np.zeros((60, 2))
    )
    result = fit_problem(problem, resolve_settings("literal", changes=FAST), seed=0)
    assert trained[0].adjacency().to_dense().min() < 0  # the network's own matrix has
    assert result.model.adjacency.min() >= 0


# Memory

LITERAL, DEFAULT = resolve_settings("literal"), resolve_settings("default")


def test_a_dense_matrix_grows_with_the_square_and_a_sparse_one_with_its_entries(problem):
    doubled = dataclasses.replace(
        problem,
        features=sp.vstack([problem.features, problem.features]).tocsr(),
        graph=sp.block_diag([problem.graph, problem.graph]).tocsr(),
    )
    assert estimate_bytes(doubled, LITERAL) == 4 * estimate_bytes(problem, LITERAL)
    assert estimate_bytes(doubled, DEFAULT) - FIXED == 2 * (
        estimate_bytes(problem, DEFAULT) - FIXED
    )
    denser = dataclasses.replace(problem, graph=(problem.graph @ problem.graph).tocsr())
    assert estimate_bytes(denser, DEFAULT) > estimate_bytes(problem, DEFAULT)


@pytest.mark.parametrize(
    ("settings", "words"), [(LITERAL, "keep the graph sparse"), (DEFAULT, "n_candidates")]
)
def test_too_large_a_fit_is_refused_with_the_number_and_a_way_out(
    problem, monkeypatch, settings, words
):
    needed = estimate_bytes(problem, settings)
    monkeypatch.setattr(fit, "free_bytes", lambda: needed)
    check_memory(problem, settings)
    monkeypatch.setattr(fit, "free_bytes", lambda: None)
    check_memory(problem, settings)
    monkeypatch.setattr(fit, "free_bytes", lambda: needed - 1)
    with pytest.raises(InputError, match=words) as caught:
        fit_problem(problem, settings, seed=0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (torch.cuda.OutOfMemoryError("CUDA out of memory.\n  Tried 2 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ..."), True),
        (RuntimeError("shapes do not match"), False),
    ],
)
def test_what_means_that_memory_has_run_out(error, full, problem, monkeypatch):
    def fail(*args, **named):
        raise error

    monkeypatch.setattr("glnn.engine.fit.Steps", fail)
    words = "memory" if full else "shapes"
    with pytest.raises(GlnnError if full else RuntimeError, match=words) as caught:
        fit_problem(problem, DEFAULT, seed=0)
    assert "\n" not in str(caught.value)


def test_heads_on_rows_find_links_of_new_nodes_in_the_given_graph_though_no_track_learns_from_it(
    problem, all_tracks_count
):
    settings = resolve_settings("default", changes={"n_epochs": 5, "tracks": ["features", "hops"]})
    result = fit_problem(problem, settings, seed=0)
    rows = {track.name: track.new_rows for track in result.model.tracks}
    assert rows.keys() == {"features", "hops"}
    linked = rows["hops"].connect(problem.features[:3], problem.graph[:3]).links
    assert (linked[:, problem.graph[:3].indices] > 0).nnz
    with pytest.raises(InputError, match="links must be None"):
        rows["features"].connect(problem.features[:3], problem.graph[:3])


# The record of a fit


def test_a_record_has_all_labels_and_finds_what_made_the_links_when_it_is_asked(monkeypatch):
    labels = Labels(np.array([4, 1]), np.array([1, 0]), 6, 2)
    validation = Labels([3], [1], 6, 2)
    problem = FitProblem(np.zeros((6, 2)), labels, None, validation)
    learned = learn_graph(np.eye(6) + 1, weights=Weights(smoothness=1.0, ridge=1.0))
    found = []
    monkeypatch.setattr(
        "glnn.engine.fit_problem.link_shares", lambda one: found.append(one) or link_shares(one)
    )
    record = FitRecord.of(problem, learned)
    assert record.labels.tolist() == [-1, 0, -1, 1, 1, -1]
    assert np.flatnonzero(record.trains).tolist() == [1, 4]
    assert found == []
    np.testing.assert_allclose(record.shares.values.sum(1), learned.adjacency.data)
    assert pickle.loads(pickle.dumps(record)).shares.names == record.shares.names
    assert found == [learned]
