"""Mutation testing: plant small faults in the library and count those that its tests detect.

    python scripts/planted_faults --per-module 4 --jobs 2 --out docs/results/mutants.jsonl

Each fault is planted in a copy of the repository. The tests that reach its line run until one
fails, those of the module first and fast ones before slow ones. Which tests reach a line is
measured once (``--reach``, a folder). Records are kept in the file, so an interrupted run can be
resumed; survivors are tried again with ``--again``. The page next to the file lists the survivors
with the reasons of ``survivors.json``.
"""

import argparse
import json
import random
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import page
from faults import changed_line, difference, faults, statement_lines
from notice import ROOT, TestSelection, copy_repository, first_failure, preload, test_with_fault
from reach import Reach, measure

PACKAGES = "objective,solver,nn,engine,quality,data"


def main():
    """Plant faults, run tests, write records and page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--packages", default=PACKAGES)
    parser.add_argument("--modules", default="", help="such as engine/trained.py, with commas")
    parser.add_argument("--per-module", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=40.0, help="of tests for one fault")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--reach", type=Path, default=ROOT / "build" / "planted_faults")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    measure(ROOT, options.reach)
    modules = [name for name in options.modules.split(",") if name] or list_modules(
        options.packages
    )
    sys.dont_write_bytecode = True
    preload()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
        tried = [r for own in pool.map(run_module, modules, repeat(options)) for r in own]
    check_tests_pass({r["by"] for r in tried})
    others = [r for r in read(options.out) if r["module"] not in modules]
    records = sorted(others + tried, key=lambda r: r["module"])
    options.out.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    page.write(options.out.with_suffix(".md"), records)


def check_tests_pass(tests):
    """Check that the tests that detected faults pass without any fault."""
    with tempfile.TemporaryDirectory() as folder:
        named = {test for test in tests if test and "::" in test}
        files = {test.split("::")[0] for test in named}
        choice = TestSelection((), files, named.__contains__)  # in their usual order
        failed = first_failure(copy_repository(Path(folder)), choice, 3600)
        if failed is not None:
            raise SystemExit(f"{failed} fails without any fault; nothing was counted")


def list_modules(packages):
    """Return the modules of packages, with their paths below the library."""
    library = ROOT / "src" / "glnn"
    found = [
        path for name in packages.split(",") for path in sorted((library / name).rglob("*.py"))
    ]
    return [str(path.relative_to(library)) for path in found if path.name != "__init__.py"]


def run_module(module, options):
    """Return the records of the faults of a module; run those without a record."""
    tests = Reach(options.reach)
    known = {(r["module"], r["operator"], r["change"]): r for r in read(options.out)}
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_repository(Path(folder))
        source = (copy / "src" / "glnn" / module).read_text(encoding="utf-8")
        rng, records = random.Random(f"{options.seed}{module}"), []
        for operator, text in faults(source, rng, options.per_module):
            change = " / ".join(line.strip() for line in difference(source, text))
            record = known.get((module, operator, change))
            if record is None or (options.again and record["by"] is None):
                lines = statement_lines(source, changed_line(source, text))
                names = tests.select_tests(copy, module, lines, options.seconds)
                choice = TestSelection(names, tests.changed_files(copy, module), tests.is_new)
                by = test_with_fault(copy, module, text, choice, 60 + 3 * options.seconds)
                record = {"module": module, "operator": operator, "change": change, "by": by}
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(f"{module}: {change}: {by or f'SURVIVED {len(names)} tests'}", flush=True)
            records.append(record)
    return records


def read(path):
    """Return the records of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
