import dataclasses
import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from glnn.engine.fit_problem import FitProblem, FitRecord
from glnn.engine.tasks import Labels, Validation
from glnn.objective import Weights
from glnn.solver import learn_graph
from glnn.solver.attribution import LinkShares, link_shares
from glnn.solver.signals import FeatureSignal

# FitProblem


def test_graph_and_validation_are_optional_and_nothing_can_be_changed(problem):
    bare = FitProblem(problem.features, problem.labels)
    assert bare.graph is None and bare.validation is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        bare.graph = problem.graph


# FitRecord


@pytest.fixture
def problem():
    labels = Labels(np.array([4, 1]), np.array([1, 0]), 6, 2)
    validation = Validation(torch.tensor([3]), torch.tensor([1]))
    return FitProblem(np.zeros((6, 2)), labels, None, validation)


@pytest.fixture
def shares():
    transform = FeatureSignal("idf", 2, np.array([1.0, 2.0]))
    return LinkShares(("closeness", "task"), np.ones((3, 2)), transform, np.array(0.5))


def test_labels_that_train_and_labels_that_choose_are_told_apart(problem):
    record = FitRecord.of(problem, None)
    assert_array_equal(record.labels, [-1, 0, -1, 1, 1, -1])
    assert_array_equal(np.flatnonzero(record.trains), [1, 4])


def test_a_record_comes_back_from_its_arrays(problem, shares):
    record = FitRecord(np.array([0, -1]), np.array([True, False]), shares)
    again = FitRecord.unpack(*record.pack())
    assert_array_equal(again.labels, record.labels)
    assert_array_equal(again.trains, record.trains)
    assert again.shares.names == shares.names
    assert_array_equal(again.shares.values, shares.values)
    assert_array_equal(again.shares.metric, shares.metric)
    assert_array_equal(again.shares.transform.scale, shares.transform.scale)
    assert again.shares.transform.shift is None and again.shares.transform.kind == "idf"


def test_what_made_the_links_is_found_when_it_is_asked_for(problem, monkeypatch):
    learned = learn_graph(np.eye(6) + 1, weights=Weights(smoothness=1.0, ridge=1.0))
    found = []
    monkeypatch.setattr(
        "glnn.engine.fit_problem.link_shares", lambda one: found.append(one) or link_shares(one)
    )
    record = FitRecord.of(problem, learned)
    assert found == []
    assert_allclose(record.shares.values.sum(1), learned.adjacency.data)
    assert pickle.loads(pickle.dumps(record)).shares.names == record.shares.names
    assert found == [learned]


def test_a_record_without_shares_comes_back_without(problem):
    record = FitRecord.of(problem, None)
    assert FitRecord.unpack(*record.pack()).shares is None
