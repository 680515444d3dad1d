"""Every example runs as a user would run it, with few epochs."""

import runpy
import sys
from pathlib import Path

import matplotlib
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    quick = ["--epochs", "5"] if "--epochs" in path.read_text(encoding="utf-8") else []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *quick])
    with matplotlib.rc_context({"backend": "template"}):
        runpy.run_path(str(path), run_name="__main__")
    shown = capsys.readouterr()
    assert shown.out and not shown.err
