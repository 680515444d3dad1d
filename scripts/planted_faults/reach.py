"""Coverage by test: the tests that reach a line of the library, and their times."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

_MOST_FILES = 12


def measure(root, folder):
    """Run all tests once with coverage contexts, unless the folder has their result."""
    if (folder / "coverage").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    print("measuring which tests reach which line: about twenty minutes", flush=True)
    files = [path for name in ("src", "tests") for path in (root / name).rglob("*.py")]
    digests = {str(path.relative_to(root)): _digest(path) for path in files}
    (folder / "sources.json").write_text(json.dumps(digests), encoding="utf-8")
    wanted = ["--cov", "--cov-context=test", "--cov-report=", f"--junitxml={folder / 'tests.xml'}"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    subprocess.run(
        [*pytest, *wanted, "src", "tests"],
        cwd=root,
        env={**os.environ, "COVERAGE_FILE": str(folder / "coverage")},
        check=True,
    )


class Reach:
    """The measured coverage by test."""

    def __init__(self, folder):
        from coverage import CoverageData

        self.data = CoverageData(str(folder / "coverage"))
        self.data.read()
        self.seconds = _durations(folder / "tests.xml")
        self.digests = json.loads((folder / "sources.json").read_text(encoding="utf-8"))

    def select_tests(self, root, module, lines, seconds):
        """Return the tests that reach the lines, at most ``seconds`` of them.

        Tests of the module come first, then faster ones. Lines that run at import, and all lines of
        a module that has changed since the measurement, are reached by all tests of the module.
        """
        by_line = self.data.contexts_by_lineno(self._measured_file(module))
        known = () if self._has_changed(root, root / "src" / "glnn" / module) else lines
        found = {test for line in known for test in by_line.get(line, ())}
        found = _test_names(found) or _test_names(
            {test for tests in by_line.values() for test in tests}
        )
        own = _own_files(module)
        order = sorted(found, key=lambda test: (test.split("::")[0] not in own, self._time(test)))
        return self._limit(order, seconds)

    def is_new(self, test):
        """Return whether a test is newer than the measurement."""
        return _key(test) not in self.seconds

    def changed_files(self, root, module):
        """Return the test files of a module's package that have changed since the measurement."""
        files = sorted((root / "tests" / module.split("/")[0]).rglob("test_*.py"))
        return [str(path.relative_to(root)) for path in files if self._has_changed(root, path)]

    def _has_changed(self, root, path):
        return self.digests.get(str(path.relative_to(root))) != _digest(path)

    def _measured_file(self, module):
        return next(name for name in self.data.measured_files() if name.endswith(f"/glnn/{module}"))

    def _time(self, test):
        return self.seconds.get(_key(test), 0.1)

    def _limit(self, tests, seconds):
        """Return the first tests within the time and the number of files."""
        chosen, files = [], set()
        for test in tests:
            seconds -= self._time(test)
            file = test.split("::")[0]
            if (seconds < 0 and chosen) or (file not in files and len(files) == _MOST_FILES):
                continue
            files.add(file)
            chosen.append(test)
        return chosen


def _own_files(module):
    """Return the module (for its doctests) and its test file."""
    test = Path(module).with_name(f"test_{Path(module).stem.lstrip('_')}.py")
    return {f"src/glnn/{module}", f"tests/{test}"}


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _test_names(contexts):
    """Return the names of the tests of coverage contexts; an empty context is an import."""
    return {context.rpartition("|")[0] for context in contexts if context}


def _durations(path):
    """Return the seconds of each test by module and name, from pytest's XML."""
    cases = ElementTree.parse(path).iter("testcase")
    return {(case.get("classname"), case.get("name")): float(case.get("time")) for case in cases}


def _key(test):
    """Return module and name of a test.

    >>> _key("tests/nn/test_heads.py::test_one[3]")
    ('tests.nn.test_heads', 'test_one[3]')
    """
    file, _, name = test.partition("::")
    return file.removesuffix(".py").replace("/", "."), name
