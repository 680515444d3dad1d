import dataclasses
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file
from torch.testing import assert_close

from glnn.distributed import Partition
from glnn.engine.archive import (
    FORMAT,
    VERSION,
    read_archive,
    read_checked_json,
    write_archive,
    write_checked_json,
)
from glnn.engine.fit import fit_problem
from glnn.engine.model import Model, NewNodes, digest_rows, extend_graph, lookup_training_rows
from glnn.engine.rounds import correct
from glnn.engine.settings import HeadSettings, resolve_settings
from glnn.engine.tasks import build_head
from glnn.exceptions import CheckpointError, GraphWarning, InputError
from glnn.graph import SparseAdjacency
from glnn.graph.operators import RandomWalk, add_loops, drop_loops
from glnn.graph.prior import normalize_adjacency
from glnn.nn import Features

# The model


def load_model(folder):
    return read_archive(folder, Model).with_networks()


@pytest.fixture(scope="module")
def model(make_problem):
    """A mixture of all tracks, however little a few epochs have taught them."""
    settings = resolve_settings("default", changes={"n_epochs": 5, "n_rounds": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glnn.engine.rounds.NEGLIGIBLE", 0.0)
        return fit_problem(make_problem(), settings, seed=0).model


def new_rows(problem):
    return (problem.features[:6] + problem.features[30:36]).tocsr()


def alone(model, track):
    """The model of one of its tracks."""
    track = dataclasses.replace(track, weight=1.0)
    return dataclasses.replace(model, tracks=(track,), correction=None)


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_loaded_model_answers_with_the_same_bits(
    problem, tmp_path, preset, with_graph, all_tracks_count
):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings(preset, changes={"n_epochs": 5})
    model = fit_problem(problem, settings, seed=0).model
    assert (len(model.tracks) > 1) == (preset == "default")
    write_archive(tmp_path / "m", model, model.partition)
    again = load_model(tmp_path / "m")
    assert again.settings == model.settings
    for rows in (problem.features, new_rows(problem)):
        np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    if with_graph:
        rows, links = new_rows(problem), problem.graph[20:26]
        found = model.predict_proba(rows, links)
        np.testing.assert_array_equal(again.predict_proba(rows, links), found)
        assert np.abs(found - model.predict_proba(rows)).max() > 1e-6  # links count


def test_a_model_saved_again_after_it_was_loaded_has_the_same_bytes(model, tmp_path):
    write_archive(tmp_path / "first", model, model.partition)
    write_archive(tmp_path / "second", load_model(tmp_path / "first"))
    for name in ("model.json", "model.safetensors"):
        first, second = (tmp_path / folder / name for folder in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_graphs_that_tracks_share_are_stored_once(problem, tmp_path, all_tracks_count):
    problem = dataclasses.replace(problem, graph=None)
    changes = {"n_epochs": 2, "n_rounds": 1, "tracks": ["features", "linear", "hops"]}
    settings = resolve_settings("default", changes=changes)
    model = fit_problem(problem, settings, seed=0).model
    assert len(model.tracks) == 3
    write_archive(tmp_path / "m", model, model.partition)
    stored = load_file(tmp_path / "m" / "model.safetensors")
    graphs = [n for n in stored if n.endswith(("adjacency.data", "graph.data"))]
    assert graphs == ["adjacency.data"]
    assert len([name for name in stored if name.endswith("signal.data")]) == 1
    again = load_model(tmp_path / "m")
    for track in again.tracks:
        assert np.shares_memory(track.graph.data, again.adjacency.data)  # also held once
        assert abs(track.graph - model.adjacency).max() == 0


@pytest.mark.parametrize("with_graph", [True, False])
def test_what_several_processes_save_is_read_as_one_model(
    problem, together, tmp_path, with_graph, all_tracks_count
):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings("default", changes={"n_epochs": 5, "n_rounds": 2})

    def work(peers):
        rows = Partition(60, peers).rows
        own = problem.features[rows]
        graph = None if problem.graph is None else problem.graph[rows]
        part = dataclasses.replace(problem, features=own, graph=graph, peers=peers)
        model = fit_problem(part, settings, seed=0).model
        write_archive(tmp_path / "m", model, model.partition)
        with pytest.raises(InputError, match="must be saved and loaded"):
            model.predict_proba(problem.features)
        return model, model.gather("distributions")

    models, distributions = zip(*together(2, work))
    loaded = load_model(tmp_path / "m")
    for name in ("adjacency", "distributions", "features", "digests"):
        stacked = sp.vstack([sp.csr_matrix(getattr(model, name)) for model in models])
        assert abs(stacked - sp.csr_matrix(getattr(loaded, name))).max() == 0
    assert len(loaded.tracks) > 1
    for track, *parts in zip(loaded.tracks, *(model.tracks for model in models)):
        assert {(track.name, track.weight)} == {(part.name, part.weight) for part in parts}
        assert abs(sp.vstack([part.graph for part in parts]) - track.graph).max() == 0
    np.testing.assert_array_equal(distributions[0], loaded.distributions)  # in the first, all
    np.testing.assert_array_equal(distributions[1], models[1].distributions)
    np.testing.assert_array_equal(loaded.predict_proba(problem.features), loaded.distributions)
    np.testing.assert_allclose(loaded.predict_proba(new_rows(problem)).sum(1), 1)


# New rows of a mixture


@pytest.mark.parametrize("with_links", [True, False])
def test_new_rows_get_the_weighted_mean_of_what_the_tracks_say(problem, model, with_links):
    rows, links = new_rows(problem), problem.graph[20:26] if with_links else None
    weights = [track.weight for track in model.tracks]
    assert min(weights) > 0.02 and sum(weights) == pytest.approx(1, abs=1e-12)
    assert weights == sorted(weights, reverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)  # features alone do not need links
        single = [alone(model, track).predict_proba(rows, links) for track in model.tracks]
    found = model.predict_proba(rows, links)
    mixed = np.average(single, axis=0, weights=weights)
    assert model.correction is not None
    np.testing.assert_allclose(found, correct(mixed, model.correction), rtol=1e-12)
    for one in single:
        assert np.abs(one - mixed).max() > 1e-6


def test_new_rows_far_off_the_scale_of_the_training_rows_are_refused(problem):
    changes = {"n_epochs": 2, "n_rounds": 1, "scaling": "columns", "tracks": ["features"]}
    settings = resolve_settings("default", changes=changes)
    model = fit_problem(problem, settings, seed=0).model
    with pytest.raises(InputError, match="on the scale of the training rows, got new rows"):
        model.predict_new(np.full((2, problem.features.shape[1]), 1e45))


def test_links_move_only_the_tracks_that_see_the_given_graph(problem, model):
    rows, links = new_rows(problem), problem.graph[20:26]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        moved = {
            track.name: np.abs(
                alone(model, track).predict_proba(rows, links)
                - alone(model, track).predict_proba(rows)
            ).max()
            for track in model.tracks
        }
    assert moved.pop("features") == 0
    assert set(moved) == {"learned", "linear", "hops"}
    assert min(moved.values()) > 0


def test_links_to_a_graph_that_the_fit_does_not_trust_are_ignored_with_a_warning(problem):
    settings = resolve_settings("default", changes={"n_epochs": 5, "tracks": ["features"]})
    model = fit_problem(problem, settings, seed=0).model
    rows, links = new_rows(problem)[:1], np.ones((1, 60))
    with pytest.warns(GraphWarning, match="links are ignored"):
        found = model.predict_proba(rows, links)
    np.testing.assert_array_equal(found, model.predict_proba(rows))


def test_the_literal_model_has_no_rule_for_new_rows(problem, tmp_path):
    result = fit_problem(problem, resolve_settings("literal", changes={"n_epochs": 2}), seed=0)
    literal = result.model
    write_archive(tmp_path / "m", literal, literal.partition)
    for model in (literal, load_model(tmp_path / "m")):
        np.testing.assert_array_equal(
            model.predict_proba(problem.features), result.model.distributions
        )
        with pytest.raises(InputError, match="no rule for new rows"):
            model.predict_proba(new_rows(problem))


@pytest.mark.parametrize(
    "place",
    [
        ("settings", "tracks", 0, "head"),
        ("settings", "no_graph"),
        ("tracks",),
        ("tracks", 1, "weight"),
        ("tracks", 1, "head"),
        ("tracks", 1, "new_rows", "share"),
    ],
    ids=str,
)
def test_a_page_with_a_missing_part_is_refused_in_one_line(model, tmp_path, place):
    write_archive(tmp_path / "m", model, model.partition)
    page = read_checked_json(tmp_path / "m" / "model.json", FORMAT, VERSION)
    *path, last = place
    part = page
    for key in path:
        part = part[key]
    del part[last]
    write_checked_json(tmp_path / "m" / "model.json", FORMAT, VERSION, page)
    with pytest.raises(CheckpointError, match="was damaged or is not complete") as caught:
        load_model(tmp_path / "m")
    assert "\n" not in str(caught.value)


# New nodes


def network(kind, n_features=20):
    generator = torch.Generator().manual_seed(0)
    settings = HeadSettings(head=kind, n_hidden=4)
    if kind == "propagation":
        settings = dataclasses.replace(settings, drop_node=0.5, n_steps=3)
    return build_head(settings, n_features, 2, generator)


def test_the_extended_graph_is_the_block_matrix():
    old = sp.csr_matrix(np.array([[0.0, 0.5], [0.5, 0.0]]))
    links = sp.csr_matrix(np.array([[0.3, 0.0]]))
    x = torch.arange(3.0, dtype=torch.float64)[:, None]
    whole = torch.tensor([[0, 0.5, 0], [0.5, 0, 0], [0.3, 0, 0.2]], dtype=torch.float64)
    assert_close(extend_graph(old, links, np.array([0.2])) @ x, whole @ x)


def test_the_answer_for_a_node_does_not_depend_on_the_others_in_the_call(blocks):
    features, graph, _ = blocks
    links = sp.csr_matrix(graph[:5])
    together = NewNodes(graph, features, features[:5], links, np.zeros(5))
    each = [NewNodes(graph, features, features[i], links[i], np.zeros(1)) for i in range(5)]
    for kind in ("gcn", "propagation", "linear", "hops"):
        module = network(kind)
        alone = [node.predict(module)[0] for node in each]
        np.testing.assert_allclose(together.predict(module), alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["linear", "hops"])
def test_a_copy_of_a_node_gets_its_answer_from_a_head_on_rows(blocks, kind):
    features, graph, _ = blocks
    graph = sp.csr_matrix(graph)
    module = network(kind)
    twin = NewNodes(graph, features, features[:4], sp.csr_matrix(graph[:4]), np.zeros(4))
    walk = add_loops(graph) if kind == "linear" else drop_loops(graph)
    known = module(RandomWalk(walk), Features.of(features)).softmax(1).detach().numpy()
    if kind == "linear":  # the copy's loop is its own, its neighbours' links lead to the original
        assert np.abs(twin.predict(module) - known[:4]).max() < 0.02
    else:
        np.testing.assert_allclose(twin.predict(module), known[:4], atol=1e-5)


@pytest.mark.parametrize("kind", ["gcn", "propagation"])
def test_a_copy_of_a_node_gets_its_answer_from_a_head_on_the_graph(blocks, kind):
    features, graph, _ = blocks
    graph = sp.csr_matrix(graph.multiply(1 + np.arange(60)[:, None] + np.arange(60)))  # uneven
    module = network(kind)
    twin = NewNodes(graph, features, features[:4], sp.csr_matrix(graph[:4]), np.zeros(4))
    adj_hat = SparseAdjacency.from_scipy(normalize_adjacency(graph), dtype=torch.float32)
    known = module(adj_hat, Features.of(features)).softmax(1).detach().numpy()
    np.testing.assert_allclose(twin.predict(module), known[:4], atol=1e-5)
    assert np.abs(np.diff(known[:4], axis=0)).max() > 1e-3


def test_a_node_without_links_is_classified_by_its_own_features(blocks):
    features, graph, _ = blocks
    module = network("gcn")
    node = NewNodes(graph, features, features[:1], sp.csr_matrix((1, 60)), np.zeros(1))
    found = node.predict(module)
    alone = extend_graph(sp.csr_matrix((1, 1)), sp.csr_matrix((0, 1)), np.zeros(0))
    assert len(alone @ torch.ones(1, 1, dtype=torch.float64)) == 1
    x = torch.from_numpy(features[:1].toarray()).double()
    w = {name: value.double() for name, value in module.state_dict().items()}
    hidden = torch.relu(x @ w["first.weight"] + w["first.bias"])
    expected = (hidden @ w["second.weight"] + w["second.bias"]).softmax(1)
    assert_close(torch.from_numpy(found), expected)


def test_old_nodes_keep_their_scores(blocks):
    features, graph, _ = blocks
    module = network("propagation").double()
    graph_hat = normalize_adjacency(graph)
    extended = extend_graph(graph_hat, sp.csr_matrix(graph[:2]), np.zeros(2))
    stacked = sp.vstack([features, features[:2]], format="csr")
    both = module(extended, Features.of(stacked, dtype=torch.float64))
    alone = extend_graph(graph_hat, sp.csr_matrix((0, 60)), np.zeros(0))
    old = module(alone, Features.of(features, dtype=torch.float64))
    assert_close(both[:60], old)


# Digests of rows

ROWS = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
DISTRIBUTIONS = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])


def test_equal_rows_have_equal_digests_whatever_their_storage_and_precision():
    dense = digest_rows(ROWS)
    np.testing.assert_array_equal(dense, digest_rows(sp.csr_matrix(ROWS)))
    np.testing.assert_array_equal(dense, digest_rows(ROWS.astype(np.float32)))
    np.testing.assert_array_equal(dense[0], dense[2])
    assert (dense[0] != dense[1]).any()


def test_rows_that_differ_in_one_value_or_its_column_have_other_digests():
    rng = np.random.default_rng(0)
    row = rng.integers(0, 2, 40).astype(float)  # few values, whose last bits are zero
    others = np.array([np.roll(row, k) for k in range(40)])
    changed = row + np.eye(40) * rng.choice([1e-9, 0.5, 1.0, 2.0, 1024.0], 40)
    rows = np.unique(np.vstack([others, changed, -others]), axis=0)
    assert len(np.unique(digest_rows(rows), axis=0)) == len(rows)
    assert not digest_rows(np.zeros((2, 3))).any()


def test_rows_with_and_without_zeros_have_the_digests_of_their_sparse_form():
    rows = np.random.default_rng(0).normal(size=(9000, 3))  # more than a block
    rows[::7, 1] = 0.0
    rows[5] = -0.0
    np.testing.assert_array_equal(digest_rows(rows), digest_rows(sp.csr_matrix(rows)))
    full = sp.csr_matrix(np.abs(rows) + 1)
    np.testing.assert_array_equal(digest_rows(full), digest_rows(full.toarray()))
    np.testing.assert_array_equal(digest_rows(rows[:, ::-1]), digest_rows(rows[:, ::-1].copy()))
    assert digest_rows(rows[:0]).shape == (0, 2)


def test_a_row_that_equals_several_gets_their_mean_and_an_unknown_row_is_new():
    new = np.array([[0.0, 1.0], [5.0, 5.0], [2.0, 0.0]])
    seen, found = lookup_training_rows(digest_rows(new), digest_rows(ROWS), DISTRIBUTIONS)
    assert seen.tolist() == [True, False, True]
    np.testing.assert_allclose(found, [[0.7, 0.3], [0.2, 0.8]])
