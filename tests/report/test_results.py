import csv
import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.engine.folds import make_folds
from glnn.quality.estimate import estimate
from glnn.quality.folds import hold_out
from glnn.quality.rivals import NodeProblem
from glnn.report.results import (
    GraphFacts,
    HoldoutScores,
    Score,
    accuracy,
    edge_endpoints,
    merge_held_out,
    write_node_predictions,
)

# Results


def test_predictions_are_class_numbers_of_the_largest_probability(results):
    np.testing.assert_array_equal(
        results.predictions, results.classes[results.probabilities.argmax(1)]
    )


def test_accuracy_counts_right_nodes_of_a_part(results):
    everyone = np.arange(20)
    assert accuracy(results.predictions, results.data.labels, everyone) == 19 / 20
    parts = [results.accuracy(part) for part in ("train", "test")]
    sizes = [results.split.train.size, results.split.test.size]
    assert np.dot(parts, sizes) == 19


def test_an_empty_part_has_no_accuracy(results):
    assert results.accuracy("val") is None


def test_class_names_follow_the_columns(results):
    assert results.class_names == list(results.data.class_names)


# Scores on test nodes

RNG = np.random.default_rng(0)
LABELS = np.arange(300) % 3


def answers(share_right):
    """Sure answers, of which so many are right."""
    said = np.where(RNG.random(300) < share_right, LABELS, (LABELS + 1) % 3)
    return 0.7 * np.eye(3)[said] + 0.1


def score(share_right, name="svm"):
    return Score(name.upper(), None, 1.0, probabilities=answers(share_right), name=name)


def test_answers_at_random_are_no_better_than_chance():
    noise = HoldoutScores.of(LABELS, RNG.dirichlet(np.ones(3), 300), np.arange(3), 3)
    assert noise.verdict.kind == "chance"
    assert not noise.verdict.beats_chance


@pytest.mark.parametrize(("other", "kind"), [(0.99, "rival"), (0.8, "level"), (0.5, "good")])
def test_a_compared_method_is_told_apart_node_by_node(other, kind):
    found = HoldoutScores.of(LABELS, answers(0.8), np.arange(3), 3, [score(other)])
    assert found.verdict.kind == kind
    assert "SVM" in found.verdict.sentence


def test_the_largest_class_alone_is_no_rival_and_who_was_not_run_is_left_out():
    others = [score(0.99, "majority"), Score("none", None, 0.0, "not installed")]
    found = HoldoutScores.of(LABELS, answers(0.8), np.arange(3), 3, others)
    assert [other.name for other in found.others] == ["majority"]
    assert found.verdict.kind == "good"


def test_nodes_of_a_class_that_had_no_label_count_as_mistakes():
    said = np.tile([0.9, 0.1], (300, 1))  # the third class, always
    found = HoldoutScores.of(LABELS, said, np.array([2, 0]), 3, [score(1.0)])
    assert set(found.own.predictions.predicted.tolist()) == {2}
    assert found.own.metrics["accuracy"].value == pytest.approx(1 / 3)
    assert found.others[0].metrics["accuracy"].value == 1.0
    assert found.others[0].difference.value == pytest.approx(-2 / 3)


def test_what_is_written_of_a_score_is_plain():
    found = Score("SVM", 0.5, 1.0, probabilities=answers(0.5), name="svm").to_dict()
    assert found == {"method": "SVM", "accuracy": 0.5, "seconds": 1.0, "note": ""}


# Statistics of a graph


def random_graph(n=30, seed=0):
    upper = sp.triu(sp.random(n, n, 0.15, random_state=seed), k=0)
    return sp.csr_matrix(upper + sp.triu(upper, k=1).T)


def test_edges_are_listed_once_and_rebuild_the_graph():
    graph = random_graph()
    i, j = edge_endpoints(graph)
    assert (i < j).all()
    rebuilt = np.zeros(graph.shape)
    rebuilt[i, j] = rebuilt[j, i] = 1
    np.fill_diagonal(rebuilt, graph.diagonal() != 0)
    np.testing.assert_array_equal(rebuilt, graph.toarray() != 0)


