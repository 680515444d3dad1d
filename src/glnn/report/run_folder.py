"""The run folder: all files are replaced in one step, so that a failed run changes nothing."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from glnn.data import write_graph
from glnn.data.files import (
    WriterLock,
    atomic_write,
    check_replaceable,
    quote_path,
    remove_leftovers,
    replace_folder,
    sibling_path,
)
from glnn.engine.archive import write_checked_json
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError, MissingDependencyError
from glnn.report.layout import plane_layout
from glnn.report.page.document import build_page, render
from glnn.report.page.page_data import write_page_data
from glnn.report.page.subset import MAX_NODES
from glnn.report.predict import DATA_FORMAT
from glnn.report.results import FitResults, write_node_predictions
from glnn.report.sources import OpenedSource
from glnn.report.text import package_versions, verdict_line

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
    "page.npz",
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
    lock = WriterLock.acquire(folder.resolve())
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
    return (folder / RUN_FILES[1]).is_file() and not state_folder(folder).exists()


def remove_state(folder: Path, *, only_empty: bool = False) -> None:
    """Remove the saved state of a run; with ``only_empty`` only if nothing was saved."""
    state = state_folder(folder)
    if state.is_dir() and not (only_empty and any(state.iterdir())):
        shutil.rmtree(state)


def write_run(
    folder: Path, opened: OpenedSource, results: FitResults | None, model: GLNNClassifier
) -> tuple[str, ...]:
    """Write all files of a run to a temporary folder, and put them in place in one step.

    All processes must call it; those without results only contribute their part of the model.
    Returns a line for each file that could not be written.
    """
    if results is None:
        model.save(folder)
        return ()
    with replace_folder(folder, RUN_FILES) as new:
        return _write_files(new, opened, results, model)


def _write_files(
    folder: Path, opened: OpenedSource, results: FitResults, model: GLNNClassifier
) -> tuple[str, ...]:
    model.save(folder)
    data = results.data
    write_graph(results.adjacency, folder / "graph.npz", data.ids)
    write_node_predictions(folder / "predictions.csv", results)
    results.split.save(folder / "split.json")
    _write_text(folder / "history.jsonl", results.history.to_jsonl())
    write_checked_json(
        folder / "data.json", *DATA_FORMAT, _replace_nonfinite(describe_data(opened))
    )
    _write_json(folder / "metrics.json", collect_metrics(results))
    places = None
    if data.n_nodes <= MAX_NODES:
        places = plane_layout(results.adjacency, results.predictions)
    page = build_page(results, places)
    write_page_data(folder / "page.npz", page)
    _write_text(folder / "report.html", render(page))
    return write_picture(folder / "graph.png", results, places)


def write_picture(
    path: Path, results: FitResults, places: Float[np.ndarray, "n 2"] | None
) -> tuple[str, ...]:
    """Draw the learned graph into a PNG file; without matplotlib return a line with the reason."""
    from glnn.report import plots  # matplotlib is imported only when something is drawn

    try:
        image = plots.image_bytes(plots.graph_figure(results, places))
    except MissingDependencyError as error:
        return (f"no picture: {error}",)
    with atomic_write(path, "wb") as file:
        file.write(image)
    return ()


def collect_metrics(results: FitResults) -> dict[str, Any]:
    """Return everything that was measured, ready for JSON."""
    split, data = results.split, results.data
    parts = {"train": split.train, "validation": split.val, "test": split.test}
    return {
        "verdict": verdict_line(results),
        "format": "glnn metrics",
        "version": 2,
        "data": {
            "name": data.name,
            "n_nodes": data.n_nodes,
            "n_features": data.n_features,
            "n_given_edges": data.n_edges,
            "classes": list(data.class_names),
            "provenance": dict(data.provenance),
            "notes": list(results.notes),
        },
        "labels": {"split": split.name, "seed": split.seed}
        | {f"n_{part}": int(nodes.size) for part, nodes in parts.items()},
        "accuracy": {
            "validation": results.accuracy("val"),  # on nodes that chose the epoch
            "test": results.accuracy("test"),
        },
        "calibrated": results.calibration_method is not None,
        "calibration": _describe_calibration(results),
        "comparison": None if results.verdict is None else results.verdict.to_dict(),
        "estimate": None if results.estimate is None else results.estimate.to_dict(),
        "suspect_labels": [str(data.node_ids[node]) for node in results.suspects],
        "scores": [score.to_dict() for score in results.scores],
        "graph": results.facts.to_dict(),
        "certificate": None if results.certificate is None else results.certificate.to_dict(),
        "settings": dict(results.settings),
        "seed": results.seed,
        "device": results.device,
        "seconds": dict(results.seconds),
        "versions": package_versions(),
    }


def _describe_calibration(results: FitResults) -> dict[str, Any]:
    """Return how probabilities were calibrated, and by how many labels."""
    n_labels = 0 if results.calibration is None else results.calibration.n_labels
    return {"method": results.calibration_method, "n_labels": n_labels}


def describe_data(opened: OpenedSource) -> dict[str, Any]:
    """Return how the features were read, to read new rows in the same way."""
    report, names, options = opened.report, opened.data.feature_names, opened.source.options
    return {
        "name": opened.data.name,
        "feature_names": None if names is None else list(names),
        "options": options.to_dict(),
        "encoder": None if report is None else report.encoder.to_dict(),
        "id_column": None if report is None else report.columns.id,
        "label_column": options.label_column or (report and report.columns.label),
    }


def _write_json(path: Path, page: Mapping[str, Any]) -> None:
    _write_text(path, json.dumps(_replace_nonfinite(page), indent=2, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text)


def _replace_nonfinite(value: Any) -> Any:
    """Return the value with ``None`` in place of NaN and infinity, which JSON does not allow."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _replace_nonfinite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_nonfinite(part) for part in value]
    return value
