import dataclasses

import numpy as np
import pandas as pd
import pytest

from glnn.data import encode_frame
from glnn.report.columns import RowColumn, read_columns
from glnn.report.page.sections import find_slices

FRAME = pd.DataFrame(
    {
        "age": [30, 20, np.nan, 40],
        "city": ["Lyon", None, " Kraków ", "Lyon"],
        "since": ["2020-01-02", "2019-05-06", "", "2021-01-01"],
        "member": [True, False, True, True],
        "same": [1, 1, 1, 1],
        "amount": ["1.5", "2", "", "10"],
        "price": ["$12.50", "$3", "?", "$1,200.00"],
        "seen": ["2020-01-02 10:00+02:00", None, "2020-01-03", "2021-05-01"],
        "zip": ["01234", "98765", "", "01234"],
        "size": [1.0, -np.inf, np.inf, 2.0],
    }
)


def test_every_value_is_read_back_as_its_text():
    frame = FRAME.drop(columns="member")
    encoder = encode_frame(frame.drop(columns="since"))[1]  # "since" is no feature
    columns = {column.name: column for column in read_columns(frame, encoder)}
    shown = {}
    for name, column in columns.items():
        words, index = column.texts()
        shown[name] = ["" if k < 0 else words[k] for k in index]
    assert shown == {
        "age": ["30", "20", "", "40"],
        "city": ["Lyon", "", "Kraków", "Lyon"],
        "since": ["2020-01-02", "2019-05-06", "", "2021-01-01"],
        "amount": ["1.5", "2", "", "10"],
        "price": ["12.5", "3", "", "1200"],
        "seen": ["2020-01-02T08:00:00", "", "2020-01-03", "2021-05-01"],
        "zip": ["01234", "98765", "", "01234"],
        "size": ["1", "", "", "2"],
    }
    assert columns["amount"].texts()[0] == ["1.5", "2", "10"]  # in the order of numbers
    assert columns["since"].is_date


@pytest.mark.parametrize(
    "column",
    [
        RowColumn("x", np.r_[np.nan, np.random.default_rng(0).normal(size=50)]),
        RowColumn("x", np.r_[-1, np.arange(50) % 12], tuple("abcdefghijkl")),
        RowColumn("x", np.full(4, np.nan)),
        RowColumn("x", np.array([1.0, 1, 1, 7, 2])),
    ],
)
def test_every_row_is_in_one_group_and_gaps_are_apart(column):
    names, group = column.groups()
    assert set(group) <= set(range(len(names)))
    gaps = column.values < 0 if column.is_text else np.isnan(column.values)
    assert (group[gaps] == len(names) - 1).all()
    assert ("missing" in names) == gaps.any()
    assert len(names) <= 11


def test_slices_count_hidden_labels_only_and_add_up_to_the_accuracy(results):
    hidden = results.evaluation.held_out.hidden_nodes
    side = RowColumn("side", np.arange(20) // 10, ("left", "right"))
    shape = RowColumn("shape", (np.arange(20) > 0).astype(int), ("odd", "even"))
    slices = find_slices(dataclasses.replace(results, columns=(side, shape)))
    assert [one.name for one in slices] == ["shape: even"]  # the other groups have few labels
    assert slices[0].n_labels == len(hidden) - 1 == 15
    assert slices[0].accuracy.value == 1.0
    assert find_slices(dataclasses.replace(results, evaluation=None, columns=(side,))) == []


def test_slices_of_a_column_weigh_to_the_accuracy_of_all(make_evaluation, results):
    rng = np.random.default_rng(0)
    labels, nodes = rng.integers(0, 2, 200), np.arange(200)
    said = np.eye(2)[np.where(rng.random(200) < 0.3, 1 - labels, labels)]
    evaluation = make_evaluation(results.class_names, labels, said, nodes[50:])
    grown = dataclasses.replace(
        results,
        ids=nodes,
        labels=labels,
        probabilities=said,
        adjacency=results.adjacency.__class__((200, 200)),
        evaluation=evaluation,
        columns=(RowColumn("x", rng.normal(size=200)),),
    )
    slices = find_slices(grown)
    assert [one.column for one in slices] == [0] * 4
    assert sum(one.n_labels for one in slices) == 150
    total = sum(one.n_labels * one.accuracy.value for one in slices)
    assert total / 150 == pytest.approx(evaluation.own.accuracy)
    values = [one.accuracy.value for one in slices]
    assert values == sorted(values)
