"""Plant small faults in modules, and count those that the tests of the same module notice.

    python scripts/mutants.py --packages objective,solver --per-module 6 --out mutants.jsonl

A fault is one change of an operator, a number or a condition by Cosmic Ray. It is planted in a
copy of the repository; the module's own test file and its docstring examples are run. What was
tried before is kept in the file, so a run that was interrupted goes on.
"""

import argparse
import contextlib
import difflib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "objective,solver,nn,engine,quality,data"
_BINARY = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")
_COMPARED = ("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt")
OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in _BINARY),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in (*_COMPARED, "Eq_NotEq", "NotEq_Eq")),
    "core/ReplaceUnaryOperator_Delete_USub",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/NumberReplacer",
    "core/AddNot",
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceBreakWithContinue",
    "core/ZeroIterationForLoop",
)


def faults(source, rng, most):
    """Return so many faults of a source, each as its changed lines and the whole text."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    found = []
    for name in OPERATORS:
        operator, occurrence = get_operator(name)(), 0
        while (text := mutate_code(source, operator, occurrence)) is not None:
            occurrence += 1
            if text != source and _is_code(source, text):
                found.append((name.removeprefix("core/"), text))
    return rng.sample(found, min(most, len(found)))


def _is_code(source, text):
    """Leave out faults in annotations, docstrings and messages, which change no behaviour."""
    changed = [line[1:].strip() for line in _diff(source, text) if line[:1] in "+-"]
    return not any(line.startswith(("def ", "@", '"', "f'", 'f"', ">>>")) for line in changed)


def _diff(source, text):
    lines = difflib.unified_diff(source.splitlines(), text.splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def notices(copy, module, text, seconds):
    """Plant a fault, run the tests of its module in a child of this process; say how it ended."""
    path = copy / "src" / "glnn" / module
    whole = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _run_tests(copy, module)
    try:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
            if time.monotonic() - began > seconds:
                os.kill(child, 9)
                os.waitpid(child, 0)
                return "timeout"
            time.sleep(0.02)
    finally:
        path.write_text(whole, encoding="utf-8")


def _run_tests(copy, module):
    """Never returns: the process ends with the answer of pytest."""
    import pytest

    code = 99
    with contextlib.suppress(BaseException):
        os.chdir(copy)
        sys.path.insert(0, str(copy / "src"))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
        code = pytest.main(["-x", "-q", *quiet, *tests_of(copy, module)])
    os._exit(int(code))


def tests_of(copy, module):
    """Return the module itself, for its docstring examples, and its test file."""
    test = copy / "tests" / Path(module).with_name(f"test_{Path(module).stem.lstrip('_')}.py")
    return [str(copy / "src" / "glnn" / module), str(test)]


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


def copy_of_repository(folder):
    """Return a copy to plant faults in."""
    for name in ("src", "tests", "conftest.py", "pyproject.toml", "README.md"):
        source, target = ROOT / name, folder / name
        ignored = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)
    return folder


def main():
    """Plant, run, count."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--packages", default=PACKAGES)
    parser.add_argument("--modules", default="", help="such as engine/trained.py, with commas")
    parser.add_argument("--per-module", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="before a fault counts as noticed"
    )
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    modules = [name for name in options.modules.split(",") if name] or modules_of(options.packages)
    preload()
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_repository(Path(folder))
        for module in modules:
            run_module(copy, module, options)
    report(options.out)


def modules_of(packages):
    """Return the modules of packages, with their paths below the library."""
    library = ROOT / "src" / "glnn"
    found = [
        path for name in packages.split(",") for path in sorted((library / name).rglob("*.py"))
    ]
    return [str(path.relative_to(library)) for path in found if path.name != "__init__.py"]


def run_module(copy, module, options):
    """Try the faults of a module that have not been tried before."""
    source = (copy / "src" / "glnn" / module).read_text(encoding="utf-8")
    known = {(r["module"], r["operator"], r["change"]) for r in read(options.out)}
    if notices(copy, module, source, options.seconds) != "survived":
        print(f"left out  {module}: its tests fail or take too long without any fault", flush=True)
        return
    planted = faults(source, random.Random(f"{options.seed}{module}"), options.per_module)
    for operator, text in planted:
        change = " / ".join(line.strip() for line in _diff(source, text))
        if (module, operator, change) in known:
            continue
        answer = notices(copy, module, text, options.seconds)
        record = {"module": module, "operator": operator, "change": change, "answer": answer}
        with options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        print(f"{answer:<9}{module}: {change}", flush=True)


def read(path):
    """Return what was tried."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(path):
    """Print the share of noticed faults by package."""
    records = read(path)
    if not records:
        return
    for package in (*sorted({r["module"].split("/")[0] for r in records}), ""):
        own = [r for r in records if r["module"].startswith(package)]
        killed = sum(r["answer"] != "survived" for r in own)
        print(f"{package or 'all':<12}{killed} of {len(own)} noticed ({killed / len(own):.0%})")


if __name__ == "__main__":
    main()
