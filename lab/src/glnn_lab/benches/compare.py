"""Time and memory of glnn and other methods, measured in turn in one run."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from glnn._utils import check_choice, check_integer
from glnn.data import NodeData, Split, load_dataset, make_split
from glnn.data.datasets import DATASETS, data_folders
from glnn.exceptions import InputError
from glnn_lab.benches.child import ExtraMemory, run_in_process, time_call
from glnn_lab.benches.contenders import CONTENDERS, PLAIN_GCN, Contender
from glnn_lab.experiments.machine import machine_facts, software_versions, use_threads
from glnn_lab.experiments.scale import attributed_graph, size_from_degree

GENERATED, TINY = "generated", "tiny"
DEFAULT_REPEATS = 7
_SAFE_SHARE = 0.5  # of the machine's memory that a contender may take
Watch = Callable[[str], None]

# pairs of contenders whose ratio of times is always reported
RATIOS = (
    ("glnn-default", PLAIN_GCN),
    ("glnn-paper", PLAIN_GCN),
    ("glnn-default", "own-gcn-default"),
    ("glnn-paper", "own-gcn-paper"),
    ("dense", "glnn-default"),
    ("dense", "glnn-paper"),
    ("pro-gnn", "glnn-default"),
    ("pro-gnn", "glnn-paper"),
)


@dataclass(frozen=True)
class BenchPlan:
    """The benchmark: data sets, contenders, repeats, threads, with or without memory."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...] = tuple(CONTENDERS)
    repeats: int = DEFAULT_REPEATS
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    memory: bool = True

    def __post_init__(self) -> None:
        check_integer("repeats", self.repeats, low=1)
        check_integer("threads", self.threads, low=1)
        for name in self.datasets:
            check_choice("dataset", name, (*DATASETS, GENERATED, TINY))
        for name in self.methods:
            check_choice("method", name, CONTENDERS)
        if not self.datasets or not self.methods:
            raise InputError("a bench must have at least one data set and one method.")


def default_datasets() -> tuple[str, ...]:
    """Return Cora if its file is on this machine, else a generated graph."""
    here = any((folder / "cora.npz").is_file() for folder in data_folders())
    return ("cora",) if here else (GENERATED,)


