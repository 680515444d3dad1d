"""Each module has its file of tests: src/glnn/a/b.py has tests/a/test_b.py."""

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "glnn"


def test_every_module_has_its_tests(untested):
    assert untested(PACKAGE, TESTS) == []


def test_a_module_without_tests_is_named(untested, tmp_path):
    package, tests = tmp_path / "package", tmp_path / "tests"
    for folder, name, text in (
        (package, "_a.py", ""),
        (package, "b.py", ""),
        (package / "c", "__init__.py", ""),
        (package / "c", "d.py", ""),
        (tests, "test_a.py", "def test_it(): ..."),
        (tests / "c", "test_d.py", "nothing here"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert untested(package, tests) == ["b.py", "c/d.py"]
