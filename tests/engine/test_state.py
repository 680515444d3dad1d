import dataclasses

import pytest
import scipy.sparse as sp

from glnn.engine.presets import resolve_settings
from glnn.engine.state import FitState, Solution
from glnn.peers import Partition
from glnn.solver import learn_graph

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


def test_at_first_nothing_is_doubted_and_nothing_is_softened():
    assert (START.doubt, START.temperature, START.round) == (0.0, 1.0, 0)


def test_a_part_of_a_graph_is_not_kept_for_explanations(together, blocks):
    features, graph = blocks[0], blocks[1]

    def work(peers):
        rows = Partition(60, peers).rows
        return Solution.of(learn_graph(features[rows], graph[rows], peers=peers)).learned is None

    assert together(1, work) == [False]
    assert together(2, work) == [True, True]
