import numpy as np
import pytest

from glnn.data.synthetic import blobs, block_model
from glnn.exceptions import InputError


@pytest.mark.parametrize("homophily", [0, 0.3, 1.0])
def test_edges_stay_inside_a_class_as_often_as_asked(homophily):
    data = block_model(5000, 4, homophily=homophily, seed=1)
    assert data.homophily == pytest.approx(homophily, abs=0.02)
    assert 2 * data.n_edges / data.n_nodes == pytest.approx(8, rel=0.02)


def test_same_seed_same_data():
    assert block_model(seed=4).equals(block_model(seed=4))
    assert not blobs(seed=4).equals(blobs(seed=5))


def test_centres_lie_as_far_apart_as_asked():
    data = blobs(20_000, 2, 50, separation=6, seed=0)
    x = data.features.toarray()
    distance = np.linalg.norm(x[data.labels == 0].mean(0) - x[data.labels == 1].mean(0))
    assert distance == pytest.approx(6, rel=0.35)
    assert x[data.labels == 0].std(0).mean() == pytest.approx(1, abs=0.02)


def test_one_class_is_allowed_and_none_is_not():
    assert block_model(10, 1, homophily=0.5).n_classes == 1
    with pytest.raises(InputError, match="n_classes"):
        block_model(10, 0)
    with pytest.raises(InputError, match="n_nodes"):
        blobs(2, 3)
