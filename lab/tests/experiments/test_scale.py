import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from glnn.exceptions import InputError
from glnn_lab.experiments.scale import (
    SIZES,
    GraphSize,
    attributed_graph,
    resolve_size,
    size_from_degree,
)

SIZE = size_from_degree(6000, 12, n_classes=8, n_features=32)


@pytest.fixture(scope="module")
def made():
    return attributed_graph(SIZE, seed=3)


def test_sizes_are_exact(made):
    assert (made.n_nodes, made.n_edges) == (6000, 36_000)
    assert (made.n_features, made.n_classes) == (32, 8)
    assert np.unique(made.labels).size == 8
    assert made.features.nnz == 6000 * 32


def test_the_graph_is_simple(made):
    graph = made.graph
    assert (graph.data == 1).all()
    assert not graph.diagonal().any()
    assert (graph != graph.T).nnz == 0


@pytest.mark.parametrize("homophily", [0.2, 0.4, 0.55])
def test_homophily_is_the_wanted_one(homophily):
    data = attributed_graph(dataclasses.replace(SIZE, homophily=homophily))
    assert data.homophily == pytest.approx(homophily, abs=0.01)


def test_without_misfits_any_homophily_can_be_had():
    for homophily in (0.0, 0.5, 1.0):
        size = dataclasses.replace(SIZE, homophily=homophily, misfits=0)
        assert attributed_graph(size).homophily == pytest.approx(homophily, abs=1e-4)


def test_degrees_have_a_heavy_tail(made):
    degrees = np.sort(np.asarray(made.graph.sum(1)).ravel())[::-1]
    assert degrees[:60].sum() > 0.08 * degrees.sum()  # a hundredth of the nodes, 1 % if all alike
    assert degrees[0] > 10 * np.median(degrees)


def test_the_same_seed_gives_the_same_graph_and_another_seed_another(made):
    assert made.equals(attributed_graph(SIZE, seed=3))
    assert not made.equals(attributed_graph(SIZE, seed=4))


def test_features_tell_something_but_not_all(made):
    x, y, split = made.features.toarray(), made.labels, made.splits
    model = LogisticRegression(max_iter=300).fit(x[split["train"]], y[split["train"]])
    right = model.score(x[split["test"]], y[split["test"]])
    assert 0.5 < right < 1 - SIZE.misfits  # the best there is


def test_more_separation_makes_features_tell_more():
    rights = []
    for separation in (1.0, 3.0, 6.0):
        data = attributed_graph(dataclasses.replace(SIZE, separation=separation, misfits=0.0))
        x, y = data.features.toarray(), data.labels
        rights.append(LogisticRegression(max_iter=300).fit(x[:3000], y[:3000]).score(x, y))
    assert rights[0] < rights[1] < rights[2]
    assert rights[2] > 0.9


def test_the_split_has_the_wanted_shares(made):
    counts = {key: nodes.size for key, nodes in made.splits.items()}
    assert counts == {"train": 3000, "val": 1200, "test": 1800}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_nodes": 3}, "n_nodes must be"),
        ({"n_edges": 10**9}, "n_edges must be at most a quarter"),
        ({"train": 0.9, "val": 0.2}, "train .* val must be at most 1"),
        ({"power": 2}, "power must be"),
        ({"homophily": 1.5}, "homophily must be"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(SIZE, **changes)


def test_homophily_that_misfits_do_not_allow_is_refused():
    with pytest.raises(InputError, match=r"homophily must lie in \[0\.\d+, 0\.\d+\] with misfits"):
        attributed_graph(dataclasses.replace(SIZE, homophily=0.9))


def test_more_edges_than_the_classes_can_hold_are_refused():
    crowded = GraphSize(
        n_nodes=200, n_edges=4900, n_classes=20, homophily=0.9, misfits=0.0, n_features=2
    )
    with pytest.raises(InputError, match="Ask for fewer edges or more nodes"):
        attributed_graph(crowded)


def test_a_name_stands_for_a_size_and_any_other_name_needs_nodes():
    assert resolve_size("arxiv-size", n_nodes=None) == SIZES["arxiv-size"]
    assert resolve_size("mine", n_nodes=1000).n_edges == 5000
    with pytest.raises(InputError, match="Did you mean 'arxiv-size'"):
        resolve_size("arxiv-sise")


def test_two_nodes_a_class_are_the_fewest():
    assert size_from_degree(14, 2, n_classes=7).n_nodes == 14
    with pytest.raises(InputError, match="n_nodes must be"):
        size_from_degree(13, 2, n_classes=7)
