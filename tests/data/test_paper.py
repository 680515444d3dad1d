import numpy as np
import pytest

from glnn.data import induced, load_dataset, make_split, pubmed_star
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError


def test_induced_keeps_the_edges_between_the_chosen_nodes(small):
    nodes = np.array([4, 0, 3])
    part = induced(small, nodes)
    assert np.array_equal(part.graph.toarray(), small.graph.toarray()[np.ix_(nodes, nodes)])
    assert part.ids.tolist() == small.ids[nodes].tolist()
    assert part.labels.tolist() == [0, 0, 1]
    assert {key: rows.tolist() for key, rows in part.splits.items()} == {
        "train": [1],
        "val": [2],
        "test": [0],
    }


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


@pytest.mark.dataset
def test_pubmed_star_of_the_published_set(published):
    star = pubmed_star(load_dataset("pubmed"), seed=0)
    assert (star.n_nodes, star.n_classes, star.n_features) == (3000, 3, 500)
    assert [star.splits[key].size for key in ("train", "val", "test")] == [60, 500, 1000]