def test_counts_agree_with_the_dense_matrix():
    graph = random_graph()
    labels = np.arange(30) % 3
    labels[::5] = -1
    facts = GraphFacts.of(graph, labels, given=random_graph(seed=1))
    linked = graph.toarray() != 0
    off = linked & ~np.eye(30, dtype=bool)
    known = off & (labels[:, None] >= 0) & (labels[None] >= 0)
    given = (random_graph(seed=1).toarray() != 0) & ~np.eye(30, dtype=bool)
    assert facts.n_edges == off.sum() / 2
    assert facts.n_loops == np.diag(linked).sum()
    assert facts.mean_degree == off.sum(1).mean()
    assert facts.n_isolated == (off.sum(1) == 0).sum()
    assert facts.n_labelled_edges == known.sum() / 2
    assert facts.equal_labels == (labels[:, None] == labels[None])[known].mean()
    ends = np.repeat(labels, known.sum(1))  # a node as often as it has counted edges
    pairs = ends[:, None] == ends[None]
    assert np.isclose(facts.equal_by_chance, pairs.mean())
    assert facts.n_given == given.sum() / 2
    assert facts.n_kept == (given & off).sum() / 2
    assert facts.n_added == (off & ~given).sum() / 2


def test_a_graph_without_edges_has_no_shares():
    facts = GraphFacts.of(sp.csr_matrix((3, 3)), np.array([0, 1, -1]))
    assert (facts.n_edges, facts.n_isolated, facts.n_components) == (0, 3, 3)
    assert facts.equal_labels is None
    assert facts.equal_by_chance is None
    assert facts.to_dict()["n_labelled_edges"] == 0


# Predictions as a table


@pytest.fixture
def judged(results):
    """The results with every label given, each judged by fits that say 0.7 for the other class."""
    data = results.data
    none = np.empty(0, np.int64)
    split = dataclasses.replace(results.split, train=np.arange(20), test=none)
    problem = NodeProblem(data.features, None, data.labels, np.arange(20))
    wrong = 0.3 + 0.4 * np.eye(2)[1 - data.labels]
    folds = make_folds(data.labels, 2, 0)
    held_out = hold_out(lambda hidden: wrong, data.labels, folds)
    found = estimate(problem, held_out, folds, np.array([0, 1]))
    return dataclasses.replace(results, split=split, estimate=found)


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_labelled_nodes_are_predicted_without_their_label(judged):
    probabilities, held_out = merge_held_out(judged)
    assert held_out.all()
    np.testing.assert_array_equal(probabilities, judged.estimate.probabilities)


def test_given_labels_are_kept_beside_what_contradicts_them(judged, tmp_path):
    write_node_predictions(tmp_path / "p.csv", judged)
    lines = rows_of(tmp_path / "p.csv")
    assert [line["given_label"] for line in lines[::19]] == list(judged.data.class_names)
    assert {line["held_out"] for line in lines} == {"yes"}


def test_without_an_estimate_labels_were_seen_and_others_are_empty(results, tmp_path):
    write_node_predictions(tmp_path / "p.csv", results)
    lines = rows_of(tmp_path / "p.csv")
    told = [line["held_out"] for line in lines]
    assert [told[node] for node in results.split.train] == ["no"] * 4
    assert [told[node] for node in results.split.test] == [""] * 16
    assert all(lines[node]["given_label"] == "" for node in results.split.test)


def test_every_row_names_its_likeliest_class(results, tmp_path):
    write_node_predictions(tmp_path / "p.csv", results)
    lines, names = rows_of(tmp_path / "p.csv"), np.array(results.class_names)
    assert [line["predicted"] for line in lines] == names[results.probabilities.argmax(1)].tolist()
    assert len({line["predicted"] for line in lines}) == 2
    for line in lines:
        assert float(line["probability"]) == max(float(line[f"p({name})"]) for name in names)
