"""Measure the claims of docs/trust.md and docs/explain.md on new draws, and write their page.

    python lab/scripts/trust.py --jobs 16 --limit 3000 --out docs/results/trust.json
    python lab/scripts/trust.py --only noise --jobs 2 --most 2 --first 100
    python lab/scripts/trust.py --page docs/results/trust.json

The last command writes docs/results/trust.md from the file. Draws that the file has already are not
repeated, so that an aborted run can be resumed. Published graphs are read from the folder GLNN_DATA
and left out without it. Seeds begin at 300; settings were chosen on seeds below 200.
"""

import argparse
import json
import time
from pathlib import Path

from glnn.report.text import package_versions
from glnn_lab.experiments.trust import FIRST_SEED, PLAN, list_draws, run_draws
from glnn_lab.pages.trust_page import goal_rows, trust_page

_WRITE_EVERY = 5  # draws


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(PLAN), help="all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--most", type=int, help="maximum number of draws per case")
    parser.add_argument("--limit", type=float, help="start no draw after this many seconds")
    parser.add_argument("--out", type=Path, help="file of draws, continued if it exists")
    parser.add_argument("--page", type=Path, help="write the page of a file of draws")
    options = parser.parse_args()
    if options.page is not None:
        page = trust_page(json.loads(options.page.read_text(encoding="utf-8")))
        options.page.with_suffix(".md").write_text(page, encoding="utf-8")
        return
    for line in goal_rows(measure(options)):
        print(" | ".join(line))


def measure(options: argparse.Namespace) -> list:
    """Run the draws that the file does not have, write all rows and return them."""
    deadline = None if options.limit is None else time.time() + options.limit
    rows = []
    if options.out is not None and options.out.exists():
        rows = json.loads(options.out.read_text(encoding="utf-8"))["rows"]
    draws = list_draws(options.only or list(PLAN), options.first, options.most, rows)
    for number, row in enumerate(run_draws(draws, options.jobs, deadline), 1):
        rows.append(row)
        done = f"{number}/{len(draws)} {row['what']} {row['case']} {row['seed']}"
        print(f"{done} {row['seconds']:.1f} s", flush=True)
        if number % _WRITE_EVERY == 0:
            write(options.out, rows)
    write(options.out, rows)
    return rows


def write(path: Path | None, rows: list) -> None:
    """Write all rows so far, with versions."""
    if path is None:
        return
    order = sorted(
        rows, key=lambda row: (list(PLAN).index(row["what"]), str(row["case"]), row["seed"])
    )
    page = {"versions": package_versions(), "rows": order}
    path.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
