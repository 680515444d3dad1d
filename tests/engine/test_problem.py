import dataclasses

import pytest

from glnn.engine.problem import FitProblem


def test_graph_and_validation_are_optional_and_nothing_can_be_changed(problem):
    bare = FitProblem(problem.features, problem.labels)
    assert bare.graph is None and bare.validation is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        bare.graph = problem.graph
