from pathlib import Path

import pytest

import glnn
from glnn.exceptions import InputError
from glnn_lab.benches import revisions
from glnn_lab.benches.revisions import Revision, run_revisions, summarize

SOURCE = Path(glnn.__file__).parent.parent


def row(name="cora", preset="default", *, before, after):
    keys = ("seconds", "cpu_seconds", "accuracy")
    sides = {"before": dict(zip(keys, before)), "after": dict(zip(keys, after))}
    return {"dataset": name, "preset": preset, "seed": 0, **sides}


@pytest.mark.slow
def test_the_library_and_itself_are_right_on_the_same_nodes():
    kept = []
    found = run_revisions(
        SOURCE, datasets=["tiny"], presets=["paper"], seeds=[3, 4], threads=1, keep=kept.append
    )
    assert [r["seed"] for r in found["rows"]] == [3, 4]
    assert all(r["before"]["n_epochs"] == r["after"]["n_epochs"] > 0 for r in found["rows"])
    (only,) = found["summary"]
    assert only["before"] == only["after"] > 0.5
    assert only["difference"] == only["error"] == 0
    assert kept == [found]


def test_ratios_are_medians_and_differences_are_paired():
    rows = [
        row(before=(1.0, 2.0, 0.8), after=(2.0, 2.0, 0.82)),
        row(before=(1.0, 2.0, 0.7), after=(3.0, 2.0, 0.74)),
        row(before=(1.0, 2.0, 0.6), after=(9.0, 2.0, 0.66)),
        row("pubmed", before=(1.0, 1.0, 0.5), after=(1.0, 1.0, 0.4)),
    ]
    cora, pubmed = summarize(rows)
    assert (cora["seconds_ratio"], cora["cpu_seconds_ratio"], cora["runs"]) == (3.0, 1.0, 3)
    assert (cora["before"], cora["after"]) == (pytest.approx(0.7), pytest.approx(0.74))
    assert cora["difference"] == pytest.approx(0.04)
    assert cora["error"] == pytest.approx(0.02 / 3**0.5)
    assert pubmed["difference"] == pytest.approx(-0.1) and pubmed["error"] is None


def test_a_folder_without_the_package_is_refused(tmp_path):
    with pytest.raises(InputError, match="must hold the package glnn"):
        run_revisions(tmp_path, datasets=["tiny"], seeds=[0], threads=1)


def test_a_library_that_does_not_import_is_refused(tmp_path):
    (tmp_path / "glnn").mkdir()
    (tmp_path / "glnn" / "__init__.py").write_text("raise SystemExit(1)\n")
    with pytest.raises(InputError, match="must answer, got an end"):
        Revision(tmp_path, 1)


@pytest.mark.slow
def test_a_fit_that_fails_is_told_with_its_side(tmp_path):
    (tmp_path / "glnn").mkdir()
    (tmp_path / "glnn" / "__init__.py").write_text("")
    with pytest.raises(InputError, match="the library before must fit, got ImportError"):
        run_revisions(tmp_path, datasets=["tiny"], seeds=[0], threads=1)


@pytest.mark.parametrize(
    "changed", [{"datasets": ["moon"]}, {"presets": ["literal"]}, {"seeds": []}, {"threads": 0}]
)
def test_what_cannot_be_compared_is_refused(changed):
    asked = {"datasets": ["tiny"], "seeds": [0], "threads": 1} | changed
    with pytest.raises(InputError):
        run_revisions(SOURCE, **asked)


def test_another_library_that_answers_is_noticed(tmp_path, monkeypatch):
    said = 'import sys; print(\'{"library": "/elsewhere/glnn/__init__.py"}\', flush=True)'
    other = tmp_path / "child.py"
    other.write_text(said)
    monkeypatch.setattr(revisions, "_CHILD", other)
    with pytest.raises(InputError, match="must answer, got /elsewhere"):
        Revision(SOURCE, 1)
