import pytest

from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.results import block_results
from glnn_lab.experiments.targets import cells_of, get_target
from glnn_lab.pages.goal_tables import (
    ablation_table,
    goals_table,
    headline_table,
    headline_words,
)

PERCENT = {
    "glnn": 86.0,
    "glnn-without-consistency": 86.0,
    "glnn-without-glr": 84.0,
    "glnn-without-rounds": 87.0,
    "gcn": 80.0,
}


def fake(cell):
    accuracy = PERCENT.get(cell.method, 50.0) / 100 + 0.01 * (cell.seed - FIRST_SEED)
    costs = {"seconds": 2.0, "peak_memory_mb": 400.0}
    return {"id": cell.id, **cell.to_dict(), "accuracy": accuracy, **costs}


@pytest.fixture
def blocks():
    def run(*choice):
        chosen = get_target("accuracy").choose(*choice)
        return block_results(chosen, [fake(cell) for cell in cells_of(chosen)])

    return run


def test_a_goal_is_met_or_the_gap_is_told(blocks):
    rows = {row[0]: row[1:] for row in goals_table(blocks(3, ["cora"])).rows}
    met, missed = rows["Cora, public split"], rows["Cora, 50 % of edges replaced"]
    assert met[:3] == ["87.0 ± 1.0", "3", "2.0"]
    assert met[3] == "84.6 GRCN in OpenGSL, 85.8 GRCN with UnGSL"
    assert met[4:] == ["≥ 85.8", "yes (+1.20)"]
    assert missed[4:] == ["> GAT, ≥ GCN + 10", "no (-4.00)"]
    assert len(rows) == 2 + 1 + 3 + 3


def test_what_is_lost_without_a_part_is_told_in_points(blocks):
    table = ablation_table(blocks(2, ["cora"]))
    row = dict(zip(table.header, table.rows[0]))
    assert row["setting"] == "Cora, public split"
    assert row["without GLR"].startswith("-2.0 [")
    assert row["without rounds"].startswith("+1.0 [")
    assert row["without predictions as signals"].startswith("-36.0 [")
    rewired = table.rows[-1]
    assert rewired[0] == "Cora, edges replaced 0.5"


def test_a_part_that_changes_nothing_is_worth_a_plain_zero(blocks):
    table = ablation_table(blocks(2, ["cora"], ["glnn-default", "glnn-without-consistency"]))
    assert table.rows[0][2:] == ["+0.0 [+0.0, +0.0]"]


def test_a_part_that_makes_no_sense_somewhere_is_a_dash(blocks):
    table = ablation_table(blocks(2, ["wine"]))
    assert "without the given graph" not in table.header
    (no_graph,) = [r for r in ablation_table(blocks(2, ["cora"])).rows if "no graph" in r[0]]
    assert "–" in no_graph


def test_the_front_page_has_every_setting_with_the_best_published_number(blocks):
    table = headline_table(blocks(2))
    assert len(table.rows) == 20 + 1 + 2
    row = next(r for r in table.rows if r[0] == "Cora, no graph")
    assert row[1] == "**86.5 ± 0.7**"
    assert row[-1] == "74.2 (SLAPS)"
    assert "**" not in "".join(row[2:])
    assert table.rows[-1][-1] == "–"


def test_a_published_number_that_is_the_best_of_its_row_is_the_one_in_bold(blocks):
    rows = {row[0]: row for row in headline_table(blocks(2)).rows}
    wine = rows["wine, 10 labels"]
    assert wine[-1] == "**98.2 (SUBLIME)**"
    assert "**" not in "".join(wine[:-1])


def test_the_headline_says_what_its_numbers_are(blocks):
    words = headline_words(blocks(2))
    caption, table = words.split("\n\n")
    assert "2 runs" in caption
    assert "seeds from 200 to 201" in caption
    assert "glnn reproduce accuracy" in caption
    assert table.startswith("| setting | GLNN, default |")


def test_without_goals_and_parts_there_is_no_table():
    chosen = get_target("table1").choose(1, ["cora"], ["gcn"])
    results = block_results(chosen, [])
    assert goals_table(results) is ablation_table(results) is headline_table(results) is None
    assert headline_words(results) is None
