import pytest

from glnn.data import write_data
from glnn.data.summary import open_named, summary_rows
from glnn.exceptions import InputError


def test_a_name_or_a_path_opens_data(small, tmp_path):
    assert open_named("wine").n_nodes == 178
    write_data(small, tmp_path / "s.npz")
    assert open_named(str(tmp_path / "s.npz")).equals(small)
    with pytest.raises(InputError, match="Did you mean 'cora'"):
        open_named("coraa")


def test_a_summary_is_fit_for_a_terminal(small):
    odd = small.replace(class_names=("\x1b[31mred", "[bold]b", "c\nd"))
    text = dict(summary_rows(odd))["classes"]
    assert text.isprintable()
    assert "[bold]b" in text


def test_a_summary_tells_sizes_classes_and_origin(small):
    rows = dict(summary_rows(small))
    assert rows["nodes"] == "6"
    assert rows["classes"] == "a (2), b (2), c (1)"
    assert rows["public split"] == "train 2, val 1, test 2"
    assert rows["unlabelled"] == "1"
    assert dict(summary_rows(open_named("wine")))["licence"] == "BSD-3-Clause"
