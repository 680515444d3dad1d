"""Results of benchmarks as Markdown pages and JSON files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glnn.data.files import atomic_write, quote_path
from glnn.exceptions import InputError
from glnn_lab.benches.contenders import CONTENDERS
from glnn_lab.benches.growth import TASKS
from glnn_lab.pages.paper_tables import markdown_table

_GROWTH = {
    "seconds": "Seconds",
    "cpu_seconds": "Processor seconds",
    "peak_memory_mb": "Peak MB, data included",
}


def write_bench(result: Mapping[str, Any], folder: Path, name: str, command: str) -> Path:
    """Write ``NAME.json`` and ``NAME.md`` atomically; return the path of the page."""
    page = _PAGES[name]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        shown = quote_path(folder)
        raise InputError(
            f"--out must be a folder to write in: {shown}: {error.strerror}."
        ) from None
    with atomic_write(folder / f"{name}.json") as file:
        file.write(json.dumps({"command": command, **result}, indent=1, allow_nan=False) + "\n")
    target = folder / f"{name}.md"
    with atomic_write(target) as file:
        file.write(f"{page(result)}\n{_facts_section(result, command)}\n")
    return target


def compare_page(result: Mapping[str, Any]) -> str:
    """Return times, memory and ratios of all contenders, data set by data set."""
    lines = [
        "# Time and memory side by side\n",
        f"Medians of {result['repeats']} interleaved repeats (least to most), "
        f"{result['threads']} thread(s). Memory: peak of a fresh process above its libraries, data "
        "included. Ratios are medians of the ratios within each repeat; the column 'processor' "
        "compares processor seconds, which other work on the machine affects less.",
    ]
    for name, part in result["datasets"].items():
        sizes = f"{part['n_nodes']:,} nodes, {part['n_edges']:,} edges"
        header = ("method", "seconds", "processor s", "peak MB", "epochs", "accuracy", "note")
        lines += [f"\n## {name} ({sizes}, {part['n_features']:,} features)\n"]
        lines += [markdown_table(header, [_contender_cells(row) for row in part["rows"]]), ""]
        ratios = ("ratio of times", "median", "least to most", "processor")
        lines += [markdown_table(ratios, [_ratio_cells(ratio) for ratio in part["ratios"]])]
    return "\n".join(lines)


def _contender_cells(row: Mapping[str, Any]) -> list[str]:
    if not row["seconds"]:
        return [row["title"], "", "", "", "", "", row["note"]]
    accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.3f}"
    spread = f"{_digits(row['median'])} ({_digits(row['least'])} to {_digits(row['most'])})"
    cpu = sorted(row["cpu_seconds"])[len(row["cpu_seconds"]) // 2]
    epochs = f"{row['n_epochs']:,}" if row["n_epochs"] else ""
    return [
        row["title"],
        spread,
        _digits(cpu),
        _format_megabytes(row["peak_memory_mb"]),
        epochs,
        accuracy,
        row["note"],
    ]


def _ratio_cells(ratio: Mapping[str, Any]) -> list[str]:
    titles = [CONTENDERS[ratio[key]].title for key in ("of", "to")]
    spread = f"{_digits(ratio['least'])} to {_digits(ratio['most'])}"
    cpu = _digits(ratio["cpu_median"])
    return [f"{titles[0]} / {titles[1]}", _digits(ratio["median"]), spread, cpu]


def growth_page(result: Mapping[str, Any]) -> str:
    """Return time and memory by size, and the exponents."""
    rows = result["rows"]
    sizes = sorted({row["n_nodes"] for row in rows})
    lines = [
        "# Growth with the number of nodes\n",
        f"Generated graphs, mean degree {result['degree']}, {result['n_features']} features, "
        f"{result['threads']} thread(s), a process each; the whole fit has {result['n_epochs']} "
        "epochs in each classifier step. The exponent is the slope of a straight line through "
        "all sizes in logarithms.",
    ]
    for key, title in _GROWTH.items():
        header = ("task", *(f"{size:,}" for size in sizes), "exponent")
        found = {(row["task"], row["n_nodes"]): row for row in rows}
        cells = []
        for task, (words, _) in TASKS.items():
            mine = [found.get((task, size), {}) for size in sizes]
            if any(mine):
                slope = result.get("exponents", {}).get(task, {}).get(key)
                ends = "" if slope is None else f"{slope:.2f}"
                cells.append([words, *(_format_number(row, key) for row in mine), ends])
        lines += [f"\n## {title}\n", markdown_table(header, cells)]
    return "\n".join(lines)


def scale_page(result: Mapping[str, Any]) -> str:
    """Return time, memory and accuracy of each method on one large graph."""
    lines = [
        f"# {result['size']}\n",
        f"A generated graph, seed {result['seed']}, {result['replaced']:.0%} of its edges replaced "
        f"by random ones; {result['threads']} thread(s), a process each. Memory counts the data.\n",
    ]
    header = ("method", "nodes", "edges", "epochs", "seconds", "processor s", "peak MB", "accuracy")
    keys = ("n_nodes", "n_edges", "n_epochs", "seconds", "cpu_seconds", "peak_memory_mb")
    cells = []
    for row in result["rows"]:
        last = row.get("error") or f"{row['accuracy']:.4f}"
        cells.append([row["title"], *(_format_number(row, key) for key in keys), last])
    return "\n".join([*lines, markdown_table(header, cells)])


def first_page(result: Mapping[str, Any]) -> str:
    """Return the times of ``glnn fit`` by size, threads and other work on the machine."""
    epochs = "" if result["n_epochs"] is None else f", {result['n_epochs']} epochs"
    lines = [
        "# The first fit\n",
        f"`glnn fit` of a generated table with {result['n_columns']} columns and "
        f"{result['n_labels']} labels{epochs}, from the start of the command to the report: one "
        "fit, five folds, four rivals, picture and page. It runs alone and beside processes that "
        "only compute, with the threads that it chooses and with one. The ratios compare both: "
        "1 or less means that the choice costs nothing. Other work on the machine affects "
        "processor seconds less.\n",
    ]
    found = {(row["n_rows"], row["busy"], row["threads"]): row for row in result["rows"]}
    cells = []
    for size, busy in dict.fromkeys(key[:2] for key in found):
        chosen, single = (found.get((size, busy, threads), {}) for threads in (None, 1))
        keys = ("seconds", "cpu_seconds")
        is_whole = all(key in row for row in (chosen, single) for key in keys)
        ratios = [_digits(chosen[key] / single[key]) if is_whole else "" for key in keys]
        pair = [_format_number(row, key) for row in (chosen, single) for key in keys]
        cells.append([f"{size:,}", str(busy), *pair, *ratios])
    titles = ("rows", "busy processes", "seconds", "processor s", "one thread", "processor s")
    return "\n".join([*lines, markdown_table((*titles, "ratio", "processor"), cells)])


def processes_page(result: Mapping[str, Any]) -> str:
    """Return time and accuracy of fits over several processes."""
    epochs = "the preset's epochs" if result["n_epochs"] is None else f"{result['n_epochs']} epochs"
    lines = [
        "# A fit over several processes\n",
        f"Preset default, {epochs} in each classifier step, one thread a process. Processor "
        "seconds are those of all processes, and of the one that took most. Numbers are generated "
        "graphs with this many nodes; the exponent is the slope of a straight line through them in "
        "logarithms.\n",
    ]
    header = ("data", "processes", "epochs", "seconds", "processor s", "of one", "accuracy")
    keys = ("n_epochs", "seconds", "cpu_seconds", "cpu_of_one")
    cells = []
    for row in result["rows"]:
        last = row.get("error") or f"{row['accuracy']:.4f}"
        name = f"{row['data']:,}" if isinstance(row["data"], int) else row["data"]
        cells.append([name, row["task"], *(_format_number(row, key) for key in keys), last])
    lines.append(markdown_table(header, cells))
    slopes = [
        [task, _digits(found["seconds"]), _digits(found["cpu_seconds"])]
        for task, found in result["exponents"].items()
    ]
    if slopes:
        titles = ("processes", "exponent of seconds", "of processor seconds")
        lines += ["", markdown_table(titles, slopes)]
    return "\n".join(lines)


def revisions_page(result: Mapping[str, Any]) -> str:
    """Return time and accuracy of two commits on the same seeds."""
    seeds = ", ".join(map(str, result["seeds"]))
    header = ("data", "preset", "runs", "time", "processor time", "before", "after", "difference")
    cells = []
    for row in result["summary"]:
        times = [_digits(row[f"{key}_ratio"]) for key in ("seconds", "cpu_seconds")]
        right = [f"{100 * row[side]:.1f}" for side in ("before", "after")]
        error = "" if row["error"] is None else f" ± {100 * row['error']:.1f}"
        ahead = f"{100 * row['difference']:+.1f}{error}"
        cells.append([row["dataset"], row["preset"], str(row["runs"]), *times, *right, ahead])
    return "\n".join(
        [
            "# Another commit and this one\n",
            f"Fits of both in turn, seeds {seeds}, {result['threads']} thread(s). Times are those "
            "of this commit over the other's, medians of the seeds. Accuracy in %, means; "
            "difference with its standard error, paired by seed.\n",
            markdown_table(header, cells),
        ]
    )


def floor_page(result: Mapping[str, Any]) -> str:
    """Return the bytes and operations of an epoch, and its time."""
    header = ("product, each pass", "stored values", "width", "operations", "bytes")
    keys = ("stored", "width", "operations", "bytes")
    cells = [[p["product"], *(f"{p[key]:,}" for key in keys)] for p in result["products"]]
    micro = 1e6
    return "\n".join(
        [
            f"# The floor of an epoch: {result['dataset']}\n",
            f"A plain two-layer GCN in our engine, {result['threads']} thread(s); passes: "
            f"{', '.join(result['passes'])}. Sparse products alone are counted, each dense matrix "
            "read once.\n",
            markdown_table(header, cells),
            f"\nAll passes: {result['operations']:,} operations and {result['bytes']:,} bytes. A "
            f"copy moves {result['bandwidth'] / 1e9:.1f} GB/s here, so the floor is "
            f"{result['floor_seconds'] * micro:,.0f} µs an epoch; measured: "
            f"{result['epoch_seconds'] * micro:,.0f} µs, "
            f"{result['epoch_seconds'] / result['floor_seconds']:.1f} times the floor.",
        ]
    )


_PAGES = {
    "compare": compare_page,
    "first": first_page,
    "growth": growth_page,
    "scale": scale_page,
    "processes": processes_page,
    "floor": floor_page,
    "revisions": revisions_page,
}


def _facts_section(result: Mapping[str, Any], command: str) -> str:
    facts = {**result["machine"], **result["versions"]}
    rows = [(key, str(value)) for key, value in facts.items()]
    return f"\n## Made by\n\n    {command}\n\n{markdown_table(('machine', ''), rows)}"


def _format_number(row: Mapping[str, Any], key: str) -> str:
    if key not in row:
        return "failed" if "error" in row else ""
    return f"{row[key]:,}" if isinstance(row[key], int) else _digits(row[key])


def _format_megabytes(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _digits(value: float) -> str:
    """Return a number with three significant digits.

    Examples
    --------
    >>> _digits(0.12345), _digits(12.345), _digits(12345.6)
    ('0.123', '12.3', '12,346')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
