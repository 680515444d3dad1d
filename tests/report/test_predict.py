import dataclasses

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn.data import Split, TableOptions
from glnn.exceptions import InputError
from glnn.quality.metrics import accuracy_interval
from glnn.report.predict import (
    DataDescription,
    describe_accuracy,
    find_training_rows,
    predict_rows,
    read_new_rows,
)
from glnn.report.sources import Source

# Predictions for new rows


def page(table, **options):
    """What a run folder says of a training table."""
    source = Source(str(table), options=TableOptions(**options))
    DataDescription.of(source).write(table.with_name("data.json"))
    return DataDescription.read(table.parent)


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,c\nx,red\n", r"none named 'a'\."),
        ("a,c\n1,red\n", "id column 'name'"),
        ("name,a,c\nx,one,red\n", "column 'a' .* 'one' in row 1"),
    ],
)
def test_tables_that_cannot_be_read_like_training_are_refused(old, tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_new_rows(put(tmp_path, content), page(old, **OPTIONS))


def test_without_a_table_in_training_columns_of_numbers_are_found_by_name(tmp_path):
    bare = DataDescription(("q",), TableOptions(), None, None, None)
    new = read_new_rows(put(tmp_path, "p,q\n4,5\n"), bare)
    assert new.features.toarray().tolist() == [[5]]
    with pytest.raises(InputError, match="named columns"):
        read_new_rows(put(tmp_path, "p,q\n4,5\n"), dataclasses.replace(bare, feature_names=None))


@pytest.fixture(scope="module")
def run(do_run, tmp_path_factory):
    """A run of a table with ids, three labels a class for training and all others for the test."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    rows = [f"{k + 1000},{rng.normal() + 4 * (k % 3):.4f},{rng.normal():.4f}" for k in range(90)]
    lines = [f"{row},c{k % 3}" for k, row in enumerate(rows)]
    (folder / "rows.csv").write_text("\n".join(["id,x,y,label", *lines, ""]))
    source = Source(str(folder / "rows.csv"), labels_per_class=3)
    do_run(source, folder, folds=0, params={"tracks": ["features"]})
    return folder


def test_rows_of_the_training_table_get_their_own_predictions(run):
    found = predict_rows(run, run / "rows.csv")
    model = GLNNClassifier.load(run)
    np.testing.assert_allclose(found.probabilities, model.label_distributions_)
    assert found.labels.tolist() == [str(label) for label in model.transduction_]
    assert found.ids[0] == 1000


def test_labels_in_the_table_are_compared_with_those_aside_that_trained(run):
    found = predict_rows(run, run / "rows.csv")
    truth = [line.split(",")[-1] for line in (run / "rows.csv").read_text().splitlines()[1:]]
    seen = np.isin(np.arange(90), Split.load(run / "split.json").train)
    assert found.accuracy == describe_accuracy(truth, found.labels, seen)
    assert found.accuracy[0].startswith("accuracy on 81 rows with a label not used in training: ")


def test_labels_of_new_rows_are_read_as_those_of_the_training_table(old, tmp_path):
    table = put(tmp_path, "name,a,c,label\nx,5,red,1.0\ny,1,red,0.0\nz,2,green,\n")
    assert read_new_rows(table, page(old, **OPTIONS)).labels == ["1", "0", ""]
    table = put(tmp_path, "name,a,c,label\nx,5,red,u\ny,1,red,v\nz,2,green,unknown\n")
    assert read_new_rows(table, page(old, **OPTIONS)).labels == ["u", "v", ""]


def test_links_need_a_model_with_a_graph_and_ids(run, tmp_path):
    (tmp_path / "new.csv").write_text("x,y\n1,2\n")
    (tmp_path / "links.csv").write_text("source,target\n0,1000\n")
    with pytest.raises(InputError, match="id column"):
        predict_rows(run, tmp_path / "new.csv", tmp_path / "links.csv")
    (tmp_path / "new.csv").write_text("id,x,y\n7,1,2\n")
    (tmp_path / "links.csv").write_text("source,target\n7,1000\n")
    with pytest.raises(InputError, match="links must be None for a fit without a given graph"):
        predict_rows(run, tmp_path / "new.csv", tmp_path / "links.csv")


# Accuracy on new rows


def test_accuracy_is_that_of_rows_whose_label_was_not_seen():
    truth, said = ["u", "u", "", "v"], np.array(["u", "v", "v", "v"], dtype=object)
    (line,) = describe_accuracy(truth, said, np.array([True, False, False, False]))
    found = accuracy_interval(1, 2)
    bounds = f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"
    assert f"on 2 rows with a label not used in training: 50.0 % {bounds}" in line
    assert line.endswith("left out 1 row used in training")
    (line,) = describe_accuracy(truth, said, np.ones(4, dtype=bool))
    assert line.startswith("no accuracy: ") and "3 rows" in line and "%" not in line
    assert describe_accuracy([""] * 4, said, np.ones(4, dtype=bool)) == []


def test_rows_are_known_by_their_ids_or_without_them_by_their_values(judged_run, tested_run):
    model, nodes = judged_run[0].model, np.flatnonzero(judged_run[0].results.seen)
    ids = np.array([*nodes[:2] + 1000, 7])
    features = judged_run[0].source.data.features
    assert find_training_rows(model, features[:3], ids).tolist() == [True, True, False]
    run = tested_run[0]
    data, order = run.source.data, np.random.default_rng(0).permutation(300)
    found = find_training_rows(run.model, data.features[order], None)
    np.testing.assert_array_equal(np.sort(order[found]), run.source.split.train)
    moved = data.features[order].copy()
    moved.data += 0.5
    assert not find_training_rows(run.model, moved, None).any()
