import numpy as np
import pytest
import torch

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data
from torch_geometric.transforms import Compose, ToUndirected
from torch_geometric.utils import to_scipy_sparse_matrix

from glnn import GLNNClassifier
from glnn.pyg import GLNNTransform


@pytest.fixture
def data():
    """Thirty nodes of two kinds on a ring; every fifth trains, every fifth is for the test."""
    kind = torch.arange(30) % 2
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)) + 3.0 * kind[:, None]
    steps = torch.arange(30)
    ring = torch.stack([steps, (steps + 1) % 30])
    masks = {f"{name}_mask": steps % 5 == k for k, name in enumerate(("train", "val", "test"))}
    return Data(x=x, y=kind, edge_index=ring, edge_attr=torch.ones(30, 2), **masks)


ESTIMATOR = GLNNClassifier(n_epochs=10, random_state=0)


def test_edges_are_those_of_the_estimator_up_to_one_factor(data):
    learned = GLNNTransform(ESTIMATOR)(data)
    found = to_scipy_sparse_matrix(learned.edge_index, learned.edge_weight, 30).toarray()
    expected = ESTIMATOR.fit(data).graph_.toarray() * (1 - np.eye(30))
    np.testing.assert_allclose(found, expected / expected[expected > 0].mean(), rtol=1e-6)
    raw = GLNNTransform(ESTIMATOR, scale=False)(data)
    np.testing.assert_allclose(
        to_scipy_sparse_matrix(raw.edge_index, raw.edge_weight, 30).toarray(), expected, rtol=1e-6
    )


def test_hidden_labels_make_no_difference(data):
    hidden = data.clone()
    seen = data.train_mask | data.val_mask
    hidden.y[~seen] = 1 - hidden.y[~seen]
    one, other = GLNNTransform(ESTIMATOR)(data), GLNNTransform(ESTIMATOR)(hidden)
    assert torch.equal(one.edge_index, other.edge_index)
    assert torch.equal(one.edge_weight, other.edge_weight)


def test_the_data_are_left_alone_and_the_rest_is_kept(data):
    before = data.clone()
    learned = Compose([ToUndirected(), GLNNTransform(ESTIMATOR)])(data)
    assert torch.equal(data.edge_index, before.edge_index) and data.edge_attr is not None
    assert learned.edge_attr is None and learned.is_undirected()
    assert torch.equal(learned.x, data.x) and torch.equal(learned.test_mask, data.test_mask)
