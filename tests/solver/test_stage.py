import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.exceptions import InputError, ProblemError
from glnn.graph.row_matrix import DenseRows
from glnn.graph.spread import pair_owners
from glnn.objective import Weights
from glnn.peers import ALONE, Partition
from glnn.solver.inputs import GraphInputs
from glnn.solver.stage import Stage, checked_candidates, given_terms, own_pairs


def test_the_problem_has_the_given_terms_and_its_prior(rng, make_features, make_graph):
    inputs = GraphInputs.read(make_features(9, 3, rng), make_graph(9, rng))
    more = given_terms(inputs.partition, "cpu", None, (0.5, make_graph(9, rng)))
    stage = Stage.of(inputs, Weights(), "channel", more, loops=True, device="cpu")
    names = [term.name for term in stage.problem.objective.parts]
    assert names[-2:] == ["closeness", "proximal"]
    assert stage.problem.curvature == 10.5
    assert len(stage.given) == sp.triu(inputs.prior).nnz


def test_entries_of_which_most_are_stored_lie_dense(rng, make_features):
    inputs = GraphInputs.read(sp.csr_matrix(make_features(9, 3, rng)), None)
    stage = Stage.of(inputs, Weights(ridge=1.0), "trace", [], loops=True, device="cpu")
    assert isinstance(stage.base.own, DenseRows)


def test_a_problem_without_a_minimum_is_refused_before_anything_is_computed(rng, make_features):
    inputs = GraphInputs.read(make_features(9, 3, rng), None)
    with pytest.raises(ProblemError, match="no unique minimum"):
        Stage.of(inputs, Weights(), "trace", [], loops=True, device="cpu")


@pytest.mark.parametrize("bad", [-1, 20])
def test_candidates_outside_the_nodes_are_refused(bad):
    with pytest.raises(InputError, match=r"node numbers in \[0, 20\)"):
        checked_candidates((np.array([0]), np.array([bad])), 20, "cpu")


def test_pairs_that_any_process_names_go_to_their_owners(together):
    ends = torch.randint(0, 40, (2, 100), generator=torch.Generator().manual_seed(0))

    def work(peers):
        part = Partition(40, peers)
        mine = slice(peers.rank, None, peers.size)
        i, j = own_pairs(part, (ends[0][mine], ends[1][mine]))
        assert (pair_owners(part, i, j) == peers.rank).all()
        return list(zip(i.tolist(), j.tolist()))

    found = [pair for part in together(3, work) for pair in part]
    assert sorted(found) == sorted({tuple(sorted(pair)) for pair in ends.T.tolist()})
    assert torch.equal(own_pairs(Partition(40, ALONE), (ends[0], ends[1]))[0], ends[0])


def test_an_earlier_graph_must_be_finite():
    earlier = sp.csr_matrix([[0.0, np.nan], [np.nan, 0.0]])
    with pytest.raises(InputError, match="proximal must have a finite matrix"):
        given_terms(Partition(2, ALONE), "cpu", None, (1.0, earlier))
