import numpy as np
import pytest

from glnn.data.datasets import BUILT_IN
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import (
    NAMES,
    dataset_title,
    load_cell,
    pubmed_star,
    standard_split,
    take_nodes,
)
from glnn_lab.experiments.splits import make_split


def opened(**fields):
    name = fields.pop("dataset", "block_model")
    split, options = standard_split(name)
    return load_cell(Cell("gcn", name, fields.pop("seed", 0), split, options, **fields))


@pytest.mark.parametrize("name", BUILT_IN)
def test_data_that_come_with_glnn_need_no_file(name):
    data, split = opened(dataset=name)
    assert split.train.size == 5 * data.n_classes


def test_the_seed_draws_the_split():
    first, again, other = (opened(seed=seed)[1] for seed in (0, 0, 1))
    assert first == again
    assert not np.array_equal(first.train, other.train)


@pytest.mark.parametrize(("kind", "factor"), [("delete", 0.5), ("add", 1.5), ("rewire", 1.0)])
def test_edges_are_damaged_and_labels_are_not(kind, factor):
    whole, split = opened()
    data, same = opened(perturbation=kind, share=0.5)
    assert data.n_edges == pytest.approx(factor * whole.n_edges, abs=1)
    assert np.array_equal(data.labels, whole.labels)
    assert same == split
    assert (data.graph != whole.graph).nnz > 0


def test_poisoned_graphs_join_fewer_like_nodes():
    whole, _ = opened()
    data, _ = opened(perturbation="poison", share=0.25)
    assert data.homophily < whole.homophily
    assert np.array_equal(data.labels, whole.labels)


def test_a_graph_can_be_taken_away():
    data, _ = opened(perturbation="no-graph")
    assert data.graph is None


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(InputError, match="Did you mean 'cora'"):
        standard_split("coraa")


def test_every_name_has_a_split_and_a_title():
    assert all(standard_split(name)[0] and dataset_title(name) for name in NAMES)
    assert dataset_title("pubmed-star") == "Pubmed*"
    assert dataset_title("wine") == "wine"


@pytest.mark.dataset
def test_pubmed_star_is_a_sample_of_the_papers_size(published_data):
    cell = Cell("gcn", "pubmed-star", 1, *standard_split("pubmed-star"))
    data, split = load_cell(cell)
    assert (data.n_nodes, split.train.size, split.test.size) == (3000, 60, 1000)


# Pubmed*


def test_the_sample_has_the_papers_sizes_and_remembers_its_nodes():
    data = block_model(4000, 3, seed=0).replace(name="pubmed")
    star = pubmed_star(data, seed=2)
    assert star.n_nodes == 3000
    assert [star.splits[key].size for key in ("train", "val", "test")] == [60, 500, 1000]
    assert np.bincount(star.labels[star.splits["train"]]).tolist() == [20, 20, 20]
    assert np.array_equal(star.labels, data.labels[star.ids])
    assert (star.graph != data.graph[star.ids][:, star.ids]).nnz == 0
    assert star.equals(pubmed_star(data, seed=2))
    assert not star.equals(pubmed_star(data, seed=3))
    assert make_split(star, "paper").train.tolist() == star.splits["train"].tolist()


def test_a_sample_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="n_nodes"):
        pubmed_star(block_model(300, 3))
    with pytest.raises(InputError, match="test on"):
        pubmed_star(block_model(300, 3), n_nodes=60)


def test_induced_keeps_the_edges_between_the_chosen_nodes():
    data = block_model(40, 2, seed=0)
    data = data.replace(splits={"train": np.array([4, 9]), "test": np.array([0, 7])})
    nodes = np.array([4, 0, 3])
    part = take_nodes(data, nodes)
    assert np.array_equal(part.graph.toarray(), data.graph.toarray()[np.ix_(nodes, nodes)])
    assert part.ids.tolist() == [4, 0, 3]
    assert {key: rows.tolist() for key, rows in part.splits.items()} == {"train": [0], "test": [1]}
