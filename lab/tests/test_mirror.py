"""Each module has its file of tests: src/glnn_lab/a/b.py has tests/a/test_b.py."""

from pathlib import Path

TESTS = Path(__file__).parent


def test_every_module_has_its_tests(untested):
    assert untested(TESTS.parent / "src" / "glnn_lab", TESTS) == []
