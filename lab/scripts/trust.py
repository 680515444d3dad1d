"""Measure what docs/trust.md and docs/explain.md claim, on fresh draws, and write the page of it.

    python lab/scripts/trust.py --jobs 16 --out docs/results/trust.json
    python lab/scripts/trust.py --only noise --only sets --jobs 2 --most 2 --first 100
    python lab/scripts/trust.py --page docs/results/trust.json

The last line turns the file into docs/results/trust.md. Seeds begin at 200; settings were chosen on
seeds below. Draws of every case take turns, and the file is written again and again, so that a run
which is cut short has some draws of each.
"""

import argparse
import json
import os
import time
from pathlib import Path

from glnn.report.text import versions
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.trust import PLAN, draws_of, gathered, made

_EVERY = 20  # draws between two writings


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(PLAN), help="all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--most", type=int, help="at most so many draws of a case")
    parser.add_argument("--limit", type=float, help="begin no draw after so many seconds")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, help="write the page of a file of draws")
    asked = parser.parse_args()
    if asked.page is not None:
        from glnn_lab.pages.trust_page import trust_page  # needs rich, measuring does not

        page = trust_page(json.loads(asked.page.read_text(encoding="utf-8")))
        asked.page.with_suffix(".md").write_text(page, encoding="utf-8")
        return
    measure(asked)


def measure(asked: argparse.Namespace) -> None:
    """Make the draws and write them as they come."""
    began = time.time()
    deadline = None if asked.limit is None else began + asked.limit
    draws = draws_of(asked.only or list(PLAN), asked.first, asked.most)
    rows = []
    for draw, row in made(draws, asked.jobs, deadline):
        rows.append((draw, row))
        print(f"{len(rows)}/{len(draws)} {draw} {row['seconds']:.1f} s", flush=True)
        if asked.out is not None and len(rows) % _EVERY == 0:
            write(asked, rows, began)
    if asked.out is not None:
        write(asked, rows, began)
    for found in gathered(rows):
        print(json.dumps(found))


def write(asked: argparse.Namespace, rows: list, began: float) -> None:
    """Write all draws so far, with what they were made by."""
    page = {
        "versions": versions(),
        "processors": os.cpu_count(),
        "jobs": asked.jobs,
        "seconds": time.time() - began,
        "rows": gathered(rows),
    }
    asked.out.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
