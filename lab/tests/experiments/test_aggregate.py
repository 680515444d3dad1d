import math

import numpy as np
import pytest
from scipy import stats

from glnn_lab.experiments.aggregate import (
    Summary,
    busy_seconds,
    by_seed,
    compare_paired,
    filter_records,
)


def test_summary_is_mean_deviation_and_students_interval():
    values = [3.0, 5.0, 4.0, 8.0]
    summary = Summary.of(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert summary.n == 4
    assert summary.sd == pytest.approx(np.std(values, ddof=1))
    assert (summary.low, summary.high) == pytest.approx((low, high))


def test_of_one_number_only_the_mean_is_known():
    summary = Summary.of([7])
    assert (summary.n, summary.mean) == (1, 7.0)
    assert math.isnan(summary.sd)
    with pytest.raises(ValueError, match="at least one"):
        Summary.of([])


def test_paired_tests_are_those_of_two_samples():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(0.8, 0.01, 12), generator.normal(0.79, 0.01, 12)
    found = compare_paired(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert found.p_t == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(ours, theirs).pvalue)
    assert found.difference.mean == pytest.approx((ours - theirs).mean())
    assert found.n_better + found.n_worse == 12


def test_seeds_are_matched_by_number():
    found = compare_paired({0: 0.5, 1: 0.6, 7: 0.1}, {1: 0.5, 0: 0.4, 9: 0.9})
    assert found.difference.n == 2
    assert found.difference.mean == pytest.approx(0.1)
    assert compare_paired({0: 0.5}, {0: 0.4}) is None


@pytest.mark.parametrize(("gap", "p"), [(0.0, 1.0), (0.25, math.nan)])
def test_differences_without_spread_need_no_test(gap, p):
    ours = dict.fromkeys(range(6), 0.5 + gap)
    found = compare_paired(ours, dict.fromkeys(range(6), 0.5))
    assert found.p_t == pytest.approx(p, nan_ok=True)
    assert found.p_wilcoxon <= 1.0


def test_equal_numbers_on_some_seeds_are_no_problem():
    found = compare_paired({0: 0.5, 1: 0.6, 2: 0.7, 3: 0.7}, {0: 0.5, 1: 0.5, 2: 0.6, 3: 0.8})
    assert 0 < found.p_wilcoxon <= 1
    assert (found.n_better, found.n_worse) == (2, 1)


def test_failed_cells_are_left_out():
    assert by_seed([{"seed": 0, "accuracy": 0.5}, {"seed": 1, "error": "x"}]) == {0: 0.5}


def test_time_in_which_cells_ran_counts_no_pause_and_no_overlap_twice():
    spans = [(0, 4), (2, 5), (2, 3), (10, 11)]
    records = [{"finished": end, "seconds": end - begin} for begin, end in spans]
    assert busy_seconds(records) == 6.0
    assert busy_seconds([]) == 0.0


def test_select_compares_every_field():
    records = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert filter_records(records, a=1, b=3) == records[1:]
