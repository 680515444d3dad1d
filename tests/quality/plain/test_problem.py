import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import GraphWarning, InputError
from glnn.quality.plain.problem import NodeProblem


def tiny(**changes):
    given = {
        "features": np.eye(4),
        "graph": None,
        "labels": np.array([0, 1, 2, 1]),
        "train": np.array([0, 1]),
        "validation": np.array([3]),
        "n_classes": 3,
    }
    return NodeProblem(**(given | changes))


def test_labels_outside_training_and_validation_are_hidden():
    assert tiny().labels.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": np.array([], dtype=int)}, "at least one"),
        ({"validation": np.array([0])}, "must not share"),
        ({"labels": np.array([0, -1, 0, 0])}, "0 or more"),
        ({"labels": np.array([0, 1])}, "one for each of the 4 nodes"),
        ({"n_classes": 1}, "n_classes must be at least 2"),
        ({"graph": sp.eye(3)}, "one row for each of the 4 nodes"),
        ({"features": np.full((4, 2), np.nan)}, "finite"),
    ],
)
def test_a_wrong_problem_is_refused_in_one_line(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        tiny(**changes)
    assert "\n" not in str(caught.value)


def test_a_one_way_graph_is_made_symmetric_and_said():
    one_way = sp.csr_matrix(([1.0], ([0], [1])), shape=(4, 4))
    with pytest.warns(GraphWarning, match="not symmetric"):
        problem = tiny(graph=one_way)
    assert problem.graph[1, 0] == problem.graph[0, 1] == 1


def test_without_validation_there_is_no_validation_set():
    assert tiny(validation=np.empty(0, dtype=int)).validation_set() is None
    assert tiny().validation_set().labels.tolist() == [1]
