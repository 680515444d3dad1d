import json
from pathlib import Path

import pytest

from glnn import __file__ as library
from glnn_lab.benches import growth


def test_the_smallest_bench_writes_a_page_and_json(glnn, tmp_path):
    words = ("--datasets", "tiny", "--methods", "own-gcn-paper,label-spreading")
    outcome = glnn(
        "bench", *words, "--repeats", "1", "--no-memory", "--threads", "1", "--out", str(tmp_path)
    )
    assert outcome.code == 0, outcome.err
    assert "| label spreading, scikit-learn |" in outcome.out
    assert "repeat 1 of 1" in outcome.err
    rows = json.loads((tmp_path / "compare.json").read_text())["datasets"]["tiny"]["rows"]
    assert [row["name"] for row in rows] == ["own-gcn-paper", "label-spreading"]
    assert all(row["median"] > 0 for row in rows)


def test_growth_and_scale_write_their_pages(glnn, tmp_path, monkeypatch):
    answer = {"seconds": 1.0, "peak_memory_mb": 2.0, "accuracy": 0.5}
    for module in (growth, growth):
        monkeypatch.setattr(module, "run_in_process", lambda *_, **__: answer)
    grown = glnn("bench", "growth", "--sizes", "300,600", "--out", str(tmp_path), "--quiet")
    assert grown.code == 0, grown.err
    assert grown.out == ""
    scaled = glnn("bench", "scale", "--size", "arxiv", "--out", str(tmp_path))
    assert scaled.code == 0, scaled.err
    assert "# arxiv-size" in scaled.out
    assert {path.name for path in tmp_path.iterdir()} == {
        "growth.json",
        "growth.md",
        "scale.json",
        "scale.md",
    }


def test_the_floor_is_written(glnn, tmp_path):
    words = ("--dataset", "tiny", "--threads", "1", "--out", str(tmp_path))
    outcome = glnn("bench", "floor", *words)
    assert outcome.code == 0, outcome.err
    assert "times the floor" in outcome.out


@pytest.mark.slow
def test_another_revision_is_compared(glnn, tmp_path):
    source = str(Path(library).parent.parent)
    words = ("--datasets", "tiny", "--presets", "paper", "--seeds", "1", "--threads", "1")
    outcome = glnn("bench", "revisions", source, *words, "--out", str(tmp_path))
    assert outcome.code == 0, outcome.err
    assert "tiny, paper, seed 200" in outcome.err
    assert "| tiny | paper | 1 |" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "--datasets", "coraa"), "dataset must be one of"),
        (("bench", "growth", "--sizes", "ten,20"), "--sizes must be whole numbers"),
        (("bench", "processes", "--processes", "two"), "--processes must be whole numbers"),
        (("bench", "scale", "--size", "huge"), "arxiv-size, products-size"),
        (("bench", "revisions", "nowhere"), "must hold the package glnn"),
    ],
)
def test_bad_input_is_one_line(glnn, words, said):
    outcome = glnn(*words)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
