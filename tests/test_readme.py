"""What the front page shows is run, line by line, in a folder with the files it speaks of."""

import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from glnn.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SHELL = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_of_the_readme_runs(folder, capsys):
    code = "".join(PYTHON)  # the second block goes on with the table of the first
    n_fits = code.count("GLNNClassifier(random_state=0)")
    quick = code.replace("random_state=0)", "random_state=0, n_epochs=5, n_rounds=1)")
    exec(compile(quick, "README.md", "exec"), known := {})  # noqa: S102
    shown = capsys.readouterr().out
    assert shown and "np." not in shown
    assert n_fits == 2 and known["search"].best_score_ > 0.8
    assert known["search"].best_estimator_[-1].classes_.tolist() == ["basic", "plus", "pro"]


def test_commands_of_the_readme_run_and_refuse_nothing(folder, capsys):
    for line in SHELL:
        program, *args = shlex.split(line)
        assert program == "glnn"
        quick = ["--epochs", "5", "--set", "n_rounds=1", "--folds", "2"] * (args[0] == "fit")
        assert main([*args, *quick]) == 0, capsys.readouterr().err
    assert "n0,basic" in capsys.readouterr().out
    for run in ("customers", "friends"):
        assert (folder / "runs" / run / "report.html").is_file()
        predicted = pd.read_csv(folder / "runs" / run / "predictions.csv", index_col="id")
        plans = [("basic", "plus", "pro")[int(name[1:]) % 3] for name in predicted.index]
        assert (predicted["predicted"] == plans).mean() > 0.8


def test_links_of_the_readme_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
