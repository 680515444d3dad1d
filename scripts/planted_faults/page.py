"""The page of planted faults: the share detected, and the reasons of the survivors."""

import json
from pathlib import Path

REASONS = Path(__file__).with_name("survivors.json")


def write(path, records):
    """Write the page beside the records."""
    path.write_text(
        page(records, json.loads(REASONS.read_text(encoding="utf-8"))), encoding="utf-8"
    )


def page(records, reasons):
    """Return the page: the share detected by package, then every survivor with its reason."""
    packages = sorted({r["module"].split("/")[0] for r in records})
    rows = [
        _row(name, [r for r in records if r["module"].startswith(f"{name}/")]) for name in packages
    ]
    survivors = [r for r in records if r["by"] is None]
    why = {(r["module"], r["change"]): r["why"] for r in reasons}
    return "\n".join(
        [
            "# Planted faults",
            "",
            "One small change of an operator, a number or a condition at a time, drawn at random",
            "from each module of the packages below; the tests that reach the changed line are run",
            "until one fails. A fault that makes them run without end counts as noticed.",
            "`make mutants` repeats this, and continues where it was stopped.",
            "",
            "| package | planted | noticed | share |",
            "|---|---|---|---|",
            *rows,
            _row("**all**", records),
            "",
            "## Not noticed",
            "",
            *(_survivor(r, why.get((r["module"], r["change"]))) for r in survivors),
            "",
        ]
    )


def _row(name, records):
    noticed = sum(r["by"] is not None for r in records)
    return f"| {name} | {len(records)} | {noticed} | {noticed / len(records):.1%} |"


def _survivor(record, why):
    old, _, new = record["change"].partition(" / ")
    reason = why or "**a test is missing**"
    return f"- `{record['module']}`: `{old[1:].strip()}` became `{new[1:].strip()}`: {reason}"
