import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data.arrays import symmetric_from_pairs
from glnn.data.node_npz import read_node_npz, write_node_npz
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(settings.get_profile("records"))


@SETTINGS
@given(st.data())
def test_write_then_read_is_the_identity(records, any_text, tmp_path_factory, data):
    record = records(data, text=any_text, sorted_classes=False)
    path = tmp_path_factory.mktemp("npz") / "record.npz"
    write_node_npz(record, path)
    again = read_node_npz(path)
    assert again.equals(record)
    assert again.name == record.name


def test_name_and_provenance_are_kept(small, tmp_path):
    record = small.replace(provenance={"from": "a test", "on": "purpose"})
    write_node_npz(record, tmp_path / "r.npz")
    again = read_node_npz(tmp_path / "r.npz")
    assert (again.name, dict(again.provenance)) == ("small", dict(record.provenance))


def test_fillers_become_unlabelled_and_are_written_as_fillers(small, tmp_path):
    write_node_npz(small, tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as file:
        assert file["unlabeled_idx"].tolist() == [2]
        assert file["labels"].min() == 0
    assert read_node_npz(tmp_path / "r.npz").labels[2] == -1


def test_another_graph_can_be_asked_for(small, tmp_path):
    other = symmetric_from_pairs(np.array([0, 1]), np.array([5, 4]), 6)
    write_node_npz(small, tmp_path / "r.npz", other_graphs={"second": other})
    assert read_node_npz(tmp_path / "r.npz", graph="second").n_edges == 2
    with pytest.raises(InputError, match="Did you mean 'second'"):
        read_node_npz(tmp_path / "r.npz", graph="secnd")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features_shape": np.array([10**13, 10**13])}, "sensible"),
        ({"features_shape": np.array([10**9, 2])}, "Nothing was unpacked"),
        ({"features_shape": np.array([6, 10**12])}, "sensible|columns"),
        ({"features_shape": np.array([6])}, "sensible"),
        ({"labels": np.zeros(5, dtype=int)}, "shape"),
        ({"labels": np.full(6, 10**15)}, "below"),
        ({"features_indices": np.full(11, 99, dtype=np.int32)}, "columns|row starts"),
        ({"features_data": np.full(9, np.nan, dtype=np.float32)}, "finite"),
        ({"edge_index": np.array([[0], [99]])}, "node numbers"),
        ({"edge_index": np.array([[0, 1]])}, "two rows"),
        ({"unlabeled_idx": np.array([77])}, "node numbers"),
        ({"train_idx": np.array([-1])}, "node numbers"),
        ({"class_names": np.array([1, 2, 3])}, "dtype"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(small, tmp_path, change, message):
    write_node_npz(small, tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as file:
        arrays = {**file, **change}
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises((DataFormatError, InputError), match=message):
        read_node_npz(tmp_path / "bad.npz")


def test_an_archive_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", weights=np.ones(3))
    with pytest.raises(DataFormatError, match="features_shape"):
        read_node_npz(tmp_path / "x.npz")


def test_mutated_archives_give_a_record_or_one_clear_line(small, tmp_path, survives_mutation):
    path = tmp_path / "r.npz"
    write_node_npz(small, path)
    survives_mutation(lambda: read_node_npz(path), [path], count=1000)


def test_mutated_arrays_in_a_sound_archive_do_too(small, tmp_path, survives_mutation, mutation):
    path = tmp_path / "r.npz"
    write_node_npz(small, path)

    def mutate_one_array(content, rng):
        with zipfile.ZipFile(io.BytesIO(content)) as old:
            members = {name: old.read(name) for name in old.namelist()}
        victim = rng.choice(list(members))
        members[victim] = mutation(members[victim], rng)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as new:
            for name, member in members.items():
                new.writestr(name, member)
        return out.getvalue()

    survives_mutation(lambda: read_node_npz(path), [path], count=1500, mutate=mutate_one_array)
