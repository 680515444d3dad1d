import json

import pytest

from glnn.exceptions import InputError
from glnn_lab.experiments.store import ResultStore, in_order


def test_what_was_appended_is_read_back(tmp_path):
    store = ResultStore(tmp_path)
    store.append({"id": "a", "accuracy": 0.5})
    store.append({"id": "b", "word": "λ"})
    assert store.read() == {"a": {"id": "a", "accuracy": 0.5}, "b": {"id": "b", "word": "λ"}}
    assert len(store.path.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize("n_bytes", range(1, 22))
def test_a_torn_last_line_is_dropped_wherever_it_was_torn(tmp_path, n_bytes):
    store = ResultStore(tmp_path)
    store.append({"id": "a"})
    whole = json.dumps({"id": "b", "word": "λ"}, ensure_ascii=False).encode()
    with store.path.open("ab") as file:
        file.write(whole[:n_bytes])
    assert list(store.read()) == ["a"]
    store.rewrite(store.read().values())
    store.append({"id": "c"})
    assert list(store.read()) == ["a", "c"]


def test_lines_that_are_no_records_are_passed_over_and_the_first_of_two_counts(tmp_path):
    store = ResultStore(tmp_path)
    store.path.write_text('[1]\n{"no": "id"}\n\n{"id": "a", "n": 1}\n{"id": "a", "n": 2}\n')
    assert store.read() == {"a": {"id": "a", "n": 1}}


def test_a_number_that_json_lacks_is_refused_and_nothing_written(tmp_path):
    store = ResultStore(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        store.append({"id": "a", "accuracy": float("nan")})
    assert not store.path.exists()


def test_order_is_that_of_the_grid_and_others_are_kept():
    found = {i: {"id": i} for i in "xbca"}
    assert [r["id"] for r in in_order(found, ["a", "b", "c", "d"])] == ["a", "b", "c", "x"]


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    store, second = ResultStore(tmp_path / "new"), ResultStore(tmp_path / "new")
    refused = pytest.raises(InputError, match="another process")
    with store.only_writer(), refused, second.only_writer():
        pass
    with second.only_writer():
        pass
    assert not any((tmp_path / "new").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="writable"), ResultStore(tmp_path / "file").only_writer():
        pass
