import csv

import pandas as pd
import pytest

from glnn.data import read_data
from glnn.data.table_out import edges_beside, write_frames, write_node_table
from glnn.exceptions import InputError


def test_any_csv_reader_sees_the_ids_as_they_are(small, tmp_path):
    write_node_table(small, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines] == small.ids.tolist()
    assert [line["label"] for line in lines] == ["a", "b", "", "b", "a", "c"]
    assert [line["split"] for line in lines] == ["train", "train", "", "val", "test", "test"]


def test_edges_stand_beside_with_both_ids(small, tmp_path):
    write_node_table(small, tmp_path / "t.csv")
    with edges_beside(tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == small.n_edges
    assert lines[1] == {"source": "n1", "target": "=n2", "weight": "1.0"}


def test_edges_of_an_older_table_are_not_taken_for_this_one(small, tmp_path):
    write_node_table(small, tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"t\.edges\.csv must not be there"):
        write_node_table(small.replace(graph=None), tmp_path / "t.csv")
    assert read_data(tmp_path / "t.csv").equals(small)


@pytest.mark.parametrize("name", ["id", "label", "split"])
def test_features_with_a_special_name_are_refused(small, tmp_path, name):
    with pytest.raises(InputError, match=f"'{name}'"):
        write_node_table(small.replace(feature_names=(name, "x")), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_carriage_return_in_a_cell_is_quoted(tmp_path):
    write_frames(tmp_path / "t.csv", [pd.DataFrame({"x": ["a\rb"], "y": ["c"]})])
    assert (tmp_path / "t.csv").read_bytes() == b'x,y\r\n"a\rb",c\r\n'


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_batches_of_rows_make_one_file(small, tmp_path, monkeypatch, suffix):
    write_node_table(small, tmp_path / f"whole{suffix}")
    monkeypatch.setattr("glnn.data.table_out._BATCH_CELLS", 4)
    write_node_table(small, tmp_path / f"parts{suffix}")
    assert read_data(tmp_path / f"parts{suffix}").equals(read_data(tmp_path / f"whole{suffix}"))
