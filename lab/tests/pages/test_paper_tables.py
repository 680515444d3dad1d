import pytest

from glnn_lab.experiments.aggregate import Summary, paired
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.results import block_results
from glnn_lab.experiments.targets import cells_of, get_target
from glnn_lab.pages.paper_tables import block_tables, difference_words, notes, number_words


def fake(cell):
    accuracy = {"glnn": 0.85, "gcn": 0.80}.get(cell.method, 0.5) + 0.01 * (cell.seed - FIRST_SEED)
    if cell.method == "gcn":
        accuracy += 0.001 * (cell.seed - FIRST_SEED)
    costs = {"seconds": 2.0, "peak_memory_mb": 400.0}
    return {"id": cell.id, **cell.to_dict(), "accuracy": accuracy, **costs}


def tables(target, *choice):
    chosen = get_target(target).choose(*choice)
    records = [fake(cell) for cell in cells_of(chosen)]
    return [block_tables(block) for block in block_results(chosen, records)]


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
        for c in cells_of(chosen)
    ]
    (results,) = block_results(chosen, records)
    (table,) = block_tables(results)
    assert table.rows[0][:2] == ["Cora", "given"]
    assert table.rows[1] == ["Cora", "round 2", "0.500", "0.9000", "5", "3", "0", "1 (33 %)"]


def test_notes_say_what_was_not_run_and_what_failed():
    chosen = get_target("table1").choose(1, ["pubmed", "cora"], ["glnn"])
    records = [fake(cell) for cell in cells_of(chosen)]
    (broken,) = [r for r in records if r["method"] == "glnn-literal"]
    broken["error"] = "MemoryError: no"
    text = "\n".join(line for r in block_results(chosen, records) for line in notes(r))
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
    assert number_words(Summary.of(values) if values else None, paper) == words


def test_a_test_that_says_nothing_is_a_dash():
    assert difference_words(paired({0: 2.0, 1: 2.0}, {0: 1.0, 1: 1.0}))[3] == "–"


def test_the_screen_shows_every_cell():
    ((numbers, *_),) = tables("table1", 2, ["cora"], ["gcn"])
    assert numbers.rich().row_count == len(numbers.rows) == 1
