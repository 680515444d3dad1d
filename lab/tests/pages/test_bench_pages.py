import json

import pytest

from glnn.exceptions import InputError
from glnn_lab.pages.bench_pages import (
    compare_page,
    floor_page,
    growth_page,
    processes_page,
    revisions_page,
    scale_page,
    write_bench,
)

COMMON = {"threads": 2, "machine": {"cores": "2"}, "versions": {"torch": "2"}}
ROW = {
    "name": "pyg-gcn",
    "title": "plain GCN",
    "seconds": [1.0, 2.0, 3.0],
    "cpu_seconds": [1.0, 2.5, 3.0],
    "median": 2.0,
    "least": 1.0,
    "most": 3.0,
    "n_epochs": 1200,
    "accuracy": 0.8125,
    "peak_memory_mb": 123.4,
    "note": "",
}
MISSING = {**ROW, "name": "pro-gnn", "title": "Pro-GNN", "seconds": [], "note": "not installed"}
RATIO = {"of": "dense", "to": "pyg-gcn", "median": 85.2, "least": 80.0, "most": 91.0}
RATIO["cpu_median"] = 84.0
SIZES = {"n_nodes": 2708, "n_edges": 5278, "n_features": 1433}
COMPARED = COMMON | {
    "repeats": 3,
    "datasets": {"cora": {**SIZES, "rows": [ROW, MISSING], "ratios": [RATIO]}},
}
GROWN = COMMON | {
    "degree": 10,
    "n_features": 128,
    "n_epochs": 10,
    "rows": [
        {"task": "fit", "n_nodes": 1000, "seconds": 1.5, "peak_memory_mb": 20.0},
        {"task": "fit", "n_nodes": 2000, "error": "out of memory"},
        {"task": "search-exact", "n_nodes": 1000, "seconds": 0.25, "peak_memory_mb": 9.0},
    ],
    "exponents": {"fit": {"seconds": 1.04}},
}
SCALED = COMMON | {
    "size": "arxiv-size",
    "seed": 0,
    "replaced": 0.3,
    "rows": [
        {"title": "GLNN", "n_nodes": 169_343, "seconds": 12.5, "accuracy": 0.71234},
        {"title": "plain GCN", "error": "ended by signal 9"},
    ],
}


def test_times_memory_and_ratios_are_in_the_table():
    page = compare_page(COMPARED)
    assert "| plain GCN | 2 (1 to 3) | 2.5 | 123 | 1,200 | 0.812 |  |" in page
    assert "| Pro-GNN |  |  |  |  |  | not installed |" in page
    assert "| 85.2 | 80 to 91 | 84 |" in page


def test_growth_has_a_column_a_size_and_says_what_failed():
    page = growth_page(GROWN)
    assert "| whole fit, preset default | 1.5 | failed | 1.04 |" in page
    assert "| candidate search, exact | 0.25 |  |  |" in page


def test_scale_shows_the_accuracy_or_why_there_is_none():
    page = scale_page(SCALED)
    assert "| GLNN | 169,343 |  |  | 12.5 |  |  | 0.7123 |" in page
    assert "ended by signal 9 |" in page


def test_the_floor_shows_counts_and_how_far_an_epoch_is_from_it():
    product = {"product": "a × b", "stored": 1200, "width": 16, "operations": 38400, "bytes": 9}
    measured = {"bandwidth": 5e9, "floor_seconds": 1e-4, "epoch_seconds": 3e-4}
    counted = {"dataset": "cora", "products": [product], "passes": ["forward"]}
    page = floor_page(COMMON | counted | measured | {"bytes": 9, "operations": 38400})
    assert "| a × b | 1,200 | 16 | 38,400 | 9 |" in page
    assert "5.0 GB/s" in page
    assert "100 µs an epoch; measured: 300 µs, 3.0 times the floor" in page


def test_both_files_are_written_with_the_command(tmp_path):
    page = write_bench(COMPARED, tmp_path / "new", "compare", "glnn bench")
    assert "    glnn bench\n" in page.read_text(encoding="utf-8")
    stored = json.loads((tmp_path / "new" / "compare.json").read_text(encoding="utf-8"))
    assert stored == {"command": "glnn bench", **COMPARED}


def test_a_file_in_the_place_of_the_folder_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--out must be a folder"):
        write_bench(COMPARED, tmp_path / "file", "compare", "glnn bench")


def test_processes_have_a_row_each_and_made_up_graphs_an_exponent():
    row = {"task": "2", "data": 20_000, "n_epochs": 30, "seconds": 4.0, "cpu_seconds": 7.0}
    row |= {"cpu_of_one": 3.5, "accuracy": 0.75}
    rows = [row, {"task": "4", "data": "cora", "error": "no"}]
    slopes = {"2": {"seconds": 1.05, "cpu_seconds": 1.1}}
    page = processes_page(COMMON | {"n_epochs": 10, "rows": rows, "exponents": slopes})
    assert "| 20,000 | 2 | 30 | 4 | 7 | 3.5 | 0.7500 |" in page
    assert "| cora | 4 | failed | failed | failed | failed | no |" in page
    assert "| 2 | 1.05 | 1.1 |" in page


def test_two_revisions_are_compared_by_ratio_and_difference():
    row = {"dataset": "cora", "preset": "paper", "runs": 2, "seconds_ratio": 1.05}
    row |= {"cpu_seconds_ratio": 0.98, "before": 0.81, "after": 0.82, "difference": 0.01}
    found = COMMON | {"seeds": [200, 201], "summary": [row | {"error": 0.004}]}
    line = "| cora | paper | 2 | 1.05 | 0.98 | 81.0 | 82.0 | +1.0 ± 0.4 |"
    assert line in revisions_page(found)
    assert "seeds 200, 201, 2 thread(s)" in revisions_page(found)
    found["summary"] = [row | {"error": None}]
    assert "| +1.0 |" in revisions_page(found)