@lru_cache(maxsize=1)
def load_bench(name: str) -> tuple[NodeData, Split]:
    """Return a data set with a graph, and its public split or one with 20 labels per class."""
    check_choice("dataset", name, (*DATASETS, GENERATED, TINY))
    if name in (GENERATED, TINY):
        n_nodes, n_features = (2700, 128) if name == GENERATED else (120, 8)
        size = size_from_degree(
            n_nodes, 8, n_classes=3, n_features=n_features, misfits=0.1, homophily=0.7
        )
        data = attributed_graph(size, name=name).replace(splits={})
    else:
        data = load_dataset(name)
    if data.graph is None:
        raise InputError(f"a bench needs a data set with a graph, got {name}.")
    if data.splits:
        return data, make_split(data, "public", 0)
    n_val = min(500, data.n_nodes // 4)
    n_per_class = 20 if name != TINY else 5
    return data, make_split(data, "per_class", 0, n_per_class=n_per_class, n_val=n_val)


def run_bench(
    plan: BenchPlan,
    watch: Watch | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run the benchmark; return values for JSON.

    ``keep`` is called with the results so far after each data set.
    """
    say = watch or (lambda text: None)
    result: dict[str, Any] = {
        "repeats": plan.repeats,
        "threads": plan.threads,
        "machine": machine_facts(),
        "versions": software_versions(),
        "datasets": {},
    }
    for name in plan.datasets:
        data, _ = load_bench(name)
        rows = _compare(plan, name, say)
        sizes = {"n_nodes": data.n_nodes, "n_edges": data.n_edges, "n_features": data.n_features}
        result["datasets"][name] = {**sizes, "rows": rows, "ratios": _ratios(rows)}
        if keep is not None:
            keep(result)
    return result


def _compare(plan: BenchPlan, name: str, say: Watch) -> list[dict[str, Any]]:
    """Run every contender once in each repeat, then measure its memory in a separate process."""
    data, split = load_bench(name)
    contenders = [CONTENDERS[method] for method in plan.methods]
    rows = {c.name: _empty_row(c, data) for c in contenders}
    able = [c for c in contenders if not rows[c.name]["note"]]
    with use_threads(plan.threads):
        for contender in able:  # imports and compilation are not timed
            _warm_up(contender)
        for repeat in range(plan.repeats):
            for contender in able:
                if repeat < contender.max_repeats:
                    say(f"{name}: repeat {repeat + 1} of {plan.repeats}: {contender.title}")
                    _run_once(contender, data, split, rows)
    for contender in able:
        row = rows[contender.name]
        row |= _summarize_times(row["seconds"])
        if plan.memory:
            say(f"{name}: memory: {contender.title}")
            n_epochs = _epochs(contender, rows)
            found = run_in_process(
                "contender",
                plan.threads,
                method=contender.name,
                dataset=name,
                n_epochs=min(n_epochs, 20) if n_epochs else None,
            )
            row["peak_memory_mb"] = found.get("peak_memory_mb")
            row["note"] = row["note"] or found.get("error", "")
    return list(rows.values())


def _empty_row(contender: Contender, data: NodeData) -> dict[str, Any]:
    row: dict[str, Any] = {"name": contender.name, "title": contender.title}
    row |= {"seconds": [], "cpu_seconds": [], "n_epochs": None, "accuracy": None}
    row |= {"peak_memory_mb": None, "note": ""}
    if contender.package is not None and find_spec(contender.package) is None:
        row["note"] = "not installed"
    elif contender.bytes_per_pair * data.n_nodes**2 > _SAFE_SHARE * _machine_bytes():
        row["note"] = "does not fit this machine's memory"
    return row


def _machine_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _warm_up(contender: Contender) -> None:
    data, split = _tiny()
    contender.run(data, split, 0, 2)


@lru_cache(maxsize=1)
def _tiny() -> tuple[NodeData, Split]:
    return load_bench.__wrapped__(TINY)


def _run_once(
    contender: Contender, data: NodeData, split: Split, rows: dict[str, dict[str, Any]]
) -> None:
    row, n_epochs = rows[contender.name], _epochs(contender, rows)
    ran, measured = time_call(lambda: contender.run(data, split, 0, n_epochs))
    scale = 1.0 if ran.seconds is None else ran.seconds / measured.seconds
    row["seconds"].append(round(scale * measured.seconds, 4))
    row["cpu_seconds"].append(round(scale * measured.cpu_seconds, 4))
    row["n_epochs"] = ran.n_epochs
    row["note"] = ran.note
    if ran.classes is not None:
        row["accuracy"] = float((ran.classes == data.labels)[split.test].mean())


def _epochs(contender: Contender, rows: dict[str, dict[str, Any]]) -> int | None:
    model = rows.get(contender.epochs_of or "")
    return None if model is None else model["n_epochs"]


def _summarize_times(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, minimum and maximum of the repeats."""
    values = np.asarray(seconds)
    return {
        "median": float(np.median(values)),
        "least": float(values.min()),
        "most": float(values.max()),
    }


def _ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return median and range of the ratios within each repeat."""
    by_name = {row["name"]: row for row in rows}
    every = [(row["name"], PLAIN_GCN) for row in rows if row["name"] != PLAIN_GCN]
    found = []
    for first, second in dict.fromkeys([*RATIOS, *every]):
        above, below = by_name.get(first), by_name.get(second)
        if above is None or below is None or not above["seconds"] or not below["seconds"]:
            continue
        wall, cpu = (_paired_ratios(above[key], below[key]) for key in ("seconds", "cpu_seconds"))
        processor = {"cpu_median": float(np.median(cpu))}
        found.append({"of": first, "to": second, **_summarize_times(wall), **processor})
    return found


def _paired_ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    n_common = min(len(above), len(below))
    ratios = np.divide(above[:n_common], np.maximum(below[:n_common], 1e-4))
    return [float(ratio) for ratio in ratios]


def measure_memory(method: str, dataset: str, n_epochs: int | None) -> dict[str, Any]:
    """Return the peak memory of one run, with its data but without the libraries."""
    contender = CONTENDERS[check_choice("method", method, CONTENDERS)]
    _warm_up(contender)
    memory = ExtraMemory()
    data, split = load_bench(dataset)
    contender.run(data, split, 0, n_epochs)
    return {"peak_memory_mb": memory.megabytes()}
