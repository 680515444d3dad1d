import pandas as pd
import pytest

from glnn.exceptions import InputError
from glnn_lab.benches import first
from glnn_lab.benches.first import run_first, time_command, write_table
from glnn_lab.pages.bench_pages import first_page


def test_the_command_is_timed_on_a_table_with_100_labels(tmp_path):
    table = tmp_path / "rows.csv"
    write_table(table, 200)
    frame = pd.read_csv(table, index_col="id")
    assert frame.shape == (200, 21) and frame["kind"].notna().sum() == 100
    found = time_command(table, 1, 2)
    assert found["seconds"] > 0 and found["cpu_seconds"] > 0
    assert (tmp_path / "rows" / "report.html").is_file()
    assert "must be a file" in time_command(tmp_path / "none.csv", 1, 2)["error"]


def test_each_size_runs_alone_and_beside_others_and_the_page_has_the_ratio(monkeypatch):
    def timed(table, threads, epochs):
        return {"seconds": 3.0 if threads is None else 2.0, "cpu_seconds": 4.0}

    monkeypatch.setattr(first, "time_command", timed)
    kept = []
    result = run_first([200, 300], n_busy=1, n_epochs=2, keep=kept.append)
    assert [(row["n_rows"], row["busy"], row["threads"]) for row in result["rows"]] == [
        (size, busy, threads) for size in (200, 300) for busy in (0, 1) for threads in (None, 1)
    ]
    assert len(kept) == 8
    assert "| 300 | 1 | 3 | 4 | 2 | 4 | 1.5 | 1 |" in first_page(result)
    failed = result | {"rows": [{**result["rows"][0]}, {**result["rows"][1], "error": "x"}]}
    del failed["rows"][1]["seconds"], failed["rows"][1]["cpu_seconds"]
    assert "| 200 | 0 | 3 | 4 | failed | failed |  |  |" in first_page(failed)


@pytest.mark.parametrize("sizes", [[], [100]])
def test_nothing_to_measure_is_refused(sizes):
    with pytest.raises(InputError, match="sizes"):
        run_first(sizes)
