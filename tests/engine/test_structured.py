import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.engine.fit import fit_problem
from glnn.engine.model import Model
from glnn.engine.presets import resolve_settings
from glnn.engine.structured import STRUCTURE, structure_of, with_columns, with_structure
from glnn.exceptions import InputError

DEFAULT = resolve_settings("default", changes={"n_epochs": 15})


@pytest.fixture
def alone(problem):
    """The same nodes without features."""
    return dataclasses.replace(problem, features=sp.identity(60, dtype=np.float32, format="csr"))


def test_it_is_chosen_where_features_say_nothing_and_a_graph_is_given(problem, alone):
    assert with_structure(DEFAULT, alone).graph.signal == STRUCTURE
    assert with_structure(DEFAULT, problem) == DEFAULT
    assert with_structure(DEFAULT, dataclasses.replace(alone, graph=None)) == DEFAULT
    assert with_structure(resolve_settings("paper"), alone) == resolve_settings("paper")
    named = resolve_settings("default", changes={"signal": "l2"})
    assert with_structure(named, alone) == named


def test_without_a_graph_it_is_refused(problem):
    settings = resolve_settings("default", changes={"signal": STRUCTURE})
    with pytest.raises(InputError, match="must come with a graph"):
        with_structure(settings, dataclasses.replace(problem, graph=None))


def test_its_rows_are_as_long_as_those_of_the_features(problem):
    _, rows = structure_of(problem, problem.features, 0)
    lengths = np.sqrt(np.asarray(problem.features.multiply(problem.features).sum(1)))
    assert_allclose(np.linalg.norm(rows, axis=1), lengths.mean(), rtol=1e-5)
    joined = with_columns(problem.features, rows)
    assert_allclose(joined.toarray()[:, :20], problem.features.toarray())
    assert_allclose(joined.toarray()[:, 20:], rows, rtol=1e-6)


@pytest.mark.parametrize("head", [None, "linear", "hops"])
def test_a_graph_alone_is_classified_and_new_nodes_by_their_links(alone, blocks, tmp_path, head):
    settings = resolve_settings("default", head, {"n_epochs": 60})
    result = fit_problem(alone, settings, seed=0)
    assert result.choices["signal"] == STRUCTURE
    assert (result.probabilities.argmax(1) == blocks[2])[28:].mean() > 0.85
    model = Model.of(alone.features, result)
    none = sp.csr_matrix((60, 60), dtype=np.float32)
    found = model.predict_new(none, alone.graph)
    assert (found.argmax(1) == blocks[2])[28:].mean() > 0.85
    model.save(tmp_path, {})
    assert_allclose(Model.load(tmp_path)[0].predict_new(none, alone.graph), found)


def test_processes_agree_with_one(alone, together):
    settings = resolve_settings("default", "gcn", {"n_epochs": 5, "dropout": 0.0})
    whole = fit_problem(alone, settings, seed=0)

    def work(peers):
        part = dataclasses.replace(alone, peers=peers).partition
        mine = dataclasses.replace(
            alone, features=alone.features[part.rows], graph=alone.graph[part.rows], peers=peers
        )
        return fit_problem(mine, settings, seed=0).probabilities

    found = np.vstack(together(2, work))
    assert_allclose(found, whole.probabilities, atol=1e-3)


def test_features_without_length_leave_the_structure_its_own(alone):
    empty = np.zeros((alone.labels.n_nodes, 2), dtype=np.float32)
    _, signal = structure_of(alone, empty, 0)
    lengths = np.linalg.norm(signal, axis=1)
    assert_allclose(lengths[lengths > 0], 1.0)
    assert (lengths > 0).any()
