import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine.classifier import Labels
from glnn.engine.fit import fit_problem
from glnn.engine.presets import resolve_settings
from glnn.engine.problem import FitProblem
from glnn.engine.rounds import Rounds
from glnn.exceptions import GlnnError, InputError
from glnn.peers import Partition

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
    assert result.certificate.converged
    assert (result.prior is None) == (not with_graph)
    assert abs(result.adjacency - result.adjacency.T).max() == 0
    assert result.adjacency.data.min() > 0


def test_the_literal_method_gives_a_dense_symmetric_graph_and_no_certificate(problem):
    result = fit_problem(problem, resolve_settings("literal", changes={"n_epochs": 3}), seed=0)
    assert result.certificate is None and result.new_rows is None
    assert abs(result.adjacency - result.adjacency.T).max() == 0
    assert set(result.history.column("stage")) == {"literal"}
    assert "closeness" in result.history[0]


def test_probabilities_are_those_of_the_returned_network(problem):
    result = fit_problem(problem, resolve_settings("paper", changes=FAST), seed=0)
    scores = result.tasks[0].scores().detach().double().softmax(1).numpy()
    np.testing.assert_array_equal(result.probabilities, scores)


def test_a_device_without_room_is_told_in_one_line(problem, monkeypatch):
    def run(rounds, state):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.\n  Tried to allocate 2.00 GiB")

    monkeypatch.setattr(Rounds, "run", run)
    with pytest.raises(GlnnError, match=r"too little memory .*Tried to allocate 2.00 GiB") as told:
        fit_problem(problem, resolve_settings("default"), seed=0)
    assert "\n" not in str(told.value)
    assert str(told.value).endswith("or spread the fit over processes.")


def rows_of(problem, peers):
    """What one of several processes is given of a problem."""
    rows = Partition(60, peers).rows
    own = None if problem.graph is None else problem.graph[rows]
    return dataclasses.replace(problem, features=problem.features[rows], graph=own, peers=peers)


@pytest.mark.parametrize("with_graph", [True, False], ids=["graph", "no graph"])
def test_several_processes_decide_alike_and_have_their_rows(problem, together, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings("default", changes={"n_epochs": 6, "n_rounds": 2})

    def work(peers):
        result = fit_problem(rows_of(problem, peers), settings, seed=0)
        assert result.partition.rows == Partition(60, peers).rows
        assert len(result.probabilities) == result.adjacency.shape[0] == result.partition.n_rows
        parameters = [p.detach() for task in result.tasks for p in task.module.parameters()]
        return result, parameters

    results, parameters = zip(*together(2, work))
    assert all(result.choices == results[0].choices for result in results)
    assert all(list(result.history) == list(results[0].history) for result in results)
    for others in parameters[1:]:
        assert all(torch.equal(p, q) for p, q in zip(parameters[0], others))
    graph = sp.vstack([result.adjacency for result in results])
    assert abs(graph - graph.T).max() == 0
    assert results[0].certificate.converged


@pytest.mark.parametrize("preset", [pytest.param("default", marks=pytest.mark.slow), "paper"])
def test_over_ten_seeds_two_processes_are_as_accurate_as_one(problem, blocks, together, preset):
    features, graph, classes = blocks
    labels = Labels(np.arange(6), classes[:6], 60, 2)
    noisy = FitProblem(features, labels, graph, problem.validation)
    settings = resolve_settings(preset, changes={"n_epochs": 25, "n_rounds": 2, "dropout": 0.6})

    def accuracy_of(seed, size):
        def work(peers):
            return fit_problem(rows_of(noisy, peers), settings, seed=seed).probabilities

        found = np.concatenate(together(size, work)).argmax(1)
        return (found == classes)[28:].mean()

    gains = np.array([accuracy_of(seed, 2) - accuracy_of(seed, 1) for seed in range(10)])
    assert abs(gains.mean()) <= 0.02 + 2 * gains.std() / np.sqrt(10)


def test_the_literal_method_wants_one_process_and_no_checkpoint(problem, tmp_path, together):
    settings = resolve_settings("literal", changes={"n_epochs": 2})
    with pytest.raises(InputError, match="'literal' must run in one process"):
        fit_problem(problem, settings, seed=0, checkpoint=tmp_path)
    with pytest.raises(InputError, match="'literal' must run in one process"):
        together(2, lambda peers: fit_problem(rows_of(problem, peers), settings, seed=0))


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
    assert result.certificate.converged
    assert abs(result.adjacency - result.adjacency.T).max() == 0
    assert result.adjacency.data.min() > 0


def test_who_answers_alone_has_no_temperature(problem):
    settings = resolve_settings("default", changes={"n_epochs": 5, "competes": False})
    assert fit_problem(problem, settings, seed=0).temperatures == (1.0,)


def test_the_graph_of_the_printed_optimiser_has_no_negative_entries(problem):
    result = fit_problem(problem, resolve_settings("literal", changes=FAST), seed=0)
    assert result.tasks[0].adjacency().to_dense().min() < 0  # the network's own matrix has
    assert result.adjacency.min() >= 0
