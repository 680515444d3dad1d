import dataclasses

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose


def test_labels_are_those_given_and_none_elsewhere(fitted_nodes):
    for node in range(fitted_nodes.n_nodes):
        number = fitted_nodes.labels[node]
        expected = None if number < 0 else fitted_nodes.classes[number]
        assert fitted_nodes.label_of(node) == expected


def test_rows_are_features_spread_over_the_graph(fitted_nodes):
    assert_allclose(fitted_nodes.rows(), fitted_nodes.spread(fitted_nodes.features))


def test_columns_count_the_same_for_sparse_features(fitted_nodes):
    ends = np.array([1, 2, 7])
    sparse = dataclasses.replace(fitted_nodes, features=sp.csr_matrix(fitted_nodes.features))
    assert_allclose(sparse.column_shares(0, ends), fitted_nodes.column_shares(0, ends))
