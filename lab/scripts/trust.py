"""Measure the claims of docs/trust.md and docs/explain.md on new draws, and write their page.

    python lab/scripts/trust.py --jobs 16 --out docs/results/trust.json
    python lab/scripts/trust.py --only noise --only sets --jobs 2 --most 2 --first 100
    python lab/scripts/trust.py --page docs/results/trust.json

The last command writes docs/results/trust.md from the file. Seeds begin at 200; settings were
chosen on smaller seeds. Draws of all cases are interleaved, and the file is written repeatedly, so
that an aborted run has some draws of each.
"""

import argparse
import json
import os
import time
from pathlib import Path

from glnn.report.text import package_versions
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.trust import PLAN, gather_rows, list_draws, run_draws

_WRITE_EVERY = 20  # draws


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(PLAN), help="all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--most", type=int, help="maximum number of draws per case")
    parser.add_argument("--limit", type=float, help="start no draw after this many seconds")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, help="write the page of a file of draws")
    options = parser.parse_args()
    if options.page is not None:
        from glnn_lab.pages.trust_page import trust_page  # needs rich, measuring does not

        page = trust_page(json.loads(options.page.read_text(encoding="utf-8")))
        options.page.with_suffix(".md").write_text(page, encoding="utf-8")
        return
    measure(options)


def measure(options: argparse.Namespace) -> None:
    """Run the draws and write their rows."""
    began = time.time()
    deadline = None if options.limit is None else began + options.limit
    draws = list_draws(options.only or list(PLAN), options.first, options.most)
    rows = []
    for draw, row in run_draws(draws, options.jobs, deadline):
        rows.append((draw, row))
        print(f"{len(rows)}/{len(draws)} {draw} {row['seconds']:.1f} s", flush=True)
        if options.out is not None and len(rows) % _WRITE_EVERY == 0:
            write(options, rows, began)
    if options.out is not None:
        write(options, rows, began)
    for found in gather_rows(rows):
        print(json.dumps(found))


def write(options: argparse.Namespace, rows: list, began: float) -> None:
    """Write all rows so far, with versions and time."""
    page = {
        "versions": package_versions(),
        "processors": os.cpu_count(),
        "jobs": options.jobs,
        "seconds": time.time() - began,
        "rows": gather_rows(rows),
    }
    options.out.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
