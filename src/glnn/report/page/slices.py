"""Accuracy by group of a column."""

from dataclasses import dataclass

import numpy as np

from glnn.quality.metrics import Interval, accuracy_interval
from glnn.report.columns import OTHER_VALUES
from glnn.report.results import Results

_MIN_LABELS = 10  # labels that a group must have for its accuracy to be listed


@dataclass(frozen=True)
class Slice:
    """The accuracy on the rows of one group of a column."""

    column: int  # index among the columns of the results
    group: int
    name: str  # such as "city: Rome"
    n_labels: int
    accuracy: Interval
    is_low: bool  # whether the interval lies below the accuracy on all labels


def find_slices(results: Results) -> list[Slice]:
    """Return the accuracy by group of every column, the lowest first.

    Only labels that the fit had not seen count; groups with few of them are left out.
    """
    evaluation, found = results.evaluation, []
    if evaluation is None:
        return []
    nodes = evaluation.held_out.hidden_nodes
    right = results.predictions[nodes] == results.labels[nodes]
    for number, column in enumerate(results.columns):
        names, group = column.groups()
        n_labels = np.bincount(group[nodes], minlength=len(names))
        n_right = np.bincount(group[nodes], right, minlength=len(names)).astype(int)
        for k, name in enumerate(names):
            if _MIN_LABELS <= n_labels[k] < len(nodes) and name != OTHER_VALUES:
                share = accuracy_interval(int(n_right[k]), int(n_labels[k]))
                is_low = bool(share.high < right.mean())
                where = f"{column.name}: {name}"
                found.append(Slice(number, k, where, int(n_labels[k]), share, is_low))
    return sorted(found, key=lambda one: (one.accuracy.value, one.accuracy.high))
