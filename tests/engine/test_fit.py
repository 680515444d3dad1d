import dataclasses

import numpy as np
import pytest
import torch

from glnn.engine.fit import fit_problem
from glnn.engine.presets import resolve_settings
from glnn.engine.rounds import Rounds
from glnn.exceptions import GlnnError

FAST = {"n_epochs": 60}


def accuracy(result, blocks):
    return (result.probabilities.argmax(1) == blocks[2])[28:].mean()


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_two_communities_are_told_apart_with_a_certified_graph(problem, blocks, preset, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    result = fit_problem(problem, resolve_settings(preset, changes=FAST), seed=0)
    assert accuracy(result, blocks) > 0.8
    assert result.learned.certificate.converged
    assert (result.prior is None) == (not with_graph)
    assert abs(result.adjacency - result.adjacency.T).max() == 0
    assert result.adjacency.data.min() > 0


def test_the_literal_method_gives_a_dense_symmetric_graph_and_no_certificate(problem):
    result = fit_problem(problem, resolve_settings("literal", changes={"n_epochs": 3}), seed=0)
    assert result.learned is None and result.rows is None
    assert abs(result.adjacency - result.adjacency.T).max() == 0
    assert set(result.history.column("stage")) == {"literal"}
    assert "closeness" in result.history[0]


def test_probabilities_are_those_of_the_returned_network(problem):
    result = fit_problem(problem, resolve_settings("paper", changes=FAST), seed=0)
    scores = result.task.scores().detach().double().softmax(1).numpy()
    np.testing.assert_array_equal(result.probabilities, scores)


def test_a_device_without_room_is_told_in_one_line(problem, monkeypatch):
    def run(rounds):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.\n  Tried to allocate 2.00 GiB")

    monkeypatch.setattr(Rounds, "run", run)
    with pytest.raises(GlnnError, match=r"too little memory .*Tried to allocate 2.00 GiB") as told:
        fit_problem(problem, resolve_settings("default"), seed=0)
    assert "\n" not in str(told.value)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_a_fit_on_the_gpu_tells_them_apart_too(problem, blocks, preset, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings(preset, changes=FAST)
    result = fit_problem(problem, settings, seed=0, device="cuda")
    assert accuracy(result, blocks) > 0.8
    assert result.learned.certificate.converged
    assert abs(result.adjacency - result.adjacency.T).max() == 0
    assert result.adjacency.data.min() > 0
