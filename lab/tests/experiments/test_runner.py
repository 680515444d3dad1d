import joblib
import pytest

from glnn.exceptions import InputError
from glnn_lab.experiments import runner
from glnn_lab.experiments.measure import TIMES
from glnn_lab.experiments.runner import attempt, run_grid
from glnn_lab.experiments.store import ResultStore


def untimed(records):
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


@pytest.fixture
def grid(small_cell):
    methods = ("logistic_regression", "label_spreading")
    return [small_cell(method, seed) for method in methods for seed in range(3)]


def test_records_and_file_are_in_the_order_of_the_cells(grid, tmp_path):
    records = run_grid(grid, tmp_path)
    assert [r["id"] for r in records] == [cell.id for cell in grid]
    assert list(ResultStore(tmp_path).read().values()) == records


def test_finished_cells_do_not_run_again(grid, tmp_path, monkeypatch):
    first = run_grid(grid[:4], tmp_path)
    ran = []
    monkeypatch.setattr(runner, "run_cell", lambda cell: ran.append(cell) or {"id": cell.id})
    second = run_grid(grid, tmp_path)
    assert ran == grid[4:]
    assert second[:4] == first


def test_a_run_that_stops_and_goes_on_equals_one_that_does_not(grid, tmp_path):
    whole = run_grid(grid, tmp_path / "whole")

    def stop(event):
        if event.n_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(grid, tmp_path / "cut", progress=stop)
    assert len(ResultStore(tmp_path / "cut").read()) == 2
    with (tmp_path / "cut" / "results.jsonl").open("a") as file:
        file.write('{"id": "torn", "acc')
    run_grid(grid[3:], tmp_path / "cut")  # another order, another part
    run_grid(grid, tmp_path / "cut")
    assert untimed(ResultStore(tmp_path / "cut").read().values()) == untimed(whole)
    lines = (tmp_path / "cut" / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(grid)


def test_without_resume_all_run_again_and_others_are_left_alone(grid, tmp_path, monkeypatch):
    first = run_grid(grid[:3], tmp_path)
    monkeypatch.setattr(runner, "run_cell", lambda cell: {"id": cell.id, "again": True})
    assert all(r["again"] for r in run_grid(grid[:2], tmp_path, resume=False))
    assert ResultStore(tmp_path).read()[grid[2].id] == first[2]


def test_a_cell_that_is_there_twice_runs_once(grid, tmp_path):
    assert len(run_grid([*grid[:2], *grid[:2]], tmp_path)) == 2


def test_a_broken_cell_does_not_stop_the_others_and_is_tried_again(grid, small_cell, tmp_path):
    broken = small_cell("gcn", settings={"n_epoch": 3})
    records = run_grid([grid[0], broken, grid[1]], tmp_path)
    assert "InputError" in records[1]["error"]
    assert "accuracy" in records[2]
    assert list(ResultStore(tmp_path).read()) == [grid[0].id, grid[1].id]
    assert "error" in attempt(broken)


def test_progress_counts_from_what_was_there(grid, tmp_path):
    run_grid(grid[:2], tmp_path)
    events = []
    run_grid(grid[:4], tmp_path, progress=events.append)
    assert [(e.n_done, e.n_cells) for e in events] == [(2, 4), (3, 4), (4, 4)]
    assert events[0].record is None
    assert events[-1].record["accuracy"] > 0


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_the_callers_backend_is_used_and_changes_no_number(grid, tmp_path, backend):
    alone = run_grid(grid[:3], tmp_path / "alone")
    with joblib.parallel_config(backend=backend):
        records = run_grid(grid[:3], tmp_path / backend, jobs=1 if backend == "threading" else 2)
    assert untimed(records) == untimed(alone)


def test_two_processes_give_the_bits_of_one(small_cell, tmp_path):
    cells = [small_cell(method, seed) for method in ("glnn-paper", "gcn") for seed in range(2)]
    one, two = (run_grid(cells, tmp_path / str(jobs), jobs=jobs) for jobs in (1, 2))
    assert untimed(one) == untimed(two)


def test_bad_arguments_are_one_line(grid, tmp_path):
    with pytest.raises(InputError, match="at least one cell"):
        run_grid([], tmp_path)
    with pytest.raises(InputError, match="jobs"):
        run_grid(grid, tmp_path, jobs=0)
