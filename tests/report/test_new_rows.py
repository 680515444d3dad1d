from pathlib import Path

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.data import NodeData, write_data
from glnn.exceptions import CheckpointError, InputError
from glnn.report.fit_run import FitOptions, run_fit
from glnn.report.new_rows import align_columns, predict_rows
from glnn.report.run_folder import write_run
from glnn.report.sources import Source, choose_split

TABLE = Path("new.csv")


def page(*names, encoded=()):
    return {"feature_names": list(names) or None, "encoded_columns": list(encoded)}


def record(**columns):
    features = np.array(list(columns.values()), dtype=float).T
    names = tuple(name.replace("__", "=") for name in columns)
    return NodeData.from_arrays(features, [-1] * len(features), feature_names=names)


def test_columns_are_found_by_name_in_any_order():
    features, notes = align_columns(record(b=[1, 2], a=[3, 4]), page("a", "b"), TABLE)
    np.testing.assert_array_equal(features.toarray(), [[3, 1], [4, 2]])
    assert notes == ()


def test_further_columns_are_left_out_and_said():
    new = record(a=[1], x=[2], y=[3], z=[4], w=[5])
    features, notes = align_columns(new, page("a"), TABLE)
    assert features.shape == (1, 1)
    assert notes == ("features: left out 'x', 'y', 'z' and 1 more",)


def test_missing_columns_are_named():
    with pytest.raises(InputError, match=r"new.csv .* none named 'b', 'c'\."):
        align_columns(record(a=[1]), page("a", "b", "c"), TABLE)


def test_a_value_that_no_new_row_has_is_zero_and_a_new_value_is_left_out():
    new = record(c__red=[1, 0], c__blue=[0, 1])
    features, notes = align_columns(new, page("c=green", "c=red", encoded=["c"]), TABLE)
    np.testing.assert_array_equal(features.toarray(), [[0, 1], [0, 0]])
    assert notes == ("features: left out 'c=blue'",)


def test_a_column_that_was_text_must_be_there_as_text():
    with pytest.raises(InputError, match="'c=red'"):
        align_columns(record(c=[1]), page("c=red", encoded=["c"]), TABLE)


def test_without_names_columns_are_taken_as_they_are():
    features, _ = align_columns(record(q=[5]), page(), TABLE)
    assert features[0, 0] == 5


@pytest.fixture(scope="module")
def run(tmp_path_factory, opened_blobs):
    folder = tmp_path_factory.mktemp("run")
    data = opened_blobs.data.replace(feature_names=("x", "y"), ids=np.arange(300) + 1000)
    write_data(data.replace(splits={}), folder / "blobs.csv")
    opened = Source(str(folder / "blobs.csv")).open()
    results, model = run_fit(opened, choose_split(opened.data, 3, 0), FitOptions(n_epochs=5))
    write_run(folder, opened, results, model)
    return folder


def test_rows_of_the_training_table_get_their_own_predictions(run):
    found = predict_rows(run, run / "blobs.csv")
    model = GLNNClassifier.load(run)
    np.testing.assert_allclose(found.probabilities, model.label_distributions_)
    assert found.labels.tolist() == [str(label) for label in model.transduction_]
    assert found.ids[0] == 1000
    np.testing.assert_array_equal(found.confidence, found.probabilities.max(1))


def test_labels_in_the_table_are_compared_with(run):
    found = predict_rows(run, run / "blobs.csv")
    truth = [line.split(",")[-1] for line in (run / "blobs.csv").read_text().splitlines()[1:]]
    assert found.accuracy == np.mean(found.labels == np.array(truth))


def test_links_need_a_model_with_a_graph_and_ids(run, tmp_path):
    (tmp_path / "new.csv").write_text("x,y\n1,2\n")
    (tmp_path / "links.csv").write_text("source,target\n0,1000\n")
    with pytest.raises(InputError, match="id column"):
        predict_rows(run, tmp_path / "new.csv", tmp_path / "links.csv")
    (tmp_path / "new.csv").write_text("id,x,y\n7,1,2\n")
    (tmp_path / "links.csv").write_text("source,target\n7,1000\n")
    with pytest.raises(InputError, match="links"):
        predict_rows(run, tmp_path / "new.csv", tmp_path / "links.csv")


def test_folders_that_are_no_runs_are_refused(tmp_path, run):
    with pytest.raises(InputError, match=r"data\.json is missing"):
        predict_rows(tmp_path, run / "blobs.csv")
    (tmp_path / "data.json").write_text('{"format": "else"}')
    with pytest.raises(CheckpointError, match="cannot read"):
        predict_rows(tmp_path, run / "blobs.csv")
