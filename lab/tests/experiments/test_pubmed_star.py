import numpy as np
import pytest

from glnn.data import make_split
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError
from glnn_lab.experiments.pubmed_star import pubmed_star


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
