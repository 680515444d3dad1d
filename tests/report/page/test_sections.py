import dataclasses
import re

import numpy as np
import scipy.sparse as sp

from glnn.report.page.document import render
from glnn.report.page.sections import (
    block_means,
    error_section,
    learning_section,
    matrix_pictures,
    training_curves,
    verdict_section,
    warning_sentences,
)


def test_bars_lie_on_the_common_scale(make_page):
    page = make_page()
    section = verdict_section(page)
    (low, high), scores = section["scale"], section["scores"]
    verdict = render(page).partition('id="columns"')[0]
    bars = re.findall(r'class="reach" x1="(.*?)" .*? x2="(.*?)".*? class="at" x1="(.*?)"', verdict)
    assert len(bars) == len(scores) > 1
    for score, places in zip(scores, bars):
        one, found = score.metrics["accuracy"], low + np.array(places, float) / 200 * (high - low)
        np.testing.assert_allclose(found, [one.low, one.high, one.value], atol=5e-4)
    assert scores[0].title == "GLNN"
    assert "A remark." in section["warnings"]


def test_a_weak_class_is_warned_of_once(make_page, make_evaluation):
    page = make_page()
    assert [line for line in warning_sentences(page) if "birch" in line]
    nodes, certain = np.flatnonzero(page.labels >= 0), np.tile([0.8, 0.1, 0.1], (120, 1))
    note = "Classes that are never predicted on hidden labels: birch & oak."
    found = make_evaluation(page.class_names, page.labels, certain, nodes, notes=[note])
    warnings = warning_sentences(dataclasses.replace(page, evaluation=found))
    assert [line for line in warnings if "birch" in line] == [note]


def test_a_class_is_weak_though_another_warning_holds_its_letter(results, make_evaluation):
    labels = results.labels
    said = np.where((labels == 0) & (np.arange(20) > 2), 1, labels)
    evaluation = make_evaluation("ab", labels, np.eye(2)[said], np.arange(20))
    page = dataclasses.replace(results, evaluation=evaluation, calibration=None)
    first, weak = warning_sentences(page)
    assert first.startswith("Probabilities are not calibrated")
    assert weak == "Weak class a: only 30 % of its rows are recognised (10 rows)."


def test_nothing_judged_means_no_matrix_and_no_bars(make_page):
    page = dataclasses.replace(make_page(), evaluation=None)
    assert error_section(page)["confusion"] == []
    assert verdict_section(page)["scores"] == ()
    assert verdict_section(page)["warnings"][0].startswith("Probabilities are not calibrated")


# Errors


def test_recall_and_precision_come_from_the_matrix(make_page):
    page = make_page()
    section, counts = error_section(page), page.evaluation.confusion
    shown = [[count for count, _, _ in line["cells"]] for line in section["confusion"]]
    np.testing.assert_array_equal(shown, counts)
    recalls = [line["recall"].value for line in section["confusion"]]
    np.testing.assert_allclose(recalls, np.diag(counts) / counts.sum(1))
    precisions = [one.value for one in section["precisions"]]
    np.testing.assert_allclose(precisions, np.diag(counts) / counts.sum(0))


def test_classes_of_the_matrix_have_their_number_in_the_data(make_page, make_evaluation):
    page = make_page()
    nodes = np.flatnonzero(page.labels > 0)  # the first class is not judged
    parts = page.labels - 1, np.ones((120, 2)) / 2, nodes
    found = make_evaluation(page.class_names[1:], *parts)
    section = error_section(dataclasses.replace(page, evaluation=found))
    assert [line["number"] for line in section["confusion"]] == [1, 2]
    assert [number for _, _, number in section["confusion"][0]["cells"]] == [1, 2]


# How the graph was learned


def test_curves_are_the_stages_of_the_history(results):
    curves = training_curves(results.history)
    assert [name for name, _ in curves] == ["round 1", "round 2"]
    values = [value for _, columns in curves for value in columns["loss"]]
    assert values == [record["loss"] for record in results.history]
    tracks = [{"stage": f"{name}, classifier 1", "epoch": 0, "loss": None} for name in ("a", "b")]
    assert [name for name, _ in training_curves(tracks)] == ["a, round 1", "b, round 1"]


def test_every_round_has_its_picture(make_page):
    section = learning_section(make_page())
    assert section["matrix_names"] == ["given graph", *(f"after round {k}" for k in (1, 2, 3))]
    assert section["matrices"].shape == (4, 120, 120)
    assert section["choices"] == {"given graph": "trusted", "rounds of graph learning": "2"}


def test_blocks_of_one_node_are_the_matrix_itself():
    rng = np.random.default_rng(0)
    graph = rng.random((6, 6))
    order = rng.permutation(6)
    found = block_means(sp.csr_matrix(graph), order, 6)
    np.testing.assert_allclose(found, graph[np.ix_(order, order)])


def test_means_of_blocks_weighted_by_their_size_sum_to_the_weights():
    rng = np.random.default_rng(1)
    graph = sp.random(17, 17, 0.3, random_state=2, format="csr")
    cells = np.bincount(np.arange(17) * 5 // 17)
    found = block_means(graph, rng.permutation(17), 5)
    np.testing.assert_allclose((found * np.outer(cells, cells)).sum(), graph.sum())


def test_links_within_classes_are_blocks_on_the_diagonal():
    classes = np.array([0, 1] * 10)
    graph = sp.csr_matrix((classes[:, None] == classes[None]).astype(float))
    values, starts = matrix_pictures([graph], classes)
    np.testing.assert_array_equal(values[0], np.kron(np.eye(2), np.full((10, 10), 255)))
    assert starts == [0, 10]
