import numpy as np
import pytest
from sklearn import datasets

from glnn.data.embedded import EMBEDDED
from glnn.data.registry import DATASETS


@pytest.mark.parametrize("name", ["digits", "wine", "breast_cancer"])
def test_tables_of_scikit_learn_come_as_they_are(name):
    data = EMBEDDED[name]()
    bunch = getattr(datasets, f"load_{name}")()
    assert np.array_equal(data.features.toarray(), bunch.data.astype(np.float32))
    assert data.labels.tolist() == bunch.target.tolist()
    assert data.graph is None
    assert len(data.feature_names) == data.n_features


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_listed_counts_are_true(name):
    data, info = EMBEDDED[name](), DATASETS[name]
    found = (data.n_nodes, data.n_edges, data.n_features, data.n_classes)
    assert found == (info.n_nodes, info.n_edges, info.n_features, info.n_classes)
    assert data.name == name
