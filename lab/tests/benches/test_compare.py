import json

import pytest

from glnn.exceptions import InputError
from glnn_lab.benches import compare
from glnn_lab.benches.compare import BenchPlan, load_bench, run_bench
from glnn_lab.benches.contenders import CONTENDERS


@pytest.fixture(scope="module")
def result():
    methods = ("pyg-gcn", "glnn-paper", "own-gcn-paper", "label-spreading", "dense", "pro-gnn")
    plan = BenchPlan(("tiny",), methods, repeats=1, threads=1, memory=False)
    said, kept = [], []
    found = run_bench(plan, said.append, lambda r: kept.append(json.dumps(r, allow_nan=False)))
    return found, said, kept


def rows_of(result):
    return {row["name"]: row for row in result[0]["datasets"]["tiny"]["rows"]}


def test_every_contender_that_is_installed_is_timed(result):
    pytest.importorskip("torch_geometric")
    rows = rows_of(result)
    for name in ("pyg-gcn", "glnn-paper", "own-gcn-paper", "label-spreading", "dense"):
        assert len(rows[name]["seconds"]) == 1
        assert rows[name]["median"] > 0
    assert rows["pyg-gcn"]["accuracy"] > 0.5
    assert len(result[1]) >= 5
    assert json.loads(result[2][0])["datasets"].keys() == {"tiny"}


def test_our_plain_network_has_the_epochs_of_the_preset(result):
    rows = rows_of(result)
    assert rows["own-gcn-paper"]["n_epochs"] == rows["glnn-paper"]["n_epochs"]


def test_the_dense_form_says_that_it_was_scaled(result):
    assert rows_of(result)["dense"]["note"] == "4 epochs scaled to 200"


def test_ratios_are_those_of_the_times(result):
    pytest.importorskip("torch_geometric")
    rows = rows_of(result)
    ratios = {(r["of"], r["to"]): r for r in result[0]["datasets"]["tiny"]["ratios"]}
    wanted = rows["glnn-paper"]["median"] / rows["pyg-gcn"]["median"]
    assert ratios["glnn-paper", "pyg-gcn"]["median"] == pytest.approx(wanted, rel=1e-6)
    assert ratios["glnn-paper", "own-gcn-paper"]["least"] > 0


def test_a_package_that_is_missing_and_a_matrix_that_is_too_large_are_said(monkeypatch):
    data, _ = load_bench("tiny")
    monkeypatch.setattr(compare, "find_spec", lambda name: None)
    assert compare._empty_row(CONTENDERS["pro-gnn"], data)["note"] == "not installed"
    monkeypatch.setattr(compare, "_machine_bytes", lambda: 10_000.0)
    assert "does not fit" in compare._empty_row(CONTENDERS["dense"], data)["note"]


def test_interleaving_runs_each_contender_once_a_repeat(monkeypatch):
    order = []
    monkeypatch.setattr(compare, "_warm_up", lambda contender: None)
    real = compare._run_once
    monkeypatch.setattr(compare, "_run_once", lambda c, *a: order.append(c.name) or real(c, *a))
    methods = ("label-spreading", "own-gcn-paper")
    run_bench(BenchPlan(("tiny",), methods, repeats=2, threads=1, memory=False))
    assert order == [*methods, *methods]


def test_memory_of_a_run_is_above_that_of_its_libraries():
    found = compare.measure_memory("label-spreading", "tiny", None)
    assert 0 <= found["peak_memory_mb"] < 500


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"datasets": ("coraa",)}, "dataset must be one of"),
        ({"methods": ("gcn",)}, "method must be one of"),
        ({"datasets": ()}, "at least one data set"),
        ({"repeats": 0}, "repeats must be"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        BenchPlan(**({"datasets": ("tiny",)} | changes))


def test_a_data_set_without_a_graph_is_refused():
    with pytest.raises(InputError, match="needs a data set with a graph"):
        load_bench("wine")


def test_the_default_is_cora_where_it_is_here(monkeypatch, tmp_path):
    monkeypatch.setattr(compare, "data_folders", lambda: [tmp_path])
    assert compare.default_datasets() == ("generated",)
    (tmp_path / "cora.npz").touch()
    assert compare.default_datasets() == ("cora",)
