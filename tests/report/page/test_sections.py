import dataclasses

import numpy as np

from glnn.report.page.sections import error_section, map_section, verdict_section, weak_classes
from glnn.report.page.shown import shown_part


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
    shown = shown_part(page)
    assert sum(map_section(page, shown)["fates"]) == len(shown.links)
