import numpy as np
import pytest
import scipy.sparse as sp
import torch


@pytest.fixture(autouse=True)
def _names_of_docstring_examples(doctest_namespace):
    from glnn.graph import DenseAdjacency, SparseAdjacency

    doctest_namespace.update(
        np=np,
        sp=sp,
        torch=torch,
        DenseAdjacency=DenseAdjacency,
        SparseAdjacency=SparseAdjacency,
    )


def block_problem(n_nodes=90, n_classes=3, *, seed=0, n_isolated=0, inside=0.25, across=0.02):
    """Nodes in blocks: links and words mostly within a block; one label in five is visible."""
    from glnn.quality.plain import NodeProblem

    rng = np.random.default_rng(seed)
    truth = np.arange(n_nodes) % n_classes
    same = truth[:, None] == truth
    upper = np.triu(rng.random((n_nodes, n_nodes)) < np.where(same, inside, across), 1)
    if n_isolated:
        upper[:n_isolated] = upper[:, :n_isolated] = False
    own = np.repeat(np.eye(n_classes), 6, 1)[truth]
    words = rng.random((n_nodes, own.shape[1])) < 0.15 + 0.35 * own
    words[:, 0] |= ~words.any(1)
    order = rng.permutation(n_nodes)
    train = np.concatenate([order[truth[order] == c][:6] for c in range(n_classes)])
    rest = np.setdiff1d(order, train)
    validation = rest[::4]
    graph = sp.csr_matrix((upper | upper.T).astype(float))
    features = sp.csr_matrix(words.astype(np.float32))
    problem = NodeProblem(features, graph, truth, train, validation, n_classes)
    return problem, truth, np.setdiff1d(rest, validation)


@pytest.fixture
def make_blocks():
    return block_problem


@pytest.fixture
def blocks():
    return block_problem()
