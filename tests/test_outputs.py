import numpy as np
import pandas as pd
import pytest

from glnn import GLNNClassifier
from glnn.exceptions import NotFittedError


@pytest.fixture(scope="module")
def fitted():
    x = np.random.default_rng(0).normal(size=(20, 3)) + np.repeat([[0.0], [4.0]], 10, 0)
    frame = pd.DataFrame(x, columns=["a", "b", "c"], index=[f"p{k}" for k in range(20)])
    y = np.where(np.arange(20) % 4 == 0, np.repeat([0, 1], 10), -1)
    return GLNNClassifier(n_epochs=10, random_state=0).fit(frame, y), frame


def test_the_network_has_the_learned_graph_under_the_rows_names(fitted):
    clf, frame = fitted
    network = clf.to_networkx()
    assert list(network) == list(frame.index)
    weights = np.zeros((20, 20))
    for one, other, weight in network.edges(data="weight"):
        i, j = frame.index.get_loc(one), frame.index.get_loc(other)
        weights[i, j] = weights[j, i] = weight
    np.testing.assert_allclose(weights, clf.graph_.toarray() * (1 - np.eye(20)), rtol=1e-12)
    classes = [label for _, label in network.nodes(data="class")]
    assert classes == [str(label) for label in clf.transduction_]


def test_the_page_is_written_where_it_is_wanted(fitted, tmp_path):
    path = fitted[0].report(tmp_path / "fit.html")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("call", [lambda clf: clf.to_networkx(), lambda clf: clf.report("x.html")])
def test_nothing_is_given_before_a_fit(call):
    with pytest.raises(NotFittedError):
        call(GLNNClassifier())
