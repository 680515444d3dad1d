"""What users get: the wheel has the library alone, the sdist what its tests need."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "glnn"
OF_THE_LABORATORY = ("glnn_lab", "baseline", "experiment", "bench", "paper_", "reproduction")


def test_the_wheel_has_every_file_of_the_library_and_nothing_else(built):
    _, names = built(ROOT, "wheel")
    own = {str(p.relative_to(ROOT / "src")) for p in PACKAGE.rglob("*") if p.is_file()}
    wanted = {name for name in own if "__pycache__" not in name}
    assert {name for name in names if ".dist-info/" not in name} == wanted
    for name in names:
        assert not any(word in name for word in OF_THE_LABORATORY), name


def test_the_sdist_has_what_its_tests_need_and_no_results_of_runs(built):
    _, names = built(ROOT, "sdist")
    files = ("Makefile", "conftest.py", "constraints.txt", "pyproject.toml", "README.md", "LICENSE")
    assert {*files, "CONTRIBUTING.md", "CHANGELOG.md"} <= set(names)
    for folder in ("src/glnn", "tests", "examples"):
        own = {str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob("*.py")}
        assert own <= set(names)
    for name in names:
        assert not name.startswith("lab/"), name
        assert not name.endswith((".jsonl", ".npz")), name


def test_no_distribution_holds_a_file_that_git_ignores(built):
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listed.returncode or not (ROOT / ".git").exists():
        pytest.skip("not in a source tree with its history")
    known = set(listed.stdout.splitlines())
    for name in built(ROOT, "sdist")[1]:
        assert name in known or name == "PKG-INFO", name
