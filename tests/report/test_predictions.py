import csv
import dataclasses

import numpy as np
import pytest

from glnn.quality.estimate import estimate
from glnn.quality.plain import NodeProblem
from glnn.report.predictions import shown_probabilities, write_node_predictions


@pytest.fixture
def judged(results):
    """The results with every label given, each judged by fits that say 0.7 for the other class."""
    data = results.data
    none = np.empty(0, np.int64)
    split = dataclasses.replace(results.split, train=np.arange(20), test=none)
    problem = NodeProblem(data.features, None, data.labels, np.arange(20))
    wrong = 0.3 + 0.4 * np.eye(2)[1 - data.labels]
    found = estimate(problem, lambda hidden: wrong, np.array([0, 1]), n_folds=2, compared=())
    return dataclasses.replace(results, split=split, estimate=found)


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_labelled_nodes_are_predicted_without_their_label(judged):
    probabilities, held_out = shown_probabilities(judged)
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
