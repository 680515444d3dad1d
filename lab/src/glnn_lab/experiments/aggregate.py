"""Means, standard deviations, intervals and paired comparisons of runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """Mean, standard deviation (n - 1) and 95 % interval of the mean by Student's t."""

    n: int
    mean: float
    sd: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | int]) -> "Summary":
        """Summarise numbers; a single number has only a mean.

        Examples
        --------
        >>> summary = Summary.of([1, 2, 3])
        >>> summary.mean, summary.sd
        (2.0, 1.0)
        """
        array = np.asarray(list(values), dtype=np.float64)
        if array.size == 0:
            raise ValueError("a summary needs at least one number.")
        mean = float(array.mean())
        if array.size == 1:
            return cls(1, mean, math.nan, math.nan, math.nan)
        sd = float(array.std(ddof=1))
        half = float(stats.t.ppf((1 + LEVEL) / 2, array.size - 1)) * sd / math.sqrt(array.size)
        return cls(int(array.size), mean, sd, mean - half, mean + half)


@dataclass(frozen=True)
class Paired:
    """Differences of two methods on the same seeds, with two tests of zero difference.

    ``p_t`` is NaN if all differences are equal and not zero.
    """

    difference: Summary
    n_better: int
    n_worse: int
    p_t: float
    p_wilcoxon: float


def compare_paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """Compare two methods seed by seed; ``None`` with fewer than two common seeds.

    Examples
    --------
    >>> result = compare_paired({0: 0.8, 1: 0.9}, {0: 0.7, 1: 0.6})
    >>> round(result.difference.mean, 6), result.n_better
    (0.2, 2)
    """
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2:
        return None
    difference = np.array([ours[s] for s in seeds]) - np.array([theirs[s] for s in seeds])
    difference[np.abs(difference) < 1e-12] = 0.0
    return Paired(
        Summary.of(difference.tolist()),
        int((difference > 0).sum()),
        int((difference < 0).sum()),
        _t_test(difference),
        _wilcoxon(difference),
    )


def _t_test(difference: np.ndarray) -> float:
    if np.ptp(difference) < 1e-12:  # the t statistic is undefined without variance
        return 1.0 if difference[0] == 0 else math.nan
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def _wilcoxon(difference: np.ndarray) -> float:
    changed = difference[difference != 0]
    if changed.size == 0:
        return 1.0
    exact = np.unique(np.abs(changed)).size == changed.size
    return float(stats.wilcoxon(changed, method="exact" if exact else "asymptotic").pvalue)


def by_seed(records: Iterable[Mapping[str, Any]], value: str = "accuracy") -> dict[int, float]:
    """Return one number per seed, without records that lack it (failed cells)."""
    return {int(r["seed"]): float(r[value]) for r in records if r.get(value) is not None}


def busy_seconds(records: Iterable[Mapping[str, Any]]) -> float:
    """Return the total time during which at least one cell was running.

    Examples
    --------
    >>> busy_seconds([{"finished": 10, "seconds": 4}, {"finished": 12, "seconds": 5}])
    6.0
    """
    spans = sorted((r["finished"] - r["seconds"], r["finished"]) for r in records)
    total, end = 0.0, -math.inf
    for begin, finish in spans:
        total += max(0.0, finish - max(begin, end))
        end = max(end, finish)
    return total


def filter_records(records: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    """Return the records whose fields have the wanted values."""
    return [r for r in records if all(r.get(key) == value for key, value in wanted.items())]
