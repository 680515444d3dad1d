"""Which tests reach a line of the library, and how long each takes."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

_MOST_FILES = 12


def measure(root, folder):
    """Run the tests of the library once with the names of those that reach a line, if need be."""
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
    """Tests by the lines that they reach, when it was measured."""

    def __init__(self, folder):
        from coverage import CoverageData

        self.data = CoverageData(str(folder / "coverage"))
        self.data.read()
        self.seconds = _durations(folder / "tests.xml")
        self.digests = json.loads((folder / "sources.json").read_text(encoding="utf-8"))

    def reached(self, root, module, lines, seconds):
        """Return tests that reach the lines: own ones first, quick ones first, so many seconds.

        A line that runs when its module is imported is reached by all of the module's tests; so is
        every line of a module that has changed since.
        """
        by_line = self.data.contexts_by_lineno(self._measured(module))
        known = () if self._has_changed(root, root / "src" / "glnn" / module) else lines
        found = {test for line in known for test in by_line.get(line, ())}
        found = _named(found) or _named({test for tests in by_line.values() for test in tests})
        own = _own_files(module)
        order = sorted(found, key=lambda test: (test.split("::")[0] not in own, self._time(test)))
        return self._cut(order, seconds)

    def is_new(self, test):
        """Whether a test was not there when it was measured."""
        return _key(test) not in self.seconds

    def changed_files(self, root, module):
        """Return the test files of a module's package that have changed since."""
        files = sorted((root / "tests" / module.split("/")[0]).rglob("test_*.py"))
        return [str(path.relative_to(root)) for path in files if self._has_changed(root, path)]

    def _has_changed(self, root, path):
        return self.digests.get(str(path.relative_to(root))) != _digest(path)

    def _measured(self, module):
        return next(name for name in self.data.measured_files() if name.endswith(f"/glnn/{module}"))

    def _time(self, test):
        return self.seconds.get(_key(test), 0.1)

    def _cut(self, tests, seconds):
        """Leave out what is beyond the time or lies in too many files."""
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
    """Return the module itself, for its docstring examples, and its test file."""
    test = Path(module).with_name(f"test_{Path(module).stem.lstrip('_')}.py")
    return {f"src/glnn/{module}", f"tests/{test}"}


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _named(contexts):
    """Return the tests of contexts; an empty context is the import of a module."""
    return {context.rpartition("|")[0] for context in contexts if context}


def _durations(path):
    """Return the seconds of each test by its place and name, as pytest's XML has them."""
    cases = ElementTree.parse(path).iter("testcase")
    return {(case.get("classname"), case.get("name")): float(case.get("time")) for case in cases}


def _key(test):
    """Return the place and name of a test.

    >>> _key("tests/nn/test_heads.py::test_one[3]")
    ('tests.nn.test_heads', 'test_one[3]')
    """
    file, _, name = test.partition("::")
    return file.removesuffix(".py").replace("/", "."), name
