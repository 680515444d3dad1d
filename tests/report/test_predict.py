import json
from pathlib import Path

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.data import Split, TableOptions, read_tables, write_data, write_graph
from glnn.exceptions import CheckpointError, InputError
from glnn.quality.metrics import accuracy_interval
from glnn.report.predict import NewRowAccuracy, find_training_rows, predict_rows, read_new_rows
from glnn.report.run import FitOptions, RunInputs, run_fit
from glnn.report.run_folder import describe_data, write_run
from glnn.report.sources import OpenedSource, Source, choose_split
from glnn.report.text import UNCALIBRATED

# Predictions for new rows


def page(table, **options):
    """What a run folder says of a training table."""
    data, report = read_tables(table, options=TableOptions(**options))
    opened = OpenedSource(Source(str(table), options=TableOptions(**options)), data, (), report)
    return json.loads(json.dumps(describe_data(opened)))


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text("name,a,c,label\nann,1,red,u\nbob,,green,v\ncy,3,red,\n")
    return path


OPTIONS = {"id_column": "name", "encode": "onehot", "missing": "median"}


def put(tmp_path, content):
    (tmp_path / "new.csv").write_text(content)
    return tmp_path / "new.csv"


def test_columns_are_found_by_name_and_read_like_those_of_training(old, tmp_path):
    new = read_new_rows(put(tmp_path, "c,name,a\nred,x,5\n,y,\n"), page(old, **OPTIONS))
    np.testing.assert_array_equal(new.features.toarray(), [[5, 0, 1], [2, 0, 0]])
    assert new.ids.tolist() == ["x", "y"]
    assert new.notes == ()


def test_further_columns_and_values_are_left_out_and_said(old, tmp_path):
    new = read_new_rows(put(tmp_path, "name,a,c,shoe,hat\nx,5,blue,tall,1\n"), page(old, **OPTIONS))
    np.testing.assert_array_equal(new.features.toarray(), [[5, 0, 0]])
    assert new.notes == (
        "left out columns 'shoe', 'hat'",
        "features: no column for new values of 'c': 'blue'",
    )


