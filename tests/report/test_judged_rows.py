from pathlib import Path

import numpy as np
import pytest

from glnn.data import write_graph
from glnn.quality.intervals import accuracy_interval
from glnn.report.fit_run import FitOptions, Start, run_fit
from glnn.report.judged_rows import JudgedRows, seen_rows
from glnn.report.sources import choose_split


def test_accuracy_is_that_of_rows_whose_label_was_not_seen():
    rng = np.random.default_rng(0)
    truth = rng.choice(["", "u", "v"], 200)
    said, seen = rng.choice(["u", "v"], 200), rng.random(200) < 0.3
    found = JudgedRows.of(truth.tolist(), said, seen)
    judged = (truth != "") & ~seen
    counts = (truth == said)[judged].sum(), judged.sum()
    assert found.accuracy == accuracy_interval(*map(int, counts))
    assert found.n_seen + found.n_judged == (truth != "").sum()


def test_the_line_has_the_count_the_interval_and_what_was_left_out():
    assert JudgedRows(20, 20, 3).lines() == [
        "accuracy on 20 rows with a label that the fit has not seen: 100.0 % [72.2, 100.0]; "
        "left out 3 rows whose label the fit has seen"
    ]
    assert "left out" not in JudgedRows(20, 20, 0).lines()[0]


def test_nothing_is_claimed_without_a_label_that_was_not_seen():
    (line,) = JudgedRows(0, 0, 10).lines()
    assert line.startswith("no accuracy: ") and "10 rows" in line and "%" not in line
    assert JudgedRows(0, 0, 0).lines() == []


@pytest.fixture(scope="module")
def fitted(opened_blobs):
    split = choose_split(opened_blobs.data, 3, 0)
    _, model = run_fit(Start.of(Path(), opened_blobs, split), FitOptions(n_epochs=3))
    return opened_blobs.data, split, model


def test_rows_are_known_by_their_ids_whatever_their_values(fitted, tmp_path):
    data, split, model = fitted
    write_graph(model.graph_, tmp_path / "graph.npz", np.arange(300) + 1000)
    ids = np.array([*split.train[:2] + 1000, 7])
    found = seen_rows(tmp_path, model, data.features[:3], ids)
    assert found.tolist() == [True, True, False]


def test_rows_without_ids_are_known_by_their_values(fitted, tmp_path):
    data, split, model = fitted
    write_graph(model.graph_, tmp_path / "graph.npz", None)
    order = np.random.default_rng(0).permutation(300)
    found = seen_rows(tmp_path, model, data.features[order], None)
    np.testing.assert_array_equal(np.sort(order[found]), np.sort(split.train))
    moved = data.features[order].copy()
    moved.data += 0.5
    assert not seen_rows(tmp_path, model, moved, None).any()
