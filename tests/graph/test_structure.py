import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.preprocessing import normalize

from glnn.graph.structure import Structure, says_nothing
from glnn.peers import Partition


@pytest.fixture
def communities():
    """Two communities of 60 nodes, and a node that nobody knows."""
    rng = np.random.default_rng(0)
    same = (np.arange(121) % 2)[:, None] == (np.arange(121) % 2)[None]
    upper = np.triu(rng.random((121, 121)) < np.where(same, 0.2, 0.02), 1)
    upper[:, 120] = False
    return sp.csr_matrix((upper | upper.T).astype(np.float64))


def test_rows_are_those_of_the_leading_eigenvectors(communities):
    degree = np.asarray(communities.sum(1)).ravel()
    root = np.diag((degree + degree.mean()) ** -0.5)
    values, vectors = np.linalg.eigh(root @ communities.toarray() @ root)
    structure, rows = Structure.of(communities)
    width = structure.voices.shape[1]
    order = np.argsort(-np.abs(values))
    leading = order[:2]  # of a clear gap: the iteration has found them whatever comes after
    found = np.linalg.lstsq(structure.voices, root @ vectors[:, leading], rcond=None)[0]
    assert width == 121 // 20
    assert_allclose(structure.voices @ found, root @ vectors[:, leading], atol=1e-6)
    assert_allclose(rows, normalize(communities @ structure.voices), atol=1e-12)


def test_members_of_a_community_are_more_alike(communities):
    _, rows = Structure.of(communities)
    alike = (rows @ rows.T)[:120, :120]
    same = (np.arange(120) % 2)[:, None] == (np.arange(120) % 2)[None]
    assert alike[same].mean() > alike[~same].mean() + 0.3


def test_a_new_node_with_the_links_of_another_has_its_features(communities):
    structure, rows = Structure.of(communities, size=2.5)
    assert_allclose(structure.rows(communities[:7], 7), rows[:7], atol=1e-12)
    assert_allclose(np.linalg.norm(rows[:120], axis=1), 2.5)
    assert_allclose(rows[120], 0)  # nobody speaks for it
    assert_allclose(structure.rows(None, 3), np.zeros((3, structure.voices.shape[1])))


def test_processes_find_the_same_similarities(communities, together):
    _, whole = Structure.of(communities)

    def work(peers):
        part = Partition(121, peers)
        return Structure.of(communities[part.rows], part)[1]

    rows = np.vstack(together(3, work))
    assert_allclose(rows @ rows.T, whole @ whole.T, atol=1e-8)


@pytest.mark.parametrize(
    ("features", "nothing"),
    [
        (sp.identity(5, format="csr"), True),
        (np.eye(5)[[3, 1, 0, 2, 4]] * 7, True),
        (sp.csr_matrix((5, 3)), True),
        (np.full((5, 2), 3.0), True),
        (sp.csr_matrix(np.full((5, 2), -3.0)), True),
        (np.eye(5) + np.eye(5)[::-1], False),
        (sp.csr_matrix(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])), False),
    ],
)
def test_features_say_nothing_if_no_two_rows_share_a_column_or_all_are_equal(features, nothing):
    assert says_nothing(features) is nothing


def test_processes_agree_whether_features_say_nothing(together):
    eye, rows = sp.identity(9, format="csr"), np.arange(9.0)[:, None] // 3

    def work(peers):
        part = Partition(9, peers)
        return says_nothing(eye[part.rows], peers), says_nothing(rows[part.rows], peers)

    assert together(3, work) == [(True, False)] * 3
