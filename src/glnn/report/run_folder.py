"""The run folder: all files are replaced in one step, so that a failed run changes nothing."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glnn.data import write_graph
from glnn.data.files import (
    WriterLock,
    check_replaceable,
    lock_folder,
    quote_path,
    remove_leftovers,
    replace_folder,
    sibling_path,
    write_file,
)
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError, MissingDependencyError
from glnn.report.layout import plane_layout
from glnn.report.page.document import render
from glnn.report.page.subset import MAX_NODES
from glnn.report.plots import graph_figure, image_bytes
from glnn.report.predict import DataDescription
from glnn.report.results import Results, write_node_predictions, write_results
from glnn.report.sources import Source
from glnn.report.text import verdict_line

RUN_FILES = (
    "model.safetensors",
    "model.json",
    "graph.npz",
    "predictions.csv",
    "history.jsonl",
    "metrics.json",
    "split.json",
    "data.json",
    "graph.png",
    "results.npz",
    "report.html",
)


def state_folder(folder: Path) -> Path:
    """Return the folder for the state of an unfinished run, next to its run folder."""
    return sibling_path(folder.resolve(), "state")


def prepare_folder(folder: Path, *, overwrite: bool, resume: bool = False) -> WriterLock:
    """Check and lock a run folder; nothing in it is replaced yet.

    A folder with files is accepted with ``overwrite`` (only files of a run will be replaced) or
    ``resume`` (the saved state of an unfinished run is kept). Temporary files of a killed run are
    removed.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, got the file {quote_path(folder)}.")
    check_replaceable(folder)
    lock = lock_folder(folder.resolve())
    try:
        remove_leftovers(folder.resolve())
        if folder.is_dir() and any(folder.iterdir()) and not (overwrite or resume):
            raise InputError(
                f"{quote_path(folder)} must be empty or new, got a folder with files. "
                "Name another with --out, or replace the run with --overwrite."
            )
        if not resume:
            remove_state(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished run."""
    return (folder / "model.json").is_file() and not state_folder(folder).exists()


def remove_state(folder: Path, *, only_empty: bool = False) -> None:
    """Remove the saved state of a run; with ``only_empty`` only if nothing was saved."""
    state = state_folder(folder)
    if state.is_dir() and not (only_empty and any(state.iterdir())):
        shutil.rmtree(state)


def write_run(
    folder: Path, source: Source, results: Results | None, model: GLNNClassifier
) -> tuple[str, ...]:
    """Write all files of a run to a temporary folder, and put them in place in one step.

    All processes must call it; those without results only contribute their part of the model.
    Returns a line for each file that could not be written.
    """
    if results is None:
        model.save(folder)
        return ()
    with replace_folder(folder, RUN_FILES) as new:
        model.save(new)
        write_graph(results.adjacency, new / "graph.npz", source.data.ids)
        write_node_predictions(new / "predictions.csv", results)
        results.split.save(new / "split.json")
        lines = [json.dumps(_replace_nonfinite(record)) + "\n" for record in results.history]
        write_file(new / "history.jsonl", "".join(lines))
        DataDescription.of(source).write(new / "data.json")
        metrics = _replace_nonfinite(collect_metrics(results))
        write_file(new / "metrics.json", json.dumps(metrics, indent=2, allow_nan=False) + "\n")
        write_results(new / "results.npz", results)
        places = None
        if results.n_nodes <= MAX_NODES:
            places = plane_layout(results.adjacency, results.predictions)
        write_file(new / "report.html", render(results, places))
        try:
            image = image_bytes(graph_figure(results, places))
        except MissingDependencyError as error:
            return (f"no picture: {error}",)
        write_file(new / "graph.png", image)
    return ()


def collect_metrics(results: Results) -> dict[str, Any]:
    """Return everything that was measured, ready for JSON."""
    split, evaluation = results.split, results.evaluation
    parts = {"train": split.train, "validation": split.val, "test": split.test}
    certificate = results.certificate
    return {
        "verdict": verdict_line(results),
        "format": "glnn metrics",
        "version": 3,
        "data": {
            "name": results.name,
            "n_nodes": results.n_nodes,
            "n_given_edges": results.graph_facts.n_given,
            "classes": list(results.class_names),
            "notes": list(results.notes),
            "columns": dict(results.readings),
        },
        "labels": {"split": split.name, "seed": split.seed}
        | {f"n_{part}": int(nodes.size) for part, nodes in parts.items()},
        "calibrated": results.is_calibrated,
        "evaluation": None if evaluation is None else evaluation.to_dict(),
        "suspect_labels": [str(results.ids[node]) for node in results.suspects],
        "graph": asdict(results.graph_facts),
        "certificate": None if certificate is None else asdict(certificate),
        "settings": {**results.settings, "chosen": dict(results.choices)},
        "facts": dict(results.facts),
        "seconds": dict(results.seconds),
    }


def _replace_nonfinite(value: Any) -> Any:
    """Return the value with ``None`` in place of NaN and infinity, which JSON does not allow."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)
