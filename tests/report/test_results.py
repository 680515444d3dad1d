import csv
import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn import GLNNClassifier
from glnn.data.npz import write_npz
from glnn.exceptions import DataFormatError, InputError
from glnn.report.results import (
    collect_model_results,
    read_results,
    write_node_predictions,
    write_results,
)


def test_only_labels_that_the_fit_did_not_see_are_judged(results):
    judged = np.flatnonzero(results.judged >= 0)
    np.testing.assert_array_equal(judged, results.split.test)
    assert not results.seen[judged].any()


# Storage


def same(left, right):
    if dataclasses.is_dataclass(left):
        return type(left) is type(right) and all(
            same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left)
        )
    if sp.issparse(left):
        return (left != right).nnz == 0
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or (left != left and right != right)


@pytest.mark.parametrize("which", ["tested_run", "judged_run"])
def test_results_come_back_as_they_were(which, request):
    run = request.getfixturevalue(which)[0]
    back = read_results(run.folder)
    assert same(run.results, back)
    assert back.evaluation.verdict == run.results.evaluation.verdict


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_another_file_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "results.npz").write_bytes(content)
    with pytest.raises(DataFormatError, match=r"results\.npz"):
        read_results(tmp_path)


def test_an_archive_without_our_words_or_with_an_unknown_class_is_refused(tmp_path, results):
    with pytest.raises(InputError, match="must be a run folder of glnn fit"):
        read_results(tmp_path)
    start = b'{"format": "glnn results 1", "results": '
    for words in (b"{}", start + b'{"class": "Path", "fields": {}}}', start + b"3}"):
        np.savez(tmp_path / "results.npz", words=np.frombuffer(words, np.uint8))
        with pytest.raises(DataFormatError):
            read_results(tmp_path)
    write_results(tmp_path / "results.npz", results)
    assert same(read_results(tmp_path), results)


# Predictions as a table


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_row_names_its_likeliest_class_and_its_given_label(results, tmp_path):
    write_node_predictions(tmp_path / "p.csv", results)
    lines, names = rows_of(tmp_path / "p.csv"), np.array(results.class_names)
    assert [line["predicted"] for line in lines] == names[results.predictions].tolist()
    for line in lines:
        assert float(line["probability"]) == max(float(line[f"p({name})"]) for name in names)
    for node, line in enumerate(lines):
        given = names[results.labels[node]] if results.seen[node] else ""
        assert (line["given_label"], line["held_out"]) == (given, "no" if given else "")


def test_labelled_nodes_are_predicted_without_their_label(judged_run):
    run, _, wrong = judged_run
    results, lines = run.results, rows_of(run.folder / "predictions.csv")
    hidden = results.evaluation.held_out.hidden_nodes
    np.testing.assert_array_equal(
        results.probabilities[hidden], results.evaluation.probabilities[hidden]
    )
    assert {lines[node]["held_out"] for node in hidden} == {"yes"}
    assert lines[wrong[0]]["given_label"] == results.class_names[results.labels[wrong[0]]]
    assert lines[0]["id"] == "1000"


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("labels", np.arange(20) / 2),
        ("labels", np.arange(20) + 100),
        ("probabilities", np.ones((20, 5))),
        ("probabilities", np.ones((20, 2), dtype=np.int64)),
        ("split.test", np.array([99])),
        ("split.test", np.array([0.5])),
    ],
)
def test_arrays_of_another_type_or_shape_are_refused(results, tmp_path, name, array):
    write_results(tmp_path / "results.npz", results)
    with np.load(tmp_path / "results.npz") as file:
        arrays = dict(file)
    assert name in arrays
    write_npz(tmp_path / "results.npz", arrays | {name: array})
    with pytest.raises(InputError):
        read_results(tmp_path)


# Results of a fitted classifier


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    features = rng.normal(size=(60, 4)) + 4 * classes[:, None]
    labels = np.where(np.arange(60) < 28, classes, -1)
    model = GLNNClassifier(n_epochs=5, n_rounds=1, random_state=0, tracks=["features"])
    return model.fit(features, labels, ids=[f"n{k}" for k in range(60)]), labels


def test_given_labels_are_known_and_only_hidden_ones_are_judged(fitted):
    model, labels = fitted
    found = collect_model_results(model)
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.seen, labels >= 0)
    np.testing.assert_array_equal(np.flatnonzero(found.held_out), model.held_out_.hidden_nodes)
    assert found.evaluation.confusion.sum() == model.held_out_.hidden_nodes.size


def test_rows_have_their_names_everywhere_and_after_loading_too(fitted, tmp_path):
    model, labels = fitted
    model.save(tmp_path / "m")
    names = [f"n{k}" for k in range(60)]
    for one in (model, GLNNClassifier.load(tmp_path / "m")):
        found = collect_model_results(one)
        assert found.ids.tolist() == names == list(one.to_networkx())
        np.testing.assert_array_equal(found.labels, labels)
        html = one.report(tmp_path / "fit.html").html
        assert html.startswith("<!DOCTYPE html>") and "28 labels, all used for training" in html
    shares = collect_model_results(model).terms.shares
    np.testing.assert_allclose(found.terms.shares, shares)
