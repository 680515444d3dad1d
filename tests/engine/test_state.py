import dataclasses

import pytest
import scipy.sparse as sp

from glnn.engine.presets import resolve_settings
from glnn.engine.state import FitState

SETTINGS = resolve_settings("default")
START = FitState(SETTINGS.graph, SETTINGS.head, None, 3)


def test_a_state_is_a_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        START.round = 1
    later = START.next_round().next_round()
    assert (START.round, later.round) == (0, 2)


def test_another_graph_problem_has_nothing_solved_and_the_same_round():
    state = START.next_round().changed(adjacency=sp.eye(3, format="csr"), n_rounds=4)
    again = state.restarted(SETTINGS.no_graph, None)
    assert again.graph == SETTINGS.no_graph
    assert (again.round, again.head, again.n_rounds) == (1, state.head, state.n_rounds)
    solved = (again.adjacency, again.learned, again.new_rows, again.trained)
    assert solved == (None, None, None, None)
