import json

import pytest

from glnn.exceptions import InputError
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.records import ResultStore, join_results, sort_records
from glnn_lab.experiments.targets import get_target, list_cells


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
    assert [r["id"] for r in sort_records(found, ["a", "b", "c", "d"])] == ["a", "b", "c", "x"]


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    store, second = ResultStore(tmp_path / "new"), ResultStore(tmp_path / "new")
    refused = pytest.raises(InputError, match="another process")
    with store.lock(), refused, second.lock():
        pass
    with second.lock():
        pass
    assert not any((tmp_path / "new").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="writable"), ResultStore(tmp_path / "file").lock():
        pass


# Results of a block


def fake(chosen, accuracy):
    cells = list_cells(chosen)
    return [{"id": c.id, **c.to_dict(), "accuracy": accuracy(c)} for c in cells]


def test_numbers_are_means_over_seeds_in_percent():
    chosen = get_target("table1").choose(4, ["cora"], ["glnn-default", "gcn"])
    (block,) = join_results(chosen, fake(chosen, lambda c: 0.8 + 0.01 * (c.seed - FIRST_SEED)))
    assert block.summary("gcn", "cora").mean == pytest.approx(81.5)
    assert block.compare_with("gcn", "cora").difference.mean == 0
    assert block.methods == ["glnn", "gcn"]
    assert (block.published_value("gcn", "cora"), block.published_value("glnn", "cora")) == (
        81.5,
        83.4,
    )


def test_the_papers_numbers_stand_at_their_place_on_the_axis():
    second = get_target("table2").choose(1, ["cora"])
    paper, default, _ = join_results(second, [])
    assert paper.published_value("glnn-paper", "cora", 0.01) == 83.4
    assert paper.published_value("glnn-paper", "cora", 0.0) == 82.1
    assert default.published_value("glnn", "cora", 0.01) is None
    rates = join_results(get_target("robustness").choose(1, ["cora"]), [])[0]
    assert rates.published_value("glnn", "cora", 0.01) == 58.0
    assert rates.published_value("glnn", "cora", 0.02) is None
    assert rates.published_value("gcn", "cora", 0.01) is None


def test_missing_and_failed_cells_leave_gaps_and_lines():
    chosen = get_target("table1").choose(2, ["cora"], ["gcn", "gat"])
    records = fake(chosen, lambda c: 0.5)
    records = [
        {**r, "error": "boom"} if r["method"] == "gat" else r
        for r in records
        if r["seed"] == FIRST_SEED
    ]
    (block,) = join_results(chosen, records)
    assert block.summary("gcn", "cora").n == 1
    assert block.summary("gat", "cora") is None
    assert block.errors() == ["gat on cora: boom"]
    assert [r["method"] for r in block.all_records()] == ["gcn"]
