import pytest

from glnn_lab.experiments.aggregate import Summary, compare_paired
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.records import ResultStore, join_results
from glnn_lab.experiments.targets import get_target, list_cells
from glnn_lab.pages.goal_tables import ablation_table, goals_table, headline_table, render_headline
from glnn_lab.pages.paper_tables import (
    block_notes,
    block_tables,
    format_difference,
    format_mean,
    markdown_table,
)
from glnn_lab.pages.reproduction import RunRequest, describe_plan, plan_table, plan_targets


def fake(cell):
    accuracy = {"glnn": 0.85, "gcn": 0.80}.get(cell.method, 0.5) + 0.01 * (cell.seed - FIRST_SEED)
    if cell.method == "gcn":
        accuracy += 0.001 * (cell.seed - FIRST_SEED)
    costs = {"seconds": 2.0, "peak_memory_mb": 400.0}
    return {"id": cell.id, **cell.to_dict(), "accuracy": accuracy, **costs}


def tables(target, *choice):
    chosen = get_target(target).choose(*choice)
    records = [fake(cell) for cell in list_cells(chosen)]
    return [block_tables(block) for block in join_results(chosen, records)]


def test_methods_by_data_sets_with_the_papers_number_beside_ours():
    five, full = tables("table1", 3, ["cora", "pubmed"], ["glnn-default", "gcn"])
    numbers, compared, costs = five
    assert list(numbers.header) == ["method", "Cora"]
    assert numbers.rows[0] == ["GLNN, default", "86.0 ± 1.0 (83.4)"]
    assert full[0].rows[0] == ["GLNN, default", "86.0 ± 1.0"]
    assert compared.rows[0][:4] == ["Cora", "GCN", "+4.90", "[+4.65, +5.15]"]
    assert costs.rows[1] == ["GCN", "2.0 s, 400 MB, 3"]
    assert "| GLNN, default | 86.0 ± 1.0 (83.4) |" in numbers.markdown(with_title=False)


def test_an_axis_becomes_columns():
    paper, default, _ = tables("table2", 2, ["cora"])
    (numbers,) = paper
    assert list(numbers.header[:3]) == ["data set", "method", "λ0 1"]
    assert numbers.rows[0][4] == "50.5 ± 0.7 (83.4)"
    assert "(" not in "".join(default[0].rows[0][2:])


def test_comparisons_along_an_axis_name_their_place():
    _, compared = tables("robustness", 2, ["cora"], ["glnn", "gcn"])[0]
    assert compared.header[2] == "share of labelled nodes"
    assert len(compared.rows) == 2 * 5


def test_counts_of_graphs_are_means_over_seeds():
    def step(name, number, n_new):
        counts = {"n_edges": 5, "n_new": n_new, "n_lost": 0, "equal_new": 1}
        rates = {"distance": 0.5, "sparsity": 0.9, "n_new_labelled": n_new}
        return {"step": name, "number": number, **counts, **rates}

    chosen = get_target("adjacency").choose(2, ["cora"], ["glnn-default"])
    records = [
        {
            "id": c.id,
            **c.to_dict(),
            "snapshots": [step("given", 0, 0), step("round", 2, 2 + 2 * (c.seed - FIRST_SEED))],
        }
        for c in list_cells(chosen)
    ]
    (results,) = join_results(chosen, records)
    (table,) = block_tables(results)
    assert table.rows[0][:2] == ["Cora", "given"]
    assert table.rows[1] == ["Cora", "round 2", "0.500", "0.9000", "5", "3", "0", "1 (33 %)"]


def test_notes_say_what_was_not_run_and_what_failed():
    chosen = get_target("table1").choose(1, ["pubmed", "cora"], ["glnn"])
    records = [fake(cell) for cell in list_cells(chosen)]
    (broken,) = [r for r in records if r["method"] == "glnn-literal"]
    broken["error"] = "MemoryError: no"
    text = "\n".join(line for r in join_results(chosen, records) for line in block_notes(r))
    assert "not run" in text
    assert "50 epochs" in text
    assert "Failed: glnn-literal on cora: MemoryError: no" in text


