"""Each module has its file of tests: src/glnn/a/b.py has tests/a/test_b.py."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "glnn"


def expected_test(module):
    folder = TESTS / module.relative_to(PACKAGE).parent
    return folder / f"test_{module.stem.lstrip('_')}.py"


MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")
)


def test_the_package_has_modules():
    assert PACKAGE / "graph" / "sparse.py" in MODULES


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_has_its_tests(module):
    wanted = expected_test(module)
    assert wanted.is_file(), f"{module.relative_to(PACKAGE)} lacks {wanted.relative_to(TESTS)}"
    assert "def test_" in wanted.read_text(encoding="utf-8")
