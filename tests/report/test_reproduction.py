import pytest

from glnn.experiments.store import ResultStore
from glnn.experiments.targets import get_target
from glnn.report.reproduction import (
    Wanted,
    facts_table,
    index_page,
    reproduce,
    targets_for,
    write_index,
)

METHODS = ("logistic_regression", "label_spreading")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    return reproduce(get_target("table1"), folder, Wanted(2, ("wine",), METHODS))


def test_a_target_leaves_records_page_and_figure(done):
    names = sorted(path.name for path in done.folder.iterdir())
    assert names == ["accuracy.svg", "results.jsonl", "table1.md"]
    assert len(ResultStore(done.folder).read()) == 4
    assert done.n_failed == 0


def test_the_page_has_numbers_figure_and_how_they_were_made(done):
    text = (done.folder / "table1.md").read_text(encoding="utf-8")
    for word in ("| label spreading |", "](accuracy.svg)", "| seeds | 0 to 1 |", "| commit |"):
        assert word in text


def test_a_second_run_changes_nothing(done):
    files = list(done.folder.iterdir())
    before = [path.read_bytes() for path in files]
    reproduce(done.target, done.folder, Wanted(2, ("wine",), METHODS))
    assert [path.read_bytes() for path in files] == before


def test_failures_are_counted_and_said(tmp_path):
    broken = reproduce(get_target("adjacency"), tmp_path, Wanted(1, ("wine",), ("glnn-default",)))
    assert broken.n_failed == 1
    assert "Failed: glnn on wine" in (tmp_path / "adjacency.md").read_text()


def test_all_means_the_four_of_the_paper():
    assert [t.name for t in targets_for("all")] == ["table1", "table2", "robustness", "adjacency"]


def test_the_index_leads_to_every_target(done, tmp_path):
    write_index([done], tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text == index_page([done])
    assert "(table1/table1.md)" in text
    assert facts_table([done]) in text
