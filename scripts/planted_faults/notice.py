"""Tests that are run on a copy of the repository, each time in a fresh child of this process."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NO_TESTS = 5
"""What pytest ends with where there was no test."""


def copy_of_repository(folder):
    """Return a copy of the files under version control, to plant faults in."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def notices(copy, module, text, chosen, seconds):
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
    said = copy / "failed.txt"
    said.write_text("", encoding="utf-8")
    began, child = time.monotonic(), os.fork()
    if child == 0:
        _run_tests(copy, chosen, said)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            passed = os.waitstatus_to_exitcode(status) in (0, NO_TESTS)
            return None if passed else said.read_text(encoding="utf-8") or "import"
        if time.monotonic() - began > seconds:
            os.killpg(child, 9)
            os.waitpid(child, 0)
            return "time"
        time.sleep(0.02)


def _run_tests(copy, chosen, said):
    """Never returns: the process ends with the answer of pytest."""
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
        plugins = [Chosen(chosen), Failure(said)]
        code = pytest.main(["-x", "-q", *quiet, *chosen.files], plugins=plugins)
    os._exit(int(code))


class Choice:
    """Tests by name in their order, and with them those of some files that are new."""

    def __init__(self, names, files=(), is_new=lambda name: False):
        self.place = {name: place for place, name in enumerate(names)}
        self.new_in, self.is_new = set(files), is_new
        self.files = sorted({name.split("::")[0] for name in names} | self.new_in)

    def __contains__(self, name):
        return name in self.place or (name.split("::")[0] in self.new_in and self.is_new(name))


class Chosen:
    """A plugin of pytest that runs the chosen tests, new ones first."""

    def __init__(self, choice):
        self.choice = choice

    def pytest_collection_modifyitems(self, items):
        """Take the place of what was collected."""
        found = [item for item in items if item.nodeid in self.choice]
        items[:] = sorted(found, key=lambda item: self.choice.place.get(item.nodeid, -1))


class Failure:
    """A plugin of pytest that notes which test failed."""

    def __init__(self, said):
        self.said = said

    def pytest_runtest_logreport(self, report):
        """Note it."""
        if report.failed:
            self.said.write_text(report.nodeid, encoding="utf-8")


def preload():
    """Import what every child needs, glnn excepted, so that a child starts at once."""
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
