import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data.arguments import from_pyg, to_pyg
from glnn.exceptions import InputError

geometric = pytest.importorskip("torch_geometric.data")


@settings(settings.get_profile("records"))
@given(st.data())
def test_pyg_and_back_is_the_identity(records, data):
    record = records(data, sorted_classes=False)
    again = from_pyg(to_pyg(record))
    empty = sp.csr_matrix((record.n_nodes, record.n_nodes))
    graph = empty if record.graph is None else record.graph
    assert again.equals(record.replace(graph=graph, feature_names=None))


def test_pyg_sees_both_directions_and_masks(small):
    data = to_pyg(small)
    assert data.is_undirected()
    assert data.num_edges == 2 * small.n_edges
    assert data.train_mask.nonzero().ravel().tolist() == [0, 1]
    assert data.y.tolist() == small.labels.tolist()
    data.validate()


def test_what_does_not_fit_is_refused(small):
    with pytest.raises(InputError, match="features x"):
        from_pyg(geometric.Data(edge_index=torch.zeros(2, 0, dtype=torch.long)))
    data = to_pyg(small)
    data.train_mask = torch.ones(6, 10, dtype=torch.bool)
    with pytest.raises(InputError, match=r"one dimension.*train_mask\[:, 0\]"):
        from_pyg(data)
