"""The script that plants faults: what it plants, which tests it runs, and what it says."""

import random
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "scripts" / "planted_faults"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the repository")
SOURCE = "def larger(a, b, *, c=1):\n    if a > b:\n        return a + c\n    return b\n"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


def test_a_fault_is_one_line_of_code_and_the_same_for_the_same_seed(script):
    pytest.importorskip("cosmic_ray")
    faults = script("faults")
    found = faults["faults"](SOURCE, random.Random(0), 100)
    assert faults["faults"](SOURCE, random.Random(0), 100) == found
    changed = [faults["changed_line"](SOURCE, text) for _, text in found]
    assert set(changed) == {2, 3}
    assert ("ReplaceBinaryOperator_Add_Sub", SOURCE.replace("a + c", "a - c")) in found
    assert all(len(faults["difference"](SOURCE, text)) == 2 for _, text in found)


@pytest.mark.parametrize(("line", "lines"), [(1, [1]), (2, [2]), (3, [3]), (4, [4])])
def test_the_tests_of_a_line_are_those_of_its_innermost_statement(script, line, lines):
    assert list(script("faults")["statement_lines"](SOURCE, line)) == lines
