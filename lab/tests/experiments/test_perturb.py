import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import NodeData
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError
from glnn_lab.experiments import perturb
from glnn_lab.experiments.scale import path_graph

SETTINGS = settings(max_examples=40, derandomize=True, deadline=None)

DATA = block_model(60, 3, degree=4, seed=0)
SHARES = st.floats(0, 1)
SEEDS = st.integers(0, 1000)


def edge_set(data):
    graph = data.graph if isinstance(data, NodeData) else data
    return {(i, j) for i, j in zip(*graph.nonzero()) if i < j}


@SETTINGS
@given(SHARES, SEEDS)
def test_deleted_edges_are_a_share_of_those_there_were(share, seed):
    left = perturb.delete_edges(DATA, share, seed)
    assert edge_set(left) <= edge_set(DATA)
    assert left.n_edges == DATA.n_edges - round(share * DATA.n_edges)


@SETTINGS
@given(SHARES, SEEDS)
def test_added_edges_are_new(share, seed):
    more = perturb.add_edges(DATA, share, seed)
    assert edge_set(more) >= edge_set(DATA)
    assert more.n_edges == DATA.n_edges + round(share * DATA.n_edges)


@SETTINGS
@given(SHARES, SEEDS)
def test_rewired_edges_move_to_pairs_that_had_none(share, seed):
    moved = perturb.rewire_edges(DATA, share, seed)
    assert moved.n_edges == DATA.n_edges
    assert len(edge_set(moved) - edge_set(DATA)) == round(share * DATA.n_edges)


@SETTINGS
@given(SHARES, SEEDS)
def test_poisoned_edges_part_like_nodes_and_join_unlike_ones(share, seed):
    poisoned = perturb.poison_edges(DATA, share, seed)
    before, after = edge_set(DATA), edge_set(poisoned)
    assert len(before ^ after) == round(share * DATA.n_edges)
    assert all(DATA.labels[i] == DATA.labels[j] for i, j in before - after)
    assert all(DATA.labels[i] != DATA.labels[j] for i, j in after - before)


def test_nodes_without_a_label_are_not_poisoned():
    labels = np.where(np.arange(60) < 30, DATA.labels, -1)
    poisoned = perturb.poison_edges(DATA.replace(labels=labels), 0.3, 1)
    changed = edge_set(DATA) ^ edge_set(poisoned)
    assert changed
    assert max(max(pair) for pair in changed) < 30


def test_more_poison_than_there_are_pairs_is_refused():
    graph = sp.csr_matrix(1.0 - np.eye(3))
    trio = NodeData(sp.csr_matrix(np.eye(3)), np.array([0, 1, 1]), graph, ("a", "b"))
    with pytest.raises(InputError, match="at most the 0 unlike pairs"):
        perturb.poison_edges(trio, 1.0)


@pytest.mark.parametrize("damage", [perturb.add_edges, perturb.rewire_edges])
def test_large_graphs_draw_pairs_without_listing_them_all(damage, monkeypatch):
    monkeypatch.setattr(perturb, "_SMALL", 10)
    changed = damage(DATA, 0.5, 3)
    assert len(edge_set(changed) - edge_set(DATA)) == round(0.5 * DATA.n_edges)


@SETTINGS
@given(SHARES, SEEDS)
def test_flipped_labels_are_another_class(share, seed):
    flipped = perturb.flip_labels(DATA, share, seed)
    assert (flipped.labels != DATA.labels).sum() == round(share * DATA.n_nodes)
    only = perturb.flip_labels(DATA, 1.0, seed, nodes=[1, 2])
    assert np.flatnonzero(only.labels != DATA.labels).tolist() == [1, 2]


@SETTINGS
@given(SHARES, SEEDS)
def test_dropped_and_noisy_entries_are_a_share_of_the_entries(share, seed):
    wanted = round(share * DATA.features.nnz)
    dropped = perturb.drop_features(DATA, share, seed)
    assert DATA.features.nnz - dropped.features.nnz == wanted
    noisy = perturb.noise_features(DATA, share, seed)
    assert (noisy.features != DATA.features).nnz <= wanted
    assert perturb.noise_features(DATA, share, seed, scale=0).equals(DATA)


EVERY = [
    perturb.delete_edges,
    perturb.add_edges,
    perturb.rewire_edges,
    perturb.poison_edges,
    perturb.flip_labels,
    perturb.drop_features,
    perturb.noise_features,
]


@pytest.mark.parametrize("damage", EVERY)
def test_same_seed_same_damage_and_the_original_stays(damage):
    before = DATA.features.data.copy(), DATA.labels.copy(), DATA.graph.data.copy()
    assert damage(DATA, 0.3, 1).equals(damage(DATA, 0.3, 1))
    assert not damage(DATA, 0.3, 1).equals(damage(DATA, 0.3, 2))
    assert damage(DATA, 0, 1).equals(DATA)
    after = DATA.features.data, DATA.labels, DATA.graph.data
    assert all(np.array_equal(old, new) for old, new in zip(before, after))
    assert "perturbed" in damage(DATA, 0.3, 1).provenance


@pytest.mark.parametrize("damage", EVERY[:3])
def test_a_bare_graph_is_damaged_in_the_same_way(damage):
    assert edge_set(damage(DATA.graph, 0.3, 1)) == edge_set(damage(DATA, 0.3, 1))


@pytest.mark.parametrize("damage", EVERY)
@pytest.mark.parametrize("share", [-0.1, float("nan")])
def test_a_share_that_is_none_is_refused(damage, share):
    with pytest.raises(InputError, match="share"):
        damage(DATA, share, 0)


def test_more_edges_than_pairs_cannot_be_added():
    with pytest.raises(InputError, match="pairs without an edge"):
        perturb.add_edges(path_graph(4), 2.0)
    with pytest.raises(InputError, match="must have a graph"):
        perturb.delete_edges(DATA.replace(graph=None), 0.5)


def test_several_injuries_are_all_noted():
    twice = perturb.flip_labels(perturb.delete_edges(DATA, 0.5), 0.25)
    assert twice.provenance["perturbed"] == "deleted 0.5 of edges; flipped 0.25 of labels"


def test_one_class_has_no_other_to_flip_to():
    with pytest.raises(InputError, match="two classes"):
        perturb.flip_labels(NodeData.from_arrays(np.eye(2), [0, 0]), 0.5)
