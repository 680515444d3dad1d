import inspect
import tarfile
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import torch

torch.set_num_threads(1)  # the tests' tensors are tiny, and two test processes share two cores


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


@pytest.fixture(scope="session", autouse=True)
def _estimators_take_anything():
    """scikit-learn's contract is to take any parameter, and to check it in ``fit``."""
    from glnn.estimator import GLNNClassifier, suggest_parameters

    GLNNClassifier.__init__ = suggest_parameters(inspect.unwrap(GLNNClassifier.__init__))


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def block_problem(n_nodes=90, n_classes=3, *, seed=0, n_isolated=0, inside=0.25, across=0.02):
    """Nodes in blocks: links and words mostly within a block; one label in five is visible."""
    from glnn.quality.rivals import NodeProblem

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


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    def is_bad_input(self, *words):
        """One line on the error stream, exit code 2, and the words that help."""
        assert self.code == 2, self
        assert self.err.startswith("glnn: error: ")
        assert self.err.count("\n") == 1
        for word in words:
            assert word in self.err
        return True


@pytest.fixture
def glnn(capsys):
    from glnn.cli.main import main

    def run(*args):
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


def built_files(project, kind, folder):
    """Build a distribution as pip would; return its archive and the paths of its files in it."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    builder = {"sdist": SdistBuilder, "wheel": WheelBuilder}[kind](str(project))
    (archive,) = builder.build(directory=str(folder), versions=["standard"])
    if kind == "wheel":
        with zipfile.ZipFile(archive) as file:
            return archive, file.namelist()
    with tarfile.open(archive) as file:
        return archive, [name.partition("/")[2] for name in file.getnames()]


@pytest.fixture
def built(tmp_path):
    return lambda project, kind: built_files(project, kind, tmp_path)
