import numpy as np

from glnn.data import induced


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
