import pytest

from glnn.exceptions import InputError
from glnn_lab.benches import scale
from glnn_lab.benches.scale import measure_fit, run_scale


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
        scale, "in_fresh_process", lambda job, threads, **a: asked.append(a) or {"seconds": 1}
    )
    result = run_scale("arxiv-size", threads=1)
    assert [row["name"] for row in result["rows"]] == list(scale.METHODS)
    assert asked[0]["replaced"] == 0.3


def test_an_unknown_size_is_refused():
    with pytest.raises(InputError, match="must be one of arxiv-size, products-size"):
        run_scale("huge-size", threads=1)


def test_few_nodes_keep_the_mean_degree_of_the_full_size(monkeypatch):
    monkeypatch.setattr(scale, "in_fresh_process", lambda *_, **a: {"n_nodes": a["n_nodes"]})
    result = run_scale("products-size", n_nodes=500, methods=["linear"], threads=1)
    assert result["rows"][0]["n_nodes"] == 500
