import numpy as np
import pytest
import scipy.sparse as sp

from glnn import GLNNClassifier
from glnn.exceptions import InputError
from glnn_lab.experiments.datasets import load_cell
from glnn_lab.experiments.methods import get_method, visible_labels
from glnn_lab.experiments.runner import run_cell
from glnn_lab.experiments.snapshots import choose_picture_nodes, graph_facts, record_graphs


def test_counts_against_the_prior_graph():
    prior = sp.csr_matrix(np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1.0]]))
    graph = prior.toarray()
    graph[0, 1] = graph[1, 0] = 0.0  # lost
    graph[0, 3] = graph[3, 0] = 0.5  # new, equal classes
    graph[1, 3] = graph[3, 1] = 0.5  # new, other class
    facts = graph_facts(graph, prior, np.array([0, 1, 1, 0]))
    counts = {k: facts[k] for k in ("n_edges", "n_new", "n_lost", "equal_new", "n_new_labelled")}
    assert counts == {
        "n_edges": 3,
        "n_new": 2,
        "n_lost": 1,
        "equal_new": 1,
        "n_new_labelled": 2,
    }
    assert facts["distance"] == pytest.approx(np.sqrt(3 / 8), abs=1e-6)
    assert facts["sparsity"] == 0.5
    assert graph_facts(sp.csr_matrix(graph), prior, np.array([0, 1, 1, 0])) == facts


def test_the_prior_graph_is_at_no_distance_from_itself():
    prior = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    facts = graph_facts(prior, prior, np.array([-1, 0]), np.array([1, 0]))
    assert (facts["distance"], facts["n_new"], facts["n_lost"]) == (0.0, 0, 0)
    assert facts["picture"] == [[0.0, 1.0], [1.0, 0.0]]


def test_the_picture_shows_thirty_nodes_sorted_by_class(small_cell):
    data, _ = load_cell(small_cell())
    nodes = choose_picture_nodes(data)
    assert len(set(nodes.tolist())) == 30
    assert (np.diff(data.labels[nodes]) >= 0).all()


def test_rounds_end_with_the_graph_of_the_fit(small_cell, monkeypatch):
    monkeypatch.setattr("glnn.engine.rounds.NEGLIGIBLE", 0.0)  # few epochs give up no track
    cell = small_cell("glnn", probe="adjacency")
    data, split = load_cell(cell)
    outcome, steps = record_graphs(cell, data, split)
    model = GLNNClassifier(random_state=cell.seed, n_epochs=5)
    model.fit(data.features, visible_labels(data, split), data.graph, split.val)
    assert [(s["step"], s["number"]) for s in steps][:2] == [("given", 0), ("round", 1)]
    nodes = np.array(steps[0]["nodes"])
    expected = model.graph_.toarray()[np.ix_(nodes, nodes)]
    assert np.allclose(steps[-1]["picture"], expected, atol=1e-3)
    assert np.array_equal(outcome.classes, model.transduction_)
    assert outcome.n_epochs == model.n_iter_


def test_the_literal_method_is_seen_at_the_papers_epochs(small_cell):
    cell = small_cell("glnn-literal", probe="adjacency", settings={"n_epochs": 16})
    steps = run_cell(cell)["snapshots"]
    assert [(s["step"], s["number"]) for s in steps] == [
        ("given", 0),
        ("epoch", 1),
        ("epoch", 5),
        ("epoch", 15),
    ]
    start = np.array(steps[1]["picture"])
    assert start.min() >= 0
    assert start.max() <= 1
    assert steps[1]["sparsity"] < 0.1


def test_the_literal_method_is_the_one_that_is_fitted(small_cell):
    cell = small_cell("glnn-literal", probe="adjacency", settings={"n_epochs": 5})
    data, split = load_cell(cell)
    outcome, steps = record_graphs(cell, data, split)
    last = steps[-1]
    chosen = get_method("glnn-literal").run(data, split, cell.seed, {"n_epochs": 5})
    assert np.array_equal(outcome.classes, chosen.classes)
    assert outcome.n_epochs == chosen.n_epochs
    without_choice = type(split)(split.train, np.empty(0, dtype=int), split.test, name="x")
    model = get_method("glnn-literal").run(data, without_choice, cell.seed, {"n_epochs": 5}).model
    nodes = np.array(last["nodes"])
    expected = model.graph_.toarray()[np.ix_(nodes, nodes)]
    assert np.allclose(np.maximum(last["picture"], 0), expected, atol=1e-3)


def test_pictures_are_kept_for_the_first_seed_only(small_cell):
    cell = small_cell("glnn-literal", 1, probe="adjacency", settings={"n_epochs": 1})
    assert all("picture" not in step for step in run_cell(cell)["snapshots"])


def test_only_learned_graphs_can_be_watched(small_cell):
    cell = small_cell("gcn", probe="adjacency")
    with pytest.raises(InputError, match="glnn-literal"):
        record_graphs(cell, *load_cell(cell))