@pytest.mark.parametrize(
    ("values", "paper", "words"),
    [
        ([80.0], None, "80.0"),
        ([80.0, 82.0], None, "81.0 ± 1.4"),
        ([], 70.0, "– (70.0)"),
        ([], None, "–"),
    ],
)
def test_numbers_in_words(values, paper, words):
    assert format_mean(Summary.of(values) if values else None, paper) == words


def test_a_test_that_says_nothing_is_a_dash():
    assert format_difference(compare_paired({0: 2.0, 1: 2.0}, {0: 1.0, 1: 1.0}))[3] == "–"


def test_the_screen_shows_every_cell():
    ((numbers, *_),) = tables("table1", 2, ["cora"], ["gcn"])
    assert numbers.rich().row_count == len(numbers.rows) == 1


# Markdown


def test_a_cell_is_one_line_and_its_bars_are_no_borders():
    table = markdown_table(["method", "note"], [["a|b", "two\nlines"], ["c", ""]])
    assert table.splitlines() == [
        "| method | note |",
        "|---|---|",
        "| a\\|b | two lines |",
        "| c |  |",
    ]


# The plan

WANTED = RunRequest(2, ("cora",), ("gcn",))


def test_cells_and_times_of_all_targets_each_once(tmp_path):
    targets = [get_target("table1"), get_target("accuracy")]
    first, *_ = list_cells(WANTED.choose_blocks(targets[0]))
    ResultStore(tmp_path).append({"id": first.id, **first.to_dict(), "cpu_seconds": 3.0})
    plan = plan_targets(targets, WANTED, tmp_path)
    n_cells = len({cell for target in targets for cell in list_cells(WANTED.choose_blocks(target))})
    assert plan_table(plan).rows == [
        ["gcn", "1", str(n_cells), "1", f"{3 * n_cells}"],
        ["all", "1", str(n_cells), "1", f"{3 * n_cells}"],
    ]
    left = f"the others need about {3 * (n_cells - 1)} core seconds."
    assert describe_plan(plan) == f"1 of {n_cells} cells are finished; {left}"


def test_without_earlier_times_nothing_is_promised(tmp_path):
    plan = plan_targets([get_target("table1")], WANTED, tmp_path)
    assert (
        describe_plan(plan) == "0 of 2 cells are finished; 2 have no earlier time to estimate from."
    )
    assert plan_table(plan).rows[0] == ["gcn", "1", "2", "0", "–"]


# Goals

PERCENT = {
    "glnn": 86.0,
    "glnn-without-consistency": 86.0,
    "glnn-without-glr": 84.0,
    "glnn-without-rounds": 87.0,
    "gcn": 80.0,
}


def made_up_run(cell):
    accuracy = PERCENT.get(cell.method, 50.0) / 100 + 0.01 * (cell.seed - FIRST_SEED)
    costs = {"seconds": 2.0, "peak_memory_mb": 400.0}
    return {"id": cell.id, **cell.to_dict(), "accuracy": accuracy, **costs}


@pytest.fixture
def blocks():
    def run(*choice):
        chosen = get_target("accuracy").choose(*choice)
        return join_results(chosen, [made_up_run(cell) for cell in list_cells(chosen)])

    return run


def test_a_goal_is_met_or_the_gap_is_told(blocks):
    rows = {row[0]: row[1:] for row in goals_table(blocks(3, ["cora"])).rows}
    met, missed = rows["Cora, public split"], rows["Cora, 50 % of edges replaced"]
    assert met[:3] == ["87.0 ± 1.0", "3", "2.0"]
    assert met[3] == "84.6 GRCN in OpenGSL, 85.8 GRCN with UnGSL"
    assert met[4:] == ["≥ 85.8", "yes (+1.20)"]
    assert missed[4:] == ["> GAT, ≥ GCN + 10", "no (-4.00)"]
    assert len(rows) == 2 + 1 + 1 + 3 + 4 + 3


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
    words = render_headline(blocks(2))
    caption, table = words.split("\n\n")
    assert "2 runs" in caption
    assert "seeds 300 to 301" in caption
    assert "glnn reproduce accuracy" in caption
    assert table.startswith("| setting | GLNN, default |")


def test_without_goals_and_parts_there_is_no_table():
    chosen = get_target("table1").choose(1, ["cora"], ["gcn"])
    results = join_results(chosen, [])
    assert goals_table(results) is ablation_table(results) is headline_table(results) is None
    assert render_headline(results) is None
