import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.engine.callbacks import History
from glnn.quality.metrics import Interval, ScoredPredictions
from glnn.report.page.page_data import PageMeasure, PageMethod
from glnn.report.page.sections import (
    block_means,
    build_learning,
    count_changes,
    describe_choices,
    error_section,
    evaluation_from_folds,
    evaluation_from_test,
    format_lead,
    format_number,
    format_share,
    interval_measure,
    interval_scale,
    map_section,
    matrix_pictures,
    sort_by_class,
    training_curves,
    verdict_section,
    weak_classes,
)
from glnn.report.page.subset import select_subset
from glnn.report.results import HoldoutScores, Score


def test_bars_lie_on_the_common_scale(make_page):
    section = verdict_section(make_page())
    low, high = section["scale"]
    for bar in section["bars"]:
        assert bar["low"] <= bar["at"] <= bar["high"]
        np.testing.assert_allclose(
            low + bar["at"] * (high - low), bar["method"].accuracy.value, atol=1e-4
        )


def test_a_weak_class_is_warned_of_once(make_page):
    evaluation = make_page().evaluation
    assert [line for line in weak_classes(evaluation) if "birch" in line]
    told = dataclasses.replace(evaluation, warnings=("birch & oak is never predicted",))
    assert weak_classes(told) == []


def test_recall_and_precision_without_intervals_come_from_the_matrix(make_page):
    page = make_page()
    bare = dataclasses.replace(page.evaluation, classes=())
    section = error_section(dataclasses.replace(page, evaluation=bare))
    counts = page.evaluation.confusion
    recalls = [line["recall"].value for line in section["confusion"]]
    np.testing.assert_allclose(recalls, np.diag(counts) / counts.sum(1))
    precisions = [one.value for one in section["precisions"]]
    np.testing.assert_allclose(precisions, np.diag(counts) / counts.sum(0))


def test_nothing_judged_means_no_matrix_and_no_verdict(make_page):
    page = dataclasses.replace(make_page(), evaluation=None)
    assert error_section(page)["confusion"] == []
    assert verdict_section(page)["bars"] == []


def test_warnings_of_the_page_are_said_measured_or_not_and_name_weak_classes_once(make_page):
    page = dataclasses.replace(make_page(), warnings=("birch & oak is never predicted",))
    assert verdict_section(page)["warnings"][-1] == page.warnings[0]
    bare = dataclasses.replace(page, evaluation=None)
    assert verdict_section(bare)["warnings"] == list(page.warnings)


def test_the_map_counts_every_link_once(make_page):
    page = make_page()
    shown = select_subset(page)
    assert sum(map_section(page, shown)["fates"]) == len(shown.links)


# The evaluation


@pytest.fixture
def judged():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 90)
    probabilities = rng.dirichlet(np.ones(3), 90) + 2 * np.eye(3)[classes] * (
        rng.random((90, 1)) < 0.8
    )
    return ScoredPredictions(classes, probabilities / probabilities.sum(1, keepdims=True))


def shown_of(judged, others=()):
    tested = HoldoutScores.of(judged.classes, judged.probabilities, np.arange(3), 3, others)
    return evaluation_from_test(tested, ["a", "b", "c"])


def test_the_confusion_matrix_counts_every_judged_node(judged):
    shown = shown_of(judged)
    np.testing.assert_array_equal(shown.confusion.sum(1), np.bincount(judged.classes))
    right = (judged.predicted == judged.classes).mean()
    assert np.trace(shown.confusion) / 90 == pytest.approx(right)
    assert shown.methods[0].accuracy.value == pytest.approx(right)


def test_bins_of_confidence_hold_every_node_and_their_mean_is_the_accuracy(judged):
    bins = shown_of(judged).reliability
    counts = np.array([n for _, _, n in bins])
    assert counts.sum() == 90
    right = np.array([share for _, share, _ in bins])
    assert counts @ right / 90 == pytest.approx((judged.predicted == judged.classes).mean())


def test_recall_is_the_diagonal_over_the_row(judged):
    shown = shown_of(judged)
    recalls = [one.recall.value for one in shown.classes]
    np.testing.assert_allclose(recalls, np.diag(shown.confusion) / shown.confusion.sum(1))


