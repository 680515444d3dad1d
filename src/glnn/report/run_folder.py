"""The folder a run leaves: all its files or those of the run before, nothing pickled."""

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
    beside,
    check_replaceable,
    remove_leftovers,
    shown_path,
    swapped,
)
from glnn.engine.archive import write_sealed
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError, MissingDependencyError
from glnn.report.layout import plane_layout
from glnn.report.page.document import page_of, render
from glnn.report.page.page_data import write_page
from glnn.report.page.subset import MOST_NODES
from glnn.report.predict import DATA_PAGE
from glnn.report.results import FitResults, write_node_predictions
from glnn.report.sources import OpenedSource
from glnn.report.text import verdict_line, versions

OWN_FILES = (
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
    """Return where an unfinished run keeps what it needs to go on: beside its folder."""
    return beside(folder.resolve(), "state")


def prepare_folder(folder: Path, *, overwrite: bool, resume: bool = False) -> WriterLock:
    """Take the place of a run, or refuse one that holds something; nothing is replaced yet.

    What a killed run has left beside it is removed, its saved state too unless the run goes on.

    Parameters
    ----------
    folder
        Where the run will lie.
    overwrite
        Accept a folder with files; those a run writes will be replaced, others are left alone.
    resume
        Accept also what an unfinished run has written there, and keep its saved state.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, got the file {shown_path(folder)}.")
    check_replaceable(folder)
    lock = WriterLock.taken(folder.resolve())
    try:
        remove_leftovers(folder.resolve())
        if folder.is_dir() and any(folder.iterdir()) and not (overwrite or resume):
            raise InputError(
                f"{shown_path(folder)} must be empty or new, got a folder with files. "
                "Name another with --out, or replace the run with --overwrite."
            )
        if not resume:
            remove_state(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a run that has nothing to go on with."""
    return (folder / OWN_FILES[1]).is_file() and not state_folder(folder).exists()


def remove_state(folder: Path, *, only_empty: bool = False) -> None:
    """Remove the saved state of a run that is done, or starts anew, or has saved nothing yet."""
    state = state_folder(folder)
    if state.is_dir() and not (only_empty and any(state.iterdir())):
        shutil.rmtree(state)


def write_run(
    folder: Path, opened: OpenedSource, results: FitResults | None, model: GLNNClassifier
) -> tuple[str, ...]:
    """Write all files of a run beside, and put them in place in one move.

    Of several processes all call it; those without results only give their part of the model.

    Returns
    -------
    tuple of str
        What could not be written, in words.
    """
    if results is None:
        model.save(folder)
        return ()
    with swapped(folder, OWN_FILES) as new:
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
    write_sealed(folder / "data.json", *DATA_PAGE, _finite(data_page(opened)))
    _write_json(folder / "metrics.json", metrics(results))
    places = None
    if data.n_nodes <= MOST_NODES:
        places = plane_layout(results.adjacency, results.predictions)
    page = page_of(results, places)
    write_page(folder / "page.npz", page)
    _write_text(folder / "report.html", render(page))
    return write_picture(folder / "graph.png", results, places)


def write_picture(
    path: Path, results: FitResults, places: Float[np.ndarray, "n 2"] | None
) -> tuple[str, ...]:
    """Draw the learned graph into a PNG file; without matplotlib say what is missing."""
    from glnn.report import plots  # matplotlib is imported only when something is drawn

    try:
        image = plots.image_bytes(plots.graph_figure(results, places))
    except MissingDependencyError as error:
        return (f"no picture: {error}",)
    with atomic_write(path, "wb") as file:
        file.write(image)
    return ()


def metrics(results: FitResults) -> dict[str, Any]:
    """Return everything measured, ready for JSON."""
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
        "calibrated": results.calibrated_by is not None,
        "calibration": _calibration_page(results),
        "estimate": None if results.estimate is None else results.estimate.to_dict(),
        "suspect_labels": [str(data.node_ids[node]) for node in results.suspects],
        "scores": [score.to_dict() for score in results.scores],
        "graph": results.facts.to_dict(),
        "certificate": None if results.certificate is None else results.certificate.to_dict(),
        "settings": dict(results.settings),
        "seed": results.seed,
        "device": results.device,
        "seconds": dict(results.seconds),
        "versions": versions(),
    }


def _calibration_page(results: FitResults) -> dict[str, Any]:
    """Return where calibrated probabilities come from; no method where they are raw."""
    n_labels = 0 if results.calibration is None else results.calibration.n_labels
    return {"method": results.calibrated_by, "n_labels": n_labels}


def data_page(opened: OpenedSource) -> dict[str, Any]:
    """Return how the features were read, so that new rows can be read the same way."""
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
    _write_text(path, json.dumps(_finite(page), indent=2, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text)


def _finite(value: Any) -> Any:
    """Return the same with null for numbers that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
