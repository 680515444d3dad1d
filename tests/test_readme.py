"""What the front page shows is run, line by line, in a folder with the files it speaks of."""

import re
import shlex
import shutil
from pathlib import Path

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


@pytest.mark.parametrize("code", PYTHON, ids=lambda code: code.splitlines()[-1][:40])
def test_python_of_the_readme_runs(folder, code, capsys):
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    shown = capsys.readouterr().out
    assert shown and "np." not in shown


def test_an_own_table_takes_five_lines():
    (own,) = [code for code in PYTHON if "customers.csv" in code]
    assert len(own.splitlines()) == 5


def test_commands_of_the_readme_run(folder, capsys):
    for line in SHELL:
        program, *args = shlex.split(line)
        assert program == "glnn"
        quick = ["--epochs", "5"] if args[0] == "fit" else []
        assert main([*args, *quick]) == 0, capsys.readouterr().err
    assert "n0,basic" in capsys.readouterr().out
    assert (folder / "runs" / "customers" / "report.html").is_file()


def test_links_of_the_readme_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