def test_of_no_node_there_is_no_share():
    classes = np.arange(30) % 2  # the third class has no node, the second is never predicted
    shown = shown_of(ScoredPredictions(classes, np.tile([0.8, 0.1, 0.1], (30, 1))))
    first, second, third = shown.classes
    assert first.recall.value == 1.0 and first.precision.value == 0.5
    assert second.recall.value == 0.0 and second.recall.high < 1.0
    assert second.precision == PageMeasure("precision", None)
    assert third.precision == PageMeasure("precision", None)
    assert third.recall == PageMeasure("recall", None)
    assert format_share(third.recall) == "–"


def test_other_methods_stand_after_our_own(judged):
    other = Score("plain", 1.0, 0.0, probabilities=np.eye(3)[judged.classes], name="plain")
    shown = shown_of(judged, [other])
    assert [method.is_own for method in shown.methods] == [True, False]
    assert shown.methods[1].accuracy.value == 1.0
    assert shown.tone == "caution"


def test_what_is_not_known_is_left_out():
    assert interval_measure("x", Interval(0.5, math.nan, math.nan)) == PageMeasure("x", 0.5)


def test_a_class_without_a_label_has_an_empty_row_in_its_place(judged_run):
    estimate = judged_run[1].estimate
    names = [str(label) for label in estimate.classes]
    whole = evaluation_from_folds(estimate, names).confusion
    found = evaluation_from_folds(estimate, [names[0], "unseen", *names[1:]]).confusion
    assert not found[1].any() and not found[:, 1].any()
    kept = [0, 2, 3]
    np.testing.assert_array_equal(found[np.ix_(kept, kept)], whole)


# Formatting of numbers


@pytest.mark.parametrize("write", [format_share, format_lead, format_number])
def test_an_unknown_number_is_a_dash(write):
    assert write(PageMeasure("x", None)) == "–"


def test_the_scale_holds_every_interval_and_all_without_a_number():
    methods = tuple(
        PageMethod(str(k), PageMeasure("accuracy", v, v - 0.07, v + 0.04))
        for k, v in enumerate((0.5, 0.96))
    )
    assert interval_scale(methods) == (0.4, 1.0)
    assert interval_scale(()) == (0.0, 1.0)


# How the graph was learned


def test_the_certificate_is_told_in_sentences(results):
    learning = build_learning(results.history, results.certificate, {"n_rounds": 2})
    assert "best one for its objective" in learning.certificate[0]
    assert len(learning.curves) == 2


def test_stages_follow_each_other_and_keep_every_epoch(results):
    curves = training_curves(results.history)
    assert [curve.name for curve in curves] == ["round 1", "round 2"]
    assert [value for curve in curves for value in curve.columns["loss"]] == (
        results.history.column("loss")
    )


def test_stages_of_several_tracks_have_their_names():
    history = History()
    for stage in ("learned, classifier 1", "hops, classifier 1", "learned, classifier 2"):
        for epoch in (0, 1):
            history.append({"stage": stage, "epoch": epoch, "loss": float("nan")})
    names = ["learned, round 1", "hops, round 1", "learned, round 2"]
    curves = training_curves(history)
    assert [curve.name for curve in curves] == names
    assert all(curve.columns == {"loss": [None, None]} for curve in curves)


def test_choices_are_words():
    chosen = {"mixture": "learned 100%", "given graph": "trusted to 100%", "n_rounds": 3}
    words = dict(describe_choices(chosen))
    assert words["tracks and their weights"] == "learned 100%"
    assert words["given graph"] == "trusted to 100%"
    assert "3" in words.values()


# Pictures of the rounds


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


def test_nodes_of_one_class_are_together_and_unknown_ones_last():
    classes = np.array([1, -1, 0, 1, 0])
    np.testing.assert_array_equal(classes[sort_by_class(classes)], [0, 0, 1, 1, -1])


def test_links_within_classes_are_blocks_on_the_diagonal():
    classes = np.array([0, 1] * 10)
    graph = sp.csr_matrix((classes[:, None] == classes[None]).astype(float))
    pictures = matrix_pictures([("one", graph)], classes)
    np.testing.assert_array_equal(pictures.values[0], np.kron(np.eye(2), np.full((10, 10), 255)))
    np.testing.assert_array_equal(pictures.starts, [0, 10])


def test_changes_of_equal_graphs_are_none():
    graph = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    assert count_changes([graph, graph]) == [(0, 0)]
