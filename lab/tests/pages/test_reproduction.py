import dataclasses

import pytest

from glnn_lab.experiments.records import ResultStore
from glnn_lab.experiments.targets import get_target
from glnn_lab.pages.reproduction import (
    HEADLINE,
    RunRequest,
    delete_records,
    facts_table,
    index_page,
    report_recorded,
    resolve_targets,
    run_target,
    write_index,
)

METHODS = ("logistic_regression", "label_spreading")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    return run_target(get_target("table1"), folder, RunRequest(2, ("wine",), METHODS))


def test_a_target_leaves_records_page_and_figure(done):
    names = sorted(path.name for path in done.folder.iterdir())
    assert names == ["results.jsonl", "table1", "table1.md"]
    figures = sorted(path.name for path in (done.folder / "table1").iterdir())
    assert figures == ["accuracy.svg", "pubmed.svg"]
    assert len(ResultStore(done.folder).read()) == 4
    assert done.n_failed == 0


def test_the_page_has_numbers_figure_and_how_they_were_made(done):
    text = (done.folder / "table1.md").read_text(encoding="utf-8")
    for word in (
        "| label spreading |",
        "](table1/accuracy.svg)",
        "| seeds | 300 to 301 |",
        "| commit |",
    ):
        assert word in text


def test_a_second_run_changes_nothing(done):
    files = [path for path in done.folder.rglob("*") if path.is_file()]
    before = [path.read_bytes() for path in files]
    run_target(done.target, done.folder, RunRequest(2, ("wine",), METHODS))
    assert [path.read_bytes() for path in files] == before


def test_pages_of_what_is_recorded_run_nothing(done, tmp_path):
    only = ResultStore(tmp_path)
    found = list(ResultStore(done.folder).read().values())
    only.rewrite(found[:2])
    again = report_recorded(done.target, tmp_path, RunRequest(2, ("wine",), METHODS))
    assert len(only.read()) == 2
    records = {r["id"] for block in again.blocks for r in block.all_records()}
    assert records == {record["id"] for record in found[:2]}
    assert "| cells | 2 |" in again.page_path.read_text(encoding="utf-8")


def test_failures_are_counted_and_said(tmp_path):
    broken = run_target(
        get_target("adjacency"), tmp_path, RunRequest(1, ("wine",), ("glnn-default",))
    )
    assert broken.n_failed == 1
    assert "Failed: glnn on wine" in (tmp_path / "adjacency.md").read_text()


def test_all_means_the_four_of_the_paper_and_those_beside_them():
    names = [t.name for t in resolve_targets("all")]
    assert names == ["table1", "table2", "robustness", "adjacency", "accuracy"]


def test_what_is_forgotten_is_what_was_asked_for(tmp_path):
    both, one = (RunRequest(1, ("wine",), names) for names in (METHODS, METHODS[:1]))
    run_target(get_target("table1"), tmp_path, both)
    delete_records([get_target("table1")], tmp_path, one)
    assert [r["method"] for r in ResultStore(tmp_path).read().values()] == [METHODS[1]]


@pytest.mark.slow
def test_goals_and_the_worth_of_parts_lead_the_page(tmp_path):
    wanted = RunRequest(2, ("wine",), ("label_spreading", "glnn-default", "glnn-without-rounds"))
    target = get_target("accuracy")
    short = dataclasses.replace(
        target,
        blocks=tuple(
            dataclasses.replace(
                b,
                adjust=(
                    {
                        "methods": ("glnn", "glnn-without-rounds"),
                        "datasets": ("wine",),
                        "settings": {"n_epochs": 2},
                        "why": "a test",
                    },
                ),
            )
            for b in target.blocks
            if "tables" in b.name
        ),
    )
    run_target(short, tmp_path, wanted)
    text = (tmp_path / "accuracy.md").read_text(encoding="utf-8")
    assert "| wine, 10 labels |" in text
    assert "98.2 SUBLIME" in text
    assert "| wine, table |" in text
    headline = (tmp_path / HEADLINE).read_text(encoding="utf-8")
    assert "\n\n| setting | GLNN, default |" in headline


def test_the_index_leads_to_every_target(done, tmp_path):
    write_index([done], tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text == index_page([done], tmp_path)
    assert "trust.md" not in text
    (tmp_path / "trust.md").write_text("")
    assert "](trust.md): `python lab/scripts/trust.py`" in index_page([done], tmp_path)
    assert "(table1.md)" in text
    assert facts_table([done]) in text