def test_known_labels_are_kept_and_never_features(old, tmp_path):
    new = read_new_rows(
        put(tmp_path, "name,a,c,label\nx,5,red, u \ny,5,red,\n"), page(old, **OPTIONS)
    )
    assert new.labels == ["u", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,c\nx,red\n", r"none named 'a'\."),
        ("a,c\n1,red\n", "id column 'name'"),
        ("name,a,c\nx,1,red\nx,1,red\n", "'x' twice"),
        ("name,a,c\nx,one,red\n", "column 'a' .* 'one' in row 1"),
    ],
)
def test_tables_that_cannot_be_read_like_training_are_refused(old, tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_new_rows(put(tmp_path, content), page(old, **OPTIONS))


def test_without_a_table_in_training_columns_of_numbers_are_found_by_name(tmp_path):
    bare = {
        "encoder": None,
        "feature_names": ["q"],
        "options": {},
        "id_column": None,
        "label_column": None,
    }
    new = read_new_rows(put(tmp_path, "p,q\n4,5\n"), bare)
    assert new.features.toarray().tolist() == [[5]]
    with pytest.raises(InputError, match="named columns"):
        read_new_rows(put(tmp_path, "p,q\n4,5\n"), bare | {"feature_names": None})


@pytest.fixture(scope="module")
def run(tmp_path_factory, opened_blobs):
    folder = tmp_path_factory.mktemp("run")
    data = opened_blobs.data.replace(feature_names=("x", "y"), ids=np.arange(300) + 1000)
    write_data(data.replace(splits={}), folder / "blobs.csv")
    opened = Source(str(folder / "blobs.csv")).open()
    results, model = run_fit(
        RunInputs.of(folder, opened, choose_split(opened.data, 3, 0)), FitOptions(n_epochs=5)
    )
    write_run(folder, opened, results, model)
    return folder


def test_rows_of_the_training_table_get_their_own_predictions(run):
    found = predict_rows(run, run / "blobs.csv")
    model = GLNNClassifier.load(run)
    np.testing.assert_allclose(found.probabilities, model.label_distributions_)
    assert found.labels.tolist() == [str(label) for label in model.transduction_]
    assert found.ids[0] == 1000
    np.testing.assert_array_equal(found.confidence, found.probabilities.max(1))


def test_labels_in_the_table_are_compared_with_those_aside_that_trained(run):
    found = predict_rows(run, run / "blobs.csv")
    truth = [line.split(",")[-1] for line in (run / "blobs.csv").read_text().splitlines()[1:]]
    is_right = found.labels == np.array(truth)
    unseen = np.setdiff1d(np.arange(300), Split.load(run / "split.json").train)
    assert found.row_accuracy == NewRowAccuracy(int(is_right[unseen].sum()), 291, 9)


def test_raw_probabilities_are_noted(run):
    assert predict_rows(run, run / "blobs.csv").notes == (UNCALIBRATED,)


def test_links_need_a_model_with_a_graph_and_ids(run, tmp_path):
    (tmp_path / "new.csv").write_text("x,y\n1,2\n")
    (tmp_path / "links.csv").write_text("source,target\n0,1000\n")
    with pytest.raises(InputError, match="id column"):
        predict_rows(run, tmp_path / "new.csv", tmp_path / "links.csv")
    (tmp_path / "new.csv").write_text("id,x,y\n7,1,2\n")
    (tmp_path / "links.csv").write_text("source,target\n7,1000\n")
    with pytest.raises(InputError, match="links must be None for a fit without a given graph"):
        predict_rows(run, tmp_path / "new.csv", tmp_path / "links.csv")


def test_folders_that_are_no_runs_are_refused(tmp_path, run):
    with pytest.raises(InputError, match=r"data\.json is missing"):
        predict_rows(tmp_path, run / "blobs.csv")
    (tmp_path / "data.json").write_text('{"format": "else"}')
    with pytest.raises(CheckpointError, match="must be a glnn data"):
        predict_rows(tmp_path, run / "blobs.csv")


# Accuracy on new rows


def test_accuracy_is_that_of_rows_whose_label_was_not_seen():
    rng = np.random.default_rng(0)
    truth = rng.choice(["", "u", "v"], 200)
    said, seen = rng.choice(["u", "v"], 200), rng.random(200) < 0.3
    found = NewRowAccuracy.of(truth.tolist(), said, seen)
    judged = (truth != "") & ~seen
    counts = (truth == said)[judged].sum(), judged.sum()
    assert found.accuracy == accuracy_interval(*map(int, counts))
    assert found.n_training + found.n_evaluated == (truth != "").sum()


def test_the_line_has_the_count_the_interval_and_what_was_left_out():
    assert NewRowAccuracy(20, 20, 3).lines() == [
        "accuracy on 20 rows with a label not used in training: 100.0 % [72.2, 100.0]; "
        "left out 3 rows used in training"
    ]
    assert "left out" not in NewRowAccuracy(20, 20, 0).lines()[0]


def test_nothing_is_claimed_without_a_label_that_was_not_seen():
    (line,) = NewRowAccuracy(0, 0, 10).lines()
    assert line.startswith("no accuracy: ") and "10 rows" in line and "%" not in line
    assert NewRowAccuracy(0, 0, 0).lines() == []


@pytest.fixture(scope="module")
def fitted(opened_blobs):
    split = choose_split(opened_blobs.data, 3, 0)
    _, model = run_fit(RunInputs.of(Path(), opened_blobs, split), FitOptions(n_epochs=3))
    return opened_blobs.data, split, model


def test_rows_are_known_by_their_ids_whatever_their_values(fitted, tmp_path):
    data, split, model = fitted
    write_graph(model.graph_, tmp_path / "graph.npz", np.arange(300) + 1000)
    ids = np.array([*split.train[:2] + 1000, 7])
    found = find_training_rows(tmp_path, model, data.features[:3], ids)
    assert found.tolist() == [True, True, False]


def test_rows_without_ids_are_known_by_their_values(fitted, tmp_path):
    data, split, model = fitted
    write_graph(model.graph_, tmp_path / "graph.npz", None)
    order = np.random.default_rng(0).permutation(300)
    found = find_training_rows(tmp_path, model, data.features[order], None)
    np.testing.assert_array_equal(np.sort(order[found]), np.sort(split.train))
    moved = data.features[order].copy()
    moved.data += 0.5
    assert not find_training_rows(tmp_path, model, moved, None).any()
