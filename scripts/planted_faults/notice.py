"""Run tests on a copy of the repository, each time in a new child process."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NO_TESTS = 5  # exit code of pytest if no test was collected


def copy_repository(folder):
    """Return a copy of the files under version control, to plant faults in."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def test_with_fault(copy, module, text, chosen, seconds):
    """Plant a fault and run tests; return the first that fails, ``None`` if all pass."""
    path = copy / "src" / "glnn" / module
    whole = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    try:
        return first_failure(copy, chosen, seconds)
    finally:
        path.write_text(whole, encoding="utf-8")


def first_failure(copy, chosen, seconds):
    """Run tests in a child of this process; return the first that fails, ``None`` if all pass."""
    failure_path = copy / "failed.txt"
    failure_path.write_text("", encoding="utf-8")
    began, child = time.monotonic(), os.fork()
    if child == 0:
        _run_tests(copy, chosen, failure_path)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            passed = os.waitstatus_to_exitcode(status) in (0, NO_TESTS)
            return None if passed else failure_path.read_text(encoding="utf-8") or "import"
        if time.monotonic() - began > seconds:
            os.killpg(child, 9)
            os.waitpid(child, 0)
            return "time"
        time.sleep(0.02)


def _run_tests(copy, chosen, failure_path):
    """Run pytest and exit with its code; this function does not return."""
    import pytest

    code = 99
    with contextlib.suppress(BaseException):
        os.chdir(copy)
        os.setpgid(0, 0)
        sys.path.insert(0, str(copy / "src"))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
        plugins = [SelectionPlugin(chosen), FailurePlugin(failure_path)]
        code = pytest.main(["-x", "-q", *quiet, *chosen.files], plugins=plugins)
    os._exit(int(code))


class TestSelection:
    """Tests by name in order, and the new tests of some files."""

    def __init__(self, names, files=(), is_new=lambda name: False):
        self.place = {name: place for place, name in enumerate(names)}
        self.files_with_new, self.is_new = set(files), is_new
        self.files = sorted({name.split("::")[0] for name in names} | self.files_with_new)

    def __contains__(self, name):
        return name in self.place or (
            name.split("::")[0] in self.files_with_new and self.is_new(name)
        )


class SelectionPlugin:
    """A pytest plugin that runs the selected tests, new ones first."""

    def __init__(self, choice):
        self.choice = choice

    def pytest_collection_modifyitems(self, items):
        """Replace the collected tests."""
        found = [item for item in items if item.nodeid in self.choice]
        items[:] = sorted(found, key=lambda item: self.choice.place.get(item.nodeid, -1))


class FailurePlugin:
    """A pytest plugin that writes the name of the failed test."""

    def __init__(self, failure_path):
        self.failure_path = failure_path

    def pytest_runtest_logreport(self, report):
        """Write the name of a failed test."""
        if report.failed:
            self.failure_path.write_text(report.nodeid, encoding="utf-8")


def preload():
    """Import the packages that every child needs, except glnn, so that children start fast."""
    import beartype
    import hypothesis
    import jaxtyping
    import pandas
    import pytest
    import scipy.sparse.linalg
    import sklearn.linear_model
    import torch

    torch.set_num_threads(1)
    assert "glnn" not in sys.modules
    return beartype, hypothesis, jaxtyping, pandas, pytest, scipy, sklearn
