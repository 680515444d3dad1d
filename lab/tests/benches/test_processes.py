import pytest

from glnn.exceptions import InputError
from glnn_lab.benches import processes
from glnn_lab.benches.child import run_in_process
from glnn_lab.benches.processes import run_processes


@pytest.mark.slow
def test_two_processes_fit_what_one_fits():
    one, two = (
        run_in_process("processes", 1, processes=count, data="tiny", n_epochs=20)
        for count in (1, 2)
    )
    assert one["n_nodes"] == two["n_nodes"] == 120
    assert one["cpu_seconds"] == one["cpu_of_one"] > 0
    assert two["cpu_of_one"] < two["cpu_seconds"] <= 2 * two["cpu_of_one"]
    assert abs(one["accuracy"] - two["accuracy"]) < 0.15


def test_every_number_of_processes_has_its_row_and_sizes_an_exponent(monkeypatch):
    def measured(job, threads, *, processes, data, n_epochs):
        n_nodes = data if isinstance(data, int) else 7
        return {"n_nodes": n_nodes, "seconds": n_nodes / processes, "n_epochs": n_epochs}

    monkeypatch.setattr(processes, "run_in_process", measured)
    kept = []
    result = run_processes(["cora", 200, 400], processes=[1, 2], n_epochs=3, keep=kept.append)
    done = [(row["data"], row["task"]) for row in result["rows"]]
    assert done == [(data, count) for data in ("cora", 200, 400) for count in ("1", "2")]
    assert result["exponents"]["2"]["seconds"] == pytest.approx(1.0)
    assert len(kept) == 6


@pytest.mark.parametrize(("data", "counts"), [([], [1]), (["cora"], []), (["cora"], [0])])
def test_nothing_to_measure_is_refused(data, counts):
    with pytest.raises(InputError, match="processes"):
        run_processes(data, processes=counts)
