import pytest

from glnn.exceptions import InputError
from glnn_lab.benches import growth
from glnn_lab.benches.growth import (
    TASKS,
    exponents,
    measure_fit,
    measure_task,
    run_growth,
    run_scale,
)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_runs_and_is_measured(task):
    found = measure_task(task, 300, 1)
    assert found["seconds"] > 0
    assert found["peak_memory_mb"] >= 0


def test_exponents_are_slopes_in_logarithms():
    rows = [
        {"task": "fit", "n_nodes": n, "seconds": 3e-4 * n**1.25, "peak_memory_mb": 0.1 * n}
        for n in (1000, 2000, 8000)
    ]
    found = exponents(rows)["fit"]
    assert found["seconds"] == pytest.approx(1.25)
    assert found["peak_memory_mb"] == pytest.approx(1.0)


def test_one_size_has_no_exponent():
    assert exponents([{"task": "fit", "n_nodes": 10, "seconds": 1.0}]) == {}


def test_each_size_and_task_has_its_row_and_large_exact_searches_are_left_out(monkeypatch):
    monkeypatch.setattr(
        growth, "run_in_process", lambda job, threads, **a: {"seconds": a["n_nodes"] / 1e3}
    )
    kept = []
    result = run_growth(
        [2000, 1000], tasks=["fit", "search-exact"], threads=1, exact_up_to=1000, keep=kept.append
    )
    done = [(row["task"], row["n_nodes"]) for row in result["rows"]]
    assert done == [("fit", 1000), ("search-exact", 1000), ("fit", 2000)]
    assert result["exponents"]["fit"]["seconds"] == pytest.approx(1.0)
    assert len(kept) == 3


def test_a_single_size_is_refused():
    with pytest.raises(InputError, match="at least two sizes"):
        run_growth([1000], threads=1)


# Scale


@pytest.mark.parametrize("method", ["glnn-gcn", "own-gcn", "linear"])
def test_a_fit_of_a_small_copy_is_measured(method):
    found = measure_fit(method, "arxiv-size", 800, 0.3, 5, 0)
    assert found["n_nodes"] == 800
    assert found["n_edges"] == round(800 * 1_166_243 / 169_343)
    assert found["accuracy"] > 1 / 40
    assert found["seconds"] > 0
    assert found["peak_memory_mb"] >= 0


def test_each_method_has_its_row(monkeypatch):
    asked = []
    monkeypatch.setattr(
        growth, "run_in_process", lambda job, threads, **a: asked.append(a) or {"seconds": 1}
    )
    result = run_scale("arxiv-size", threads=1)
    assert [row["name"] for row in result["rows"]] == list(growth.METHODS)
    assert asked[0]["replaced"] == 0.3


def test_an_unknown_size_is_refused():
    with pytest.raises(InputError, match="must be one of arxiv-size, products-size"):
        run_scale("huge-size", threads=1)


def test_few_nodes_keep_the_mean_degree_of_the_full_size(monkeypatch):
    monkeypatch.setattr(growth, "run_in_process", lambda *_, **a: {"n_nodes": a["n_nodes"]})
    result = run_scale("products-size", n_nodes=500, methods=["linear"], threads=1)
    assert result["rows"][0]["n_nodes"] == 500
