import pytest

from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.results import block_results
from glnn_lab.experiments.targets import cells_of, get_target


def fake(chosen, accuracy):
    cells = cells_of(chosen)
    return [{"id": c.id, **c.to_dict(), "accuracy": accuracy(c)} for c in cells]


def test_numbers_are_means_over_seeds_in_percent():
    chosen = get_target("table1").choose(4, ["cora"], ["glnn-default", "gcn"])
    (block,) = block_results(chosen, fake(chosen, lambda c: 0.8 + 0.01 * (c.seed - FIRST_SEED)))
    assert block.summary("gcn", "cora").mean == pytest.approx(81.5)
    assert block.against("gcn", "cora").difference.mean == 0
    assert block.methods == ["glnn", "gcn"]
    assert (block.published("gcn", "cora"), block.published("glnn", "cora")) == (81.5, 83.4)


def test_the_papers_numbers_stand_at_their_place_on_the_axis():
    second = get_target("table2").choose(1, ["cora"])
    paper, default, _ = block_results(second, [])
    assert paper.published("glnn-paper", "cora", 0.01) == 83.4
    assert paper.published("glnn-paper", "cora", 0.0) == 82.1
    assert default.published("glnn", "cora", 0.01) is None
    rates = block_results(get_target("robustness").choose(1, ["cora"]), [])[0]
    assert rates.published("glnn", "cora", 0.01) == 58.0
    assert rates.published("glnn", "cora", 0.02) is None
    assert rates.published("gcn", "cora", 0.01) is None


def test_missing_and_failed_cells_leave_gaps_and_lines():
    chosen = get_target("table1").choose(2, ["cora"], ["gcn", "gat"])
    records = fake(chosen, lambda c: 0.5)
    records = [
        {**r, "error": "boom"} if r["method"] == "gat" else r
        for r in records
        if r["seed"] == FIRST_SEED
    ]
    (block,) = block_results(chosen, records)
    assert block.summary("gcn", "cora").n == 1
    assert block.summary("gat", "cora") is None
    assert block.errors() == ["gat on cora: boom"]
    assert [r["method"] for r in block.all_records()] == ["gcn"]
